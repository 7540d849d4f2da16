"""A slope, of a line and of a logistic regression: one trusted server after the other, and devices.

`line.py` is y = θ x + e by squares, `logistic.py` is y = 1 or -1 by the logistic loss; each has its
estimators, their errors by formula, and what nobody is below. Where an estimate leaves [-1, 1] it
is cut off. Trusted noise in doubles is a simulation of its distribution (`central/regression.py`,
`central/logistic.py`).

The JSON form: `options`, `rows` (`response`, `line` or `logistic`; `model`, `estimator`, `epsilon`,
`people`; `exact` the mean squared error, null where no exact one is known; `first_order` the
formula for many people, of which `noise` is what privacy adds, null where it is not a part;
`measured` with its Monte-Carlo error `error`; `limit`, for many people) and `findings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine import option
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.studies.regression import line, logistic
from deniable.simulations.studies.regression.asking import Array
from deniable.simulations.studies.regression.known import Known
from deniable.simulations.studies.regression.report import report

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"epsilon": epsilon, "people": people, "repetitions": options["repetitions"]}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    response = RandomizedResponse(Epsilon(str(cell["epsilon"])))
    n, times = int(cell["people"]), int(cell["repetitions"])
    return [
        *_rows(
            "line",
            cell,
            line.known_errors(response, n),
            line.drawn(response, n, times, generator),
            line.SLOPE,
        ),
        *_rows(
            "logistic",
            cell,
            logistic.known_errors(response, n),
            logistic.drawn(response, n, times, generator),
            logistic.SLOPE,
        ),
    ]


def _rows(
    response: str,
    cell: Cell,
    known: Mapping[Series, Known],
    drawn: Mapping[Series, Array],
    slope: float,
) -> list[Row]:
    return [
        {
            "response": response,
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(cell["epsilon"]),
            "people": cell["people"],
            "exact": each.exact,
            FORMULA: each.first_order,
            "noise": each.noise,
            **forms.measured((drawn[series] - slope) ** 2),
            "limit": each.limit,
        }
        for series, each in known.items()
    ]


STUDY = Study(
    name="regression",
    question="What does the slope of a trend cost without trusting the server?",
    options=OPTIONS,
    cells=cells,
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
