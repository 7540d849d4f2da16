"""The slope of a line and of a logistic regression: several trusted servers, and devices.

`line_slope` fits y = θ x + e by least squares, also with p attributes, and `logistic_slope` fits
y = 1 or -1 by the logistic loss. Each has its estimators, their errors by formula, and their
limits, where they are known. Slopes are clipped to [-1, 1], or to ±1 / p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import estimators as engine
from deniable.simulations.engine import figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, number
from deniable.simulations.engine.presentation import BY_PEOPLE, View, estimator_table, figure, study
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table
from deniable.simulations.studies.bit_reports import Array
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic
from deniable.simulations.studies.regression.slope_questions import Formula

MANY = engine.Target("many people", "first_order")
SLOPE = engine.Unit("root mean squared error of the slope", 1.0)
N_ERROR = "n × mean squared error"
SEVERAL = (*line.TRUSTED, line.GRADIENT, line.SUMS)
MODELS = {"line": line, "logistic": logistic}
PRICES = {"line": "a line", "logistic": "logistic"}


def cells(options: Options) -> Sequence[Cell]:
    single = engine.sweep(options, "epsilon", "people")
    several = [{**cell, "attributes": p} for p in options["attributes"] for cell in single]
    return [*single, *several]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    return _several_slopes(case, generator) if "attributes" in cell else _one_slope(case, generator)


def _several_slopes(case: Case, generator: Generator) -> list[Row]:
    n, p, response = case.people, case.attributes, RandomizedResponse(case.epsilon)
    errors = line.several_drawn(response, n, p, case.repetitions, generator)
    formulas = line.several_formulas(float(case.epsilon), p)
    return [
        _row("line", case, one, formulas[one], math.sqrt(p) * off) for one, off in errors.items()
    ]


def _one_slope(case: Case, generator: Generator) -> list[Row]:
    n, epsilon, response = case.people, float(case.epsilon), RandomizedResponse(case.epsilon)
    rows: list[Row] = []
    for name, model in MODELS.items():
        estimates = _estimates(case, model, response, generator)
        exact, limits = model.exact(response, n), model.limits(epsilon, n)
        for one, formula in model.formulas(epsilon).items():
            known = exact.get(one), limits.get(one.model)
            rows.append(_row(name, case, one, formula, estimates[one] - model.SLOPE, *known))
    return rows


def _row(
    name: str,
    case: Case,
    one: Estimator,
    formula: Formula,
    errors: Array,
    exact: float | None = None,
    limit: float | None = None,
) -> Row:
    n, attributes = case.people, case.cell.get("attributes", 1)
    keys = {
        "response": name, "epsilon": str(case.epsilon), "people": n, "attributes": attributes,
    }  # fmt: skip
    noise = formula.added(n) if one.model == "central" else None
    columns = {"first_order": formula.error(n), "noise": noise}
    return engine.row_of(one, keys, {"limit": limit}, Risk(exact, errors, columns=columns))


def _estimates(
    case: Case, model: ModuleType, response: RandomizedResponse, generator: Generator
) -> dict[Estimator, Array]:
    n, times, epsilon = case.people, case.repetitions, float(case.epsilon)
    people = model.crowd(n, times, generator)
    return {
        model.NONE: people.minimum(),
        model.EXPONENTIAL: people.exponential(epsilon, generator),
        model.KNG: people.kng(epsilon, generator),
        model.OBJECTIVE: people.objective(epsilon, generator),
        model.NOISY_SUMS: people.noisy_sums(epsilon, generator),
        **{
            one: question.drawn(response, n, times, generator)
            for one, question in model.questions(response, n).items()
        },
    }


def report(view: View) -> Report:
    epsilon, people, p = view.epsilon, view.people, max(view.options["attributes"])
    rows, most = view.rows.at(attributes=1), view.options["people"][-1]
    shown, with_p = rows.at(epsilon=epsilon), view.along("attributes").at(response="line")
    ratios = [number(row, "measured") / number(row, "first_order") for row in rows.at(people=most)]
    largest = with_p.at(attributes=p)
    n = {row["estimator"]: number(row, _times_n) for row in shown.at(people=people)}
    values = {
        "n": n,
        "price": n[line.SUMS.name] / n[line.EXPONENTIAL.name],
        "kng_price": n[line.SUMS.name] / n[line.KNG.name],
        "over": n[line.SIGNS.name] / line.limit(float(epsilon)),
        "trusted": n[logistic.EXPONENTIAL.name] / n[logistic.NONE.name],
        "logistic_over": n[logistic.AGREEMENT.name] / logistic.limit(float(epsilon)),
        "bias": abs(logistic.BIAS),
        "p": p,
        "several": {row["estimator"]: number(row, _times_n) for row in largest},
        "noise": largest.price(line.NOISY_SUMS, line.KNG, "noise"),
        "least": min(ratios),
        "largest": max(ratios),
    }
    drawings, tables, prices = {}, [], []
    for name, key, what in (("line", "error", "line's"), ("logistic", "logistic", "logistic")):
        model, own = MODELS[name], rows.at(response=name)
        parts = {"a trusted server": model.TRUSTED, "devices": model.DEVICES}
        panels = [
            figures.error_panel(title, shown, estimators, MANY, SLOPE)
            for title, estimators in parts.items()
        ]
        title = f"The error of a {what} slope, ε {epsilon}"
        drawings[key] = figures.drawing(*panels, title=title)
        curves = _price_curves(own.at(people=people), model)
        prices.append(figures.Panel(PRICES[name], curves, "ε", N_ERROR))
        title = f"n times the squared error of a {what} slope, by formula for many people"
        tables.append(_table(title, own, (*model.TRUSTED, *model.DEVICES), "first_order"))
    title, each = f"Slopes, on {people:,} devices", figures.scaled(_people, "first_order")
    attributes = figures.Panel(
        f"All slopes of a line, ε {epsilon}",
        each.curves_of(SEVERAL, with_p, "attributes"),
        *("attributes", "n × sum of mean squared errors"),
    )
    several = f"n times the squared error of all slopes of a line, measured, ε {epsilon}"
    keys = {"attributes": "attributes", "people": "people"}
    lines = view.rows.at(epsilon=epsilon, response="line")
    return view.report(
        values,
        {
            **drawings,
            "price": figures.drawing(*prices, title=title, share_y=False),
            "attributes": figures.drawing(attributes),
        },
        [*tables, _table(several, lines, SEVERAL, "measured", keys)],
    )


def _times_n(row: Row, key: str = "first_order") -> float | None:
    return None if row[key] is None else number(row, "people") * number(row, key)


def _people(row: Row) -> float:
    return number(row, "people")


def _table(
    title: str,
    rows: Rows,
    estimators: Sequence[Estimator],
    key: str,
    keys: Mapping[str, str] = BY_PEOPLE,
) -> Table:
    return estimator_table(
        title, rows, estimators, lambda row: figure(number(row, partial(_times_n, key=key))), keys
    )


def _price_curves(rows: Rows, model: ModuleType) -> list[figures.Curve]:
    first, *others = model.DEVICES
    devices = figures.scaled(_people, "first_order", False)
    curves = devices.curves_of((first, *others, model.NONE), rows, "epsilon")
    limit = partial(_times_n, key="limit")
    own = rows.of(first)
    return [*curves, figures.curve(own, first.look, "epsilon", limit, "local limit", "limit")]


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
    option.sizes("attributes", "4", 2, 16, "numbers of attributes, of a line with several"),
)
STUDY = study("regression", OPTIONS, cells, run, report)
