"""The engine that runs every study and presents its result.

`command` (or `simulate` in Python) takes a `study` from the table, reads each `option`, and runs
the `cells` with a journal. The rows become a `study_result`: JSON, text, `figures`, a `page`.
Studies share the row forms of `comparison` and `estimator_rows`, and `custom_mechanisms`.
"""
