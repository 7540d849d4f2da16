"""The slope of a line and of a logistic regression: several trusted servers, and devices.

`line_slope.py` fits y = θ x + e by squares, `logistic_slope.py` fits y = 1 or -1 by the logistic
loss; each has its estimators, their errors by formula, and their limits. Estimates are clipped to
[-1, 1]. Trusted noise in floating point simulates its distribution (`central/linear_regression.py`,
`central/logistic_regression.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import estimator_rows, option
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.study import Cell, Row, Study
from deniable.simulations.studies.building_blocks import grid
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic
from deniable.simulations.studies.regression.regression_report import report
from deniable.simulations.studies.regression.slope_questions import Array, Known

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    response = RandomizedResponse(Epsilon(str(cell["epsilon"])))
    n, times = int(cell["people"]), int(cell["repetitions"])
    return [
        row
        for name, model in (("line", line), ("logistic", logistic))
        for row in _rows(
            {"response": name},
            cell,
            model.known_errors(response, n),
            model.drawn(response, n, times, generator),
            model.SLOPE,
        )
    ]


def _rows(
    first: Row,
    cell: Cell,
    known: Mapping[Series, Known],
    estimates: Mapping[Series, Array],
    slope: float,
) -> list[Row]:
    return [
        {
            **first,
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(cell["epsilon"]),
            "people": cell["people"],
            "exact": errors.exact,
            FORMULA: errors.first_order,
            "noise": errors.noise,
            **estimator_rows.measured((estimates[series] - slope) ** 2),
            "limit": errors.limit,
        }
        for series, errors in known.items()
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
