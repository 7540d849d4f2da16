"""Engine that runs every study and presents its results.

`command` (or `simulate` in Python) loads a `study`, reads its options with `option`, and runs its
`cells`, keeping a journal. The rows become a `study_result`: JSON, text, CSV and a `page`.

A study is a module of declarations, such as `studies/bit.py`:

    OPTIONS     options, made by functions of `option`
    estimators  `LOCAL = Estimator(model, name, label, look)`: local, central or without privacy
    run         makes a `Case(cell, generator)` and a `Risk` for each estimator (exact error,
                errors simulated with `case.generator(LOCAL)`, further columns) and the limits of
                each model; returns `case.rows(keys, risks, limits, sampling)`
    report      reads a `View`: `view.along("people")`, `view.cell.one(LOCAL)`, `view.epsilon`;
                returns `view.report(values, figures, tables)`, with figures and tables from
                `figures` and `presentation`; the values fill the fields of the page's text
    STUDY       `study(name, OPTIONS, cells, run, report)`, whose `cells` are `grid(...)` or
                `cross(...)`; `pages/NAME.txt` has the question, findings, captions and formulas

The engine seeds each estimator by its name, measures its errors, and adds a row wherever a trusted
server would do better by running a local mechanism itself.
"""
