"""Pages of the server, by Flask and Jinja; each shows the JSON of the same address.

`access` decides who sees a page. `dashboard` lists the surveys; `survey_page` reads the results of
one, `question_view` arranges them, and `charts` places what is drawn. `planner` and its form, the
operators' pages and those for anyone (`public_pages`) are separate.
"""
