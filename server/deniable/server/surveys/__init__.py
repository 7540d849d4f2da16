"""Published surveys, from a file to the public list.

`survey_file` parses the files that people write, and adds tables from `optimal_table`.
`replacement` compares a survey with the one that it replaces. `catalogue` publishes, finds and
caches surveys; clients fetch the `public_list`. `shared_results` makes the secret addresses of
shared pages. `clock` provides the time.
"""
