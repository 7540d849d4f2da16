"""A median, a quantile, the centre of a distribution: the value of interaction, and its price.

    local      sequential: "is yours above t?" by randomized response, t moved by each group's
               reports                      n variance -> (V + α (1 - α)) / f^2
    local      in two groups, and in one round (`quantile_search.py`)
    central    exponential mechanism        variance -> α (1 - α) / (n f^2) + 8 / (ε n f)^2
    none       the people's own quantile    variance -> α (1 - α) / (n f^2)

for the α-quantile, f being the density there and V = e^ε / (e^ε - 1)^2. People are drawn again in
each repetition, since devices estimate a quantile of the distribution that people are drawn from;
so the price of a median against no privacy is 1 / tanh(ε / 2)^2, whatever n. All are limits for
many people, and no local protocol beats the first: change the density by a factor 1 + v sign(x -
q); a report then has one bit of information about v, and is a function of randomized response.

The centre of a normal distribution is its median: locally π σ^2 / (2 n tanh(ε / 2)^2), where one
bit of numbers clipped at 3 σ has 9 σ^2 / (n tanh(ε / 2)^2).

The search is Polyak's averaging of a Robbins-Monro walk: group number i is asked about t_i, then
t_(i+1) = t_i + step (share above - (1 - α)), step = 0.5 i^-0.6 of the range, and the quantile is
the mean of the t_i after the first fiftieth. Each person answers once.

Sources: variance of the averaged walk: Polyak, Juditsky 1992, "Acceleration of stochastic
approximation by averaging", SIAM J. Control Optim. 30(4). The centre, optimal for ε up to 1.04:
Kalinin, Steinberger 2025, AISTATS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.studies.building_blocks import sweep
from deniable.simulations.studies.median.median_report import report
from deniable.simulations.studies.median.quantile_search import (
    CENTRAL,
    CENTRE,
    CLIP,
    CLIPPED,
    LOCAL,
    NONE,
    ONCE,
    SIGMA,
    TWO_GROUPS,
    Array,
    Target,
    choose,
    crowd,
    near_points,
    one_round,
    own_quantile,
    search,
    two_groups,
)

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(1_000),
    option.Option(
        "quantile",
        "0.5",
        option.several(option.inside(0.01, 0.99)),
        "shares of people who are below it",
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    targets = [("quantile", share) for share in options["quantile"]] + [("location", 0.5)]
    return [
        {"question": question, "share": share, **cell}
        for question, share in targets
        for cell in sweep(options, "epsilon", "people")
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, people = Epsilon(str(cell["epsilon"])), int(cell["people"])
    times = int(cell["repetitions"])
    target = Target(str(cell["question"]), float(cell["share"]))
    others = _centre_estimates if target.question == "location" else _central_estimates
    by_series = _local_estimates(epsilon, people, times, target, generator)
    by_series |= others(epsilon, people, times, target, generator)
    return [
        {
            "question": target.question,
            "share": target.share,
            **comparison.row(
                series,
                str(epsilon),
                people,
                target.limit(series, epsilon, people),
                estimates - target.truth,
            ),
            **({"exact": None} if series in (TWO_GROUPS, ONCE) else {}),
            "limit": target.limit(LOCAL if series.model == "local" else NONE, epsilon, people),
        }
        for series, estimates in by_series.items()
    ]


def _local_estimates(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: Generator
) -> dict[Series, Array]:
    mechanism, unary = RandomizedResponse(epsilon), Unary(epsilon, 2)
    ask = crowd(mechanism, generator, target)
    return {
        LOCAL: search(mechanism, people, times, ask, target.share),
        TWO_GROUPS: two_groups(mechanism, unary, people, times, target, generator),
        ONCE: one_round(unary, people, times, target, generator),
    }


def _central_estimates(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: Generator
) -> Mapping[Series, Array]:
    first, points = near_points(
        people, float(epsilon), times, generator, target.share, target.quantile
    )
    return {
        CENTRAL: choose(points, first, people, float(epsilon), generator, target.share),
        NONE: own_quantile(points, first, people, target.share),
    }


def _centre_estimates(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: Generator
) -> Mapping[Series, Array]:
    """Return estimates by clipping around the centre, as if known, and the people's mean."""
    mechanism = RandomizedResponse(epsilon)
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    ones = generator.binomial(people, 0.5, times)  # as many clipped numbers above as below
    share = (ones / people - lie) / (keep - lie)
    return {
        CLIP: CENTRE + CLIPPED * SIGMA * (2 * share - 1),
        NONE: generator.normal(target.truth, SIGMA / np.sqrt(people), times),
    }


STUDY = Study(
    name="median",
    question="What does it cost to learn a median without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    where="pool",
    formulas=(
        (
            "devices that are asked in sequence",
            r"\dfrac{V + α(1 - α)}{n f^2}, \quad V = \dfrac{e^ε}{(e^ε - 1)^2}",
        ),
        ("a trusted server", r"\dfrac{α(1 - α)}{n f^2} + \dfrac{8}{(ε n f)^2}"),
        ("without privacy", r"\dfrac{α(1 - α)}{n f^2}"),
    ),
)
