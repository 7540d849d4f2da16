"""The slope of a line and of a logistic regression: several trusted servers, and devices.

`line_slope` fits y = θ x + e by least squares, `logistic_slope` fits y = 1 or -1 by the logistic
loss. Each has its estimators, their errors by formula, and their limits. Estimates are clipped to
[-1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import estimators as engine
from deniable.simulations.engine import figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.page_text import PageText
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table
from deniable.simulations.studies.bit_reports import Array
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic

MANY = engine.Target("many people", "first_order", "measured", "error", "limit")
SLOPE = engine.Unit("root mean squared error of the slope", 1.0)
N_ERROR = "n × mean squared error"
MODELS = {"line": line, "logistic": logistic}


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, epsilon, response = case.people, float(case.epsilon), RandomizedResponse(case.epsilon)
    rows: list[Row] = []
    for name, model in MODELS.items():
        estimates = _estimates(case, model, response, generator)
        exact, limits = model.exact(response, n), model.limits(epsilon, n)
        keys = {"response": name, "epsilon": str(case.epsilon), "people": n}
        for one, formula in model.formulas(epsilon).items():
            noise = formula.added(n) if one.model == "central" else None
            columns = {"first_order": formula.error(n), "noise": noise}
            risk = Risk(exact.get(one), estimates[one] - model.SLOPE, columns=columns)
            rows.append(engine.row_of(one, keys, {"limit": limits.get(one.model)}, risk))
    return rows


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


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon = Rows(found), middle(options["epsilon"])
    people, most = middle(options["people"]), options["people"][-1]
    shown = rows.at(epsilon=epsilon)
    ratios = [number(row, "measured") / number(row, "first_order") for row in rows.at(people=most)]
    n = {row["estimator"]: number(row, _times_n) for row in shown.at(people=people)}
    values = {
        "n": n,
        "price": n[line.SUMS.name] / n[line.EXPONENTIAL.name],
        "kng_price": n[line.SUMS.name] / n[line.KNG.name],
        "over": n[line.SIGNS.name] / line.limit(float(epsilon)),
        "trusted": n[logistic.EXPONENTIAL.name] / n[logistic.NONE.name],
        "logistic_over": n[logistic.AGREEMENT.name] / logistic.limit(float(epsilon)),
        "bias": abs(logistic.BIAS),
        "most": most,
        "least": min(ratios),
        "largest": max(ratios),
    }

    def errors(what: str, model: ModuleType) -> figures.Draw:
        parts = {"a trusted server": model.TRUSTED, "devices": model.DEVICES}
        panels = [
            figures.error_panel(title, shown, estimators, target=MANY, unit=SLOPE)
            for title, estimators in parts.items()
        ]
        return figures.drawing(*panels, title=f"The error of {what}, ε {epsilon}")

    prices = [
        figures.Panel(title, _price_curves(rows.at(people=people), model), "ε", N_ERROR)
        for title, model in (("a line", line), ("logistic", logistic))
    ]
    title = f"Slopes, on {people:,} devices"
    return TEXT.report(
        options,
        values,
        {
            "error": errors("a line's slope", line),
            "logistic": errors("a logistic slope", logistic),
            "price": figures.drawing(*prices, title=title, share_y=False),
        },
        [_table(rows, "a line's slope", line), _table(rows, "a logistic slope", logistic)],
    )


def _times_n(row: Row, key: str = "first_order") -> float | None:
    return None if row[key] is None else number(row, "people") * number(row, key)


def _table(rows: Rows, what: str, model: ModuleType) -> Table:
    columns = {
        one.label: sentences.column(one, lambda row: figure(_times_n(row) or 0.0))
        for one in (*model.TRUSTED, *model.DEVICES)
    }
    title = f"n times the squared error of {what}, by formula for many people"
    return sentences.table(title, rows, {"ε": "epsilon", "people": "people"}, columns)


def _price_curves(rows: Rows, model: ModuleType) -> list[figures.Curve]:
    def curve(one: Estimator, key: str, label: str, form: figures.Form) -> figures.Curve:
        y = partial(_times_n, key=key)
        return figures.curve(rows.of(one), one.look, "epsilon", y, label, form)

    shown = (*model.DEVICES, model.NONE)
    curves = [curve(one, "first_order", one.label, "marked") for one in shown]
    return [*curves, curve(shown[0], "limit", "local limit", "limit")]


TEXT = PageText("regression")
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
)
STUDY = TEXT.study(OPTIONS, engine.grid("epsilon", "people"), run, report, where="pool")
