"""The engine that runs every study and presents its result.

`command` (or `simulate` in Python) takes a `study` from the table, reads each `option`, and runs
the `cells` with a journal. The rows become a `study_result`: JSON, text, CSV, a `page`.

A study is a page of declarations (`studies/bit.py` is one):

    OPTIONS     from `option`
    estimators  `LOCAL = Estimator(model, name, label, look)`, also for curators and no privacy
    run         makes a `Case(cell, generator)`, computes a `Risk` of each estimator (exact error,
                simulated errors from `case.generator(LOCAL)`, columns), the limits of each model,
                and returns `case.rows(keys, risks, limits, sampling)`
    report      takes `Rows(rows)`: `at(epsilon="1")`, `one(LOCAL)`, `price(LOCAL, CENTRAL)`.
                `figures` has `error_figure`, `ratio_figure`, `price_figure`, and `draw` for panels
                of `Curve`s; `sentences` has `error_tables`, `table`, `method` and numbers as text
    STUDY       `Study(...)`, whose `cells` are `estimators.grid(...)` or `estimators.cross(...)`

The engine seeds each estimator with its name, measures errors, adds a row where a curator gains by
running a mechanism of devices, and puts options, rows and findings into the JSON form.
"""
