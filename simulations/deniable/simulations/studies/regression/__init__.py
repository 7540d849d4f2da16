"""The slope of a line and of a logistic regression: several trusted servers, and devices.

`line_slope.py` fits y = θ x + e by squares, `logistic_slope.py` fits y = 1 or -1 by the logistic
loss; each has its estimators, their errors by formula, and their limits. Estimates are clipped to
[-1, 1]. Trusted noise in floating point simulates its distribution (`central/slopes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import figures, option, sentences
from deniable.simulations.engine.estimators import (
    Columns,
    Estimator,
    Risk,
    Rows,
    Target,
    Unit,
    grid,
    middle,
    number,
    row_of,
)
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic

MANY = Target("many people", "first_order", "measured", "error", "limit")
Series = Sequence[Estimator]
SLOPE = Unit("root mean squared error of the slope", 1.0)
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    response = RandomizedResponse(Epsilon(str(cell["epsilon"])))
    epsilon, n, times = float(response.epsilon), int(cell["people"]), int(cell["repetitions"])
    rows: list[Row] = []
    for name, model in (("line", line), ("logistic", logistic)):
        estimates, exact = model.drawn(response, n, times, generator), model.exact(response, n)
        limits = model.limits(epsilon, n)
        for one, formula in model.formulas(epsilon).items():
            errors = estimates[one] - model.SLOPE
            columns = {
                "first_order": formula.error(n),
                "noise": formula.added(n) if one.model == "central" else None,
            }
            keys: Columns = {"response": name, "epsilon": str(response.epsilon), "people": n}
            limit = {"limit": limits.get(one.model)}
            rows.append(row_of(one, keys, limit, Risk(exact.get(one), errors, columns=columns)))
    return rows


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon = Rows(found), middle(options["epsilon"])
    people, most = middle(options["people"]), options["people"][-1]
    shown, ratios = rows.at(epsilon=epsilon), [_over(row) for row in rows.at(people=most)]

    def errors(name: str, what: str, note: str, trusted: Series, devices: Series) -> Figure:
        panels = [
            figures.error_panel(title, shown, estimators, target=MANY, unit=SLOPE)
            for title, estimators in (("a trusted server", trusted), ("devices", devices))
        ]
        return Figure(
            name,
            f"The error of {what} against the number of people, at ε {epsilon}{note}. Lines are "
            "formulas for many people, points are simulations, dotted lines are limits.",
            lambda: figures.draw(panels, f"The error of {what}, ε {epsilon}"),
        )

    prices = [
        figures.Panel(title, _price_curves(rows.at(people=people), model.DEVICES, model.NONE),
                      "ε", "n × mean squared error")
        for title, model in (("a line", line), ("logistic", logistic))
    ]  # fmt: skip
    return Report(
        _findings(shown.at(people=people)),
        [
            errors("error", "a line's slope", "", line.TRUSTED, line.DEVICES),
            errors(
                "logistic",
                "a logistic slope",
                f": sums of a polynomial have a bias of {abs(logistic.BIAS):.4f}, whatever the "
                "number of people",
                *(logistic.TRUSTED, logistic.DEVICES),
            ),
            Figure(
                "price",
                f"n times the squared error with {people:,} people, against ε: devices that answer "
                "better questions, and the limit of local protocols.",
                lambda: figures.draw(prices, f"Slopes, on {people:,} devices", share_y=False),
            ),
        ],
        [
            _table(rows, "a line's slope", line.SERIES),
            _table(rows, "a logistic slope", logistic.SERIES),
        ],
        sentences.paragraphs(
            f"""x is uniform on [-1, 1], y is x / 2 and an error uniform on ±1/2; in the logistic
            regression x is one of 16 values, and y is 1 or -1, with log-odds x / 2. People are
            drawn, and ε protects against replacing one of them by another. Lines are formulas to
            first order for many people; `exact` in the rows is exact, where that is known.

            Each line is drawn {options["repetitions"]:,} times. A line's sums over people are drawn
            from normal distributions; people of the logistic regression and counts of reports are
            drawn exactly, given the questions. With {most:,} people the mean squared errors are
            {min(ratios):.2f} to {max(ratios):.2f} times the formulas.

            Trusted noise is drawn in floating point, to simulate its distribution. Reports of
            devices are randomized bits, of a number rounded at random to an end of its range."""
        ),
    )


def _over(row: Row) -> float:
    return number(row, "measured") / number(row, "first_order")


def _times_n(row: Row, key: str = "first_order") -> float | None:
    return None if row[key] is None else number(row, "people") * number(row, key)


def _findings(cell: Rows) -> list[str]:
    epsilon, people = number(cell[0], "epsilon"), int(number(cell[0], "people"))
    value = {
        one: people * number(cell.one(one), "first_order")
        for one in (*line.SERIES, *logistic.SERIES)
    }
    text = {one: figure(error) for one, error in value.items()}
    price, kng_price = (figure(value[line.SUMS] / value[o]) for o in (line.EXPONENTIAL, line.KNG))
    least = figure(value[line.SIGNS] / line.limit(epsilon))
    over = figure(value[logistic.AGREEMENT] / logistic.limit(epsilon))
    trusted = figure(value[logistic.EXPONENTIAL] / value[logistic.NONE])
    return sentences.paragraphs(
        f"""With {people:,} people at ε {cell[0]["epsilon"]}, sums on devices need {price} times the
        people of a trusted exponential mechanism, and {kng_price} times those of KNG: the choice of
        the trusted server matters more than the choice of the device.

        n times the squared error is {text[line.NONE]} without privacy; on devices it is
        {text[line.GRADIENT]} by gradients, {text[line.HALVES]} by sums in halves,
        {text[line.SUMS]} by sums with the best split, and {text[line.SIGNS]} by signs: {least}
        times the limit of local protocols.

        For a logistic regression it is {text[logistic.NONE]} without privacy, and {trusted} times
        that with a trusted exponential mechanism; on devices it is {text[logistic.GRADIENT]} by
        gradients, {text[logistic.SIGNS]} by signs, and {text[logistic.AGREEMENT]} by reporting once
        whether x and y agree: {over} times the limit of local protocols."""
    )


def _table(rows: Rows, what: str, estimators: Series) -> Table:
    return sentences.table(
        f"n times the squared error of {what}, by formula for many people",
        rows,
        {"ε": "epsilon", "people": "people"},
        {
            one.label: sentences.column(one, lambda row: figure(_times_n(row) or 0.0))
            for one in estimators
        },
    )


def _price_curves(rows: Rows, devices: Series, none: Estimator) -> list[figures.Curve]:
    curves = [
        figures.curve(rows.of(one), one.look, "epsilon", _times_n, one.label)
        for one in (*devices, none)
    ]
    first = devices[0]
    return [
        *curves,
        figures.curve(
            *(rows.of(first), first.look, "epsilon", lambda row: _times_n(row, "limit")),
            *("local limit", "limit"),
        ),
    ]


STUDY = Study(
    name="regression",
    question="What does the slope of a trend cost without trusting the server?",
    options=OPTIONS,
    cells=grid("epsilon", "people"),
    run=run,
    report=report,
    where="pool",
    formulas=(
        (
            "a line, and a logistic regression",
            r"y = θ x + e, \quad P(y = 1) = \dfrac{1}{1 + e^{-θ x}}",
        ),
        (
            "devices, gradients of a line",
            (
                r"\dfrac{16 C^2 S^2}{n}, \quad C = \dfrac{1}{\tanh(ε / 2)}, \quad "
                r"S = \dfrac{1}{2 \mathrm{E} x^2}"
            ),
        ),
        (
            "devices, sums with the best split",
            r"\dfrac{(\sqrt{A} + \sqrt{B})^2}{n (\mathrm{E} x^2)^2}",
        ),
        ("devices that say whether x and y agree", r"\dfrac{V + a(1 - a)}{n D^2}"),
        (
            "a trusted exponential mechanism, a line",
            r"\dfrac{\mathrm{Var}\, e}{n \mathrm{E} x^2} + \dfrac{8S}{ε n}",
        ),
    ),
)
