"""Pages of the server, made with Flask and Jinja; the JSON of a page has the same address.

`access` decides who sees a page. `dashboard` lists the surveys. `survey_page` reads the results of
one survey, `question_view` arranges them, and `charts` computes the positions in drawings. The
other modules are separate pages: the planner and its form, pages for operators, pages for anyone.
"""
