"""The slope of a line and of a logistic regression: several trusted servers, and devices.

`line_slope` fits y = θ x + e by least squares, `logistic_slope` fits y = 1 or -1 by the logistic
loss. Each has its estimators, their errors by formula, and their limits. Estimates are clipped to
[-1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import estimators as engine
from deniable.simulations.engine import figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic

MANY = engine.Target("many people", "first_order", "measured", "error", "limit")
SLOPE = engine.Unit("root mean squared error of the slope", 1.0)
Series = Sequence[Estimator]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, epsilon, response = case.people, float(case.epsilon), RandomizedResponse(case.epsilon)
    rows: list[Row] = []
    for name, model in (("line", line), ("logistic", logistic)):
        estimates = model.drawn(response, n, case.repetitions, generator)
        exact, limits = model.exact(response, n), model.limits(epsilon, n)
        keys = {"response": name, "epsilon": str(case.epsilon), "people": n}
        for one, formula in model.formulas(epsilon).items():
            noise = formula.added(n) if one.model == "central" else None
            columns = {"first_order": formula.error(n), "noise": noise}
            risk = Risk(exact.get(one), estimates[one] - model.SLOPE, columns=columns)
            rows.append(engine.row_of(one, keys, {"limit": limits.get(one.model)}, risk))
    return rows


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon = Rows(found), middle(options["epsilon"])
    people, most = middle(options["people"]), options["people"][-1]
    shown = rows.at(epsilon=epsilon)
    ratios = [number(row, "measured") / number(row, "first_order") for row in rows.at(people=most)]

    def errors(name: str, what: str, note: str, trusted: Series, devices: Series) -> Figure:
        panels = [
            figures.error_panel(title, shown, estimators, target=MANY, unit=SLOPE)
            for title, estimators in (("a trusted server", trusted), ("devices", devices))
        ]
        return Figure(
            name,
            f"The error of {what} against the number of people, at ε {epsilon}{note}. "
            f"{figures.LINES_AND_POINTS}",
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
                f": noisy sums have a bias of {abs(logistic.BIAS):.4f} for any number of people",
                *(logistic.TRUSTED, logistic.DEVICES),
            ),
            Figure(
                "price",
                f"n times the squared error with {people:,} people, against ε: what better "
                "questions to devices gain, and the limit for local protocols.",
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
            drawn, and ε protects the replacement of one person by another. Lines are formulas to
            first order for many people; the column `exact` has exact errors, where these are known.

            Each estimator is drawn {options["repetitions"]:,} times. The sums over people on a line
            are drawn from normal distributions; people of the logistic regression and counts of
            reports are drawn exactly, given the questions. With {most:,} people the mean squared
            errors are {min(ratios):.2f} to {max(ratios):.2f} times the formulas.

            Trusted noise is drawn in floating point, to simulate its distribution. A device rounds
            a number at random to an end of its range, and reports that end as a randomized bit."""
        ),
    )


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
        f"""With {people:,} people at ε {cell[0]["epsilon"]}, sums on devices have {price} times the
        squared error of a trusted exponential mechanism, and {kng_price} times that of KNG: the
        choice of the trusted mechanism matters more than the choice of the local one.

        n times the squared error is {text[line.NONE]} without privacy. On devices it is
        {text[line.GRADIENT]} by gradients, {text[line.HALVES]} by sums in halves,
        {text[line.SUMS]} by sums with the best split, and {text[line.SIGNS]} by signs, which is
        {least} times the limit for local protocols.

        For a logistic regression it is {text[logistic.NONE]} without privacy, and {trusted} times
        that with a trusted exponential mechanism. On devices it is {text[logistic.GRADIENT]} by
        gradients, {text[logistic.SIGNS]} by signs, and {text[logistic.AGREEMENT]} if each device
        reports whether x and y agree, which is {over} times the limit for local protocols."""
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
    first, shown = devices[0], (*devices, none)
    limit = figures.curve(
        rows.of(first),
        first.look,
        "epsilon",
        lambda row: _times_n(row, "limit"),
        "local limit",
        "limit",
    )
    curves = [figures.curve(rows.of(o), o.look, "epsilon", _times_n, o.label) for o in shown]
    return [*curves, limit]


STUDY = Study(
    name="regression",
    question="What does the slope of a trend cost without trusting the server?",
    options=(
        option.epsilons("0.5,1,2,4"),
        option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
        option.repetitions(300),
    ),
    cells=engine.grid("epsilon", "people"),
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
        ("devices that report whether x and y agree", r"\dfrac{V + a(1 - a)}{n D^2}"),
        (
            "a trusted exponential mechanism, a line",
            r"\dfrac{\mathrm{Var}\, e}{n \mathrm{E} x^2} + \dfrac{8S}{ε n}",
        ),
    ),
)
