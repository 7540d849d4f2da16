"""Many counts of everybody: each of n people has m answers of yes or no, and all are counted.

Errors are mean squared errors of a share, on average over the m; half of the people say yes to
each, where errors are largest.

                                            these people                      their population
    local     one drawn question            m V / n + (m - 1) / (4 (n - 1))   m (V + 1/4) / n
    local     all of them, at ε / m each    V(ε / m) / n                      1 / (4 n) more
    central   geometric, sensitivity m      2 V(ε / m) / n^2                  1 / (4 n) more
    central   a cube's (`central/cube.py`)  (m + 1) (m + 2) / (3 (ε n)^2)     1 / (4 n) more
    central   Gaussian, (ε, δ)              m / (μ n)^2                       1 / (4 n) more
    none                                    0                                 1 / (4 n)

with V(ε) = e^ε / (e^ε - 1)^2. People are parted into m groups of one question each, by lot; the
first formula is for groups of the same size. For small ε the price against geometric noise is about
n ε^2 V / (2 m), which falls with m, and six times that against a cube's; √m instead of m is what a
δ buys, and then the price does not depend on m.

Limit, for many people and shares of one half: m / (4 M^2 n), M being the largest |E f x| / E f of
an f with values in [1, e^ε], over the corners x of {-1, 1}^m: reports have information of trace at
most M^2 about the m means (density 1 + <ϑ, x>). Along any direction <u, x> is symmetric and has the
variance 1, so a half-space of probability q <= 1/2 has E[<u, x>; there] <= √(q / 2), and

    M = tanh(ε / 2)  for e^ε <= 3,   M^2 <= (e^ε - 1) / 8  beyond;   tanh(ε / 2) for one count

so that one drawn question is as good as anything up to ε = ln 3 = 1.10. A curator's limit about the
population is the spread of a sample; about these people it is known for one count, which nobody
releases with less than geometric noise, for many people [1]. Where people are few, a curator does
better with the devices' mechanism: there is such a row, with the model `central`.

The JSON form: `options`, `rows` (`model`, `estimator`, `epsilon`, `delta`, `counts`, `people`,
`exact`, `measured` with its Monte-Carlo error `error` about these people; `exact_drawn`,
`limit_drawn`; `limit` null but for a curator's one count) and `findings`.

[1] Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon, decimal_text
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import DiscreteLaplace
from deniable.simulations.central.cube import CubeNoise
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.population import discrete_laplace
from deniable.simulations.studies.compose.accounts import gaussian_mu
from deniable.simulations.studies.counts.report import report
from deniable.simulations.studies.counts.series import (
    ALL,
    CUBE,
    GAUSSIAN,
    GEOMETRIC,
    NONE,
    ONE_QUESTION,
)

Array = forms.Array


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.Option(
        "counts", "1,4,16,64,256", option.several(option.whole(1, 4_096)), "questions for each"
    ),
    option.Option("delta", 1e-6, option.inside(), "the probability that Gaussian noise gives up",
                  "δ"),
    option.repetitions(400),
)  # fmt: skip


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    if min(options["people"]) < max(options["counts"]):
        raise WrongUse("people: at least as many as counts, so that each question is asked")
    return options


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people with the middle number of counts, and the other way round."""
    middle_people, middle = (comparison.middle(options[key]) for key in ("people", "counts"))
    pairs = [(n, middle) for n in options["people"]]
    pairs += [(middle_people, m) for m in options["counts"] if m != middle]
    shared = {key: options[key] for key in ("delta", "repetitions")}
    return [
        {"epsilon": e, "people": n, "counts": m, **shared}
        for e in options["epsilon"]
        for n, m in pairs
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, n, m = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["counts"])
    delta, times = float(cell["delta"]), int(cell["repetitions"])
    design, part = RandomizedResponse(epsilon), RandomizedResponse(_part(epsilon, m))
    noise, cube = DiscreteLaplace(epsilon, m), CubeNoise(epsilon, m)
    deviation = math.sqrt(m) / gaussian_mu(float(epsilon), delta)
    yes, sampling = n // 2, 1 / (4 * n)
    true = yes / n * (1 - yes / n)
    groups = (n // m + (np.arange(m) < n % m)).astype(np.int64)
    asked = float(np.mean(design.variance(1, 0.5) / groups))
    lots = float(np.mean((n - groups) / groups / (n - 1))) * true
    wide = (times, m)
    heard = generator.hypergeometric(yes, n - yes, groups, wide)
    found: dict[Series, tuple[float, Array | None]] = {
        ONE_QUESTION: (asked + lots, _estimates(design, heard, groups, generator) - yes / n),
        ALL: (
            part.variance(n, 0.5),
            _estimates(part, np.full(wide, yes), np.full(m, n), generator) - yes / n,
        ),
        GEOMETRIC: (noise.variance / n**2, discrete_laplace(noise, wide, generator) / n),
        CUBE: (cube.variance / n**2, cube.drawn(times, generator) / n),
        GAUSSIAN: ((deviation / n) ** 2, generator.normal(0, deviation, wide) / n),
        NONE: (0.0, None),
    }
    drawn = {ONE_QUESTION: asked + float(np.mean(1 / groups)) / 4}
    pure = noise.variance / n**2 if m == 1 else None
    rows: list[Row] = [
        {
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(epsilon),
            "delta": delta if series is GAUSSIAN else 0.0,
            "counts": m,
            "people": n,
            "exact": exact,
            **(forms.NOTHING if errors is None else forms.measured((errors**2).mean(axis=1))),
            "limit": pure if series in (GEOMETRIC, CUBE) else None,
            "exact_drawn": drawn.get(series, exact + sampling),
            "limit_drawn": limit(float(epsilon), m) / n if series.model == "local" else sampling,
        }
        for series, (exact, errors) in found.items()
    ]
    return rows + forms.run_by_the_curator(rows, [GEOMETRIC, CUBE])


def limit(epsilon: float, counts: int) -> float:
    """m / (4 M^2): n times what no local protocol's mean squared error is below."""
    reach = math.tanh(epsilon / 2) ** 2
    if counts > 1 and epsilon > math.log(3):
        reach = math.expm1(epsilon) / 8
    return counts / (4 * reach)


def _part(epsilon: Epsilon, counts: int) -> Epsilon:
    """ε / m, rounded down to what can be written."""
    return Epsilon(decimal_text(max(1, epsilon.billionths // counts)))


def _estimates(
    design: RandomizedResponse, yes: forms.Whole, asked: forms.Whole, generator: np.random.Generator
) -> Array:
    """Shares of yes, from the reports of `yes` of those who are `asked`."""
    keep, lie = design.keep / ONE, design.lie / ONE
    said = generator.binomial(yes, keep) + generator.binomial(asked - yes, lie)
    return np.asarray((said / asked - lie) / (keep - lie))


STUDY = Study(
    name="counts",
    question="What do many yes-or-no questions to everybody cost without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    check=_check,
    formulas=(
        (
            "devices, one drawn question of m, about their population",
            "m (V + 1 / 4) / n, V = e^ε / (e^ε - 1)^2",
        ),
        ("a trusted server, noise on each count, small ε", "2 m^2 / (ε n)^2"),
        (
            "a trusted server, noise of a cube on all at once, small ε",
            "(m + 1) (m + 2) / (3 (ε n)^2)",
        ),
        ("a trusted server, Gaussian noise", "m / (μ n)^2"),
    ),
)
