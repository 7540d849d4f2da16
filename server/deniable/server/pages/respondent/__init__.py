"""Pages for respondents: `/ask/NAME`, where a person answers a survey in a browser.

In reading order: `page_files` renders the files of a page and lists their hashes; `hosted_page`
writes them to a folder for another host, and compares a hosted page with the register.
"""
