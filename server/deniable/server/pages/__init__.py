"""Pages of the server, by Flask and Jinja; each shows what the JSON of the same address holds.

`access` decides who sees a page. `dashboard`, `survey_page` and `question_view` show the results of
`deniable.server.results`, with the drawings of `charts`; the other modules each have a page or two.
"""
