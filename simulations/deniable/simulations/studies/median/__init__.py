"""A median, a quantile, the centre of a distribution: what asking in turn buys, and what it costs.

    local      in turn: "is yours above t?" by randomized response, t moved by each group's answers
                                            n variance -> (V + α (1 - α)) / f^2
    local      in two groups, and once, without turns                    (`local_search.py`)
    central    exponential mechanism        variance -> α (1 - α) / (n f^2) + 8 / (ε n f)^2
    none       the people's own quantile    variance -> α (1 - α) / (n f^2)

for the α-quantile, f being the density there and V = e^ε / (e^ε - 1)^2. People are drawn anew in
each repetition, since a quantile of devices is about the distribution that people are drawn from;
so the price of a median against no privacy is 1 / tanh(ε / 2)^2, whatever n. All are limits for
many people, and the first is one that no local protocol beats: tilt the distribution by 1 + v
sign(x - q); a report then tells v by one bit, and is a function of randomized response.

The centre of a normal distribution is its median: locally π σ^2 / (2 n tanh(ε / 2)^2), where one
bit of numbers that are clipped at 3 σ has 9 σ^2 / (n tanh(ε / 2)^2).

The search is Polyak's averaging of a Robbins-Monro walk: group number i is asked at t_i, then
t_(i+1) = t_i + step (share above - (1 - α)), step = 0.5 i^-0.6 of the range, and the quantile is
the mean of the t_i after the first fiftieth. Everybody answers once.

The central mechanism is simulated exactly, by the order statistics around the quantile: those
beyond a weight of e^-40 are left out. What a server would release is `central.PrivateQuantile`.

Sources: variance of the averaged walk: Polyak, Juditsky 1992, "Acceleration of stochastic
approximation by averaging", SIAM J. Control Optim. 30(4). The centre, optimal for ε up to 1.04:
Kalinin, Steinberger 2025, AISTATS.

The JSON form: `options`, `rows` (`question` quantile or location, `share` α, `model` local, central
or none, `mechanism`, `epsilon`, `people`, `exact` the limit of this series, null where none is
known, `measured`, `measured_error`, `repetitions`, `limit` of all local protocols, or of all
others, which is that of no privacy; squared shares of the range), `findings`, and `cells`: the rows
of the first quantile, without those of less turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.studies.median.central import choose, near_points, own_quantile
from deniable.simulations.studies.median.local_search import crowd, once, search, two_groups
from deniable.simulations.studies.median.people import (
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
)
from deniable.simulations.studies.median.report import make_report

__all__ = ["STUDY"]


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
        {
            "question": question,
            "share": share,
            "epsilon": epsilon,
            "people": people,
            "repetitions": options["repetitions"],
        }
        for question, share in targets
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = (
        Epsilon(str(cell["epsilon"])),
        int(cell["people"]),
        int(cell["repetitions"]),
    )
    target = Target(str(cell["question"]), float(cell["share"]))
    found = _locally(epsilon, people, times, target, generator)
    found |= (_location if target.question == "location" else _centrally)(
        epsilon, people, times, target, generator
    )
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
        for series, estimates in found.items()
    ]


def _locally(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: np.random.Generator
) -> dict[Series, Array]:
    mechanism, unary = RandomizedResponse(epsilon), Unary(epsilon, 2)
    ask = crowd(mechanism, generator, target)
    return {
        LOCAL: search(mechanism, people, times, ask, target.share),
        TWO_GROUPS: two_groups(mechanism, unary, people, times, target, generator),
        ONCE: once(unary, people, times, target, generator),
    }


def _centrally(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: np.random.Generator
) -> Mapping[Series, Array]:
    first, points = near_points(
        people, float(epsilon), times, generator, target.share, target.quantile
    )
    return {
        CENTRAL: choose(points, first, people, float(epsilon), generator, target.share),
        NONE: own_quantile(points, first, people, target.share),
    }


def _location(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: np.random.Generator
) -> Mapping[Series, Array]:
    """One bit of numbers clipped around the centre, as if it were known; and the people's mean."""
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
    report=make_report,
    where="pool",
    formulas=(
        ("devices that are asked in turn", "(V + α (1 - α)) / (n f^2), V = e^ε / (e^ε - 1)^2"),
        ("a trusted server", "α (1 - α) / (n f^2) + 8 / (ε n f)^2"),
        ("without privacy", "α (1 - α) / (n f^2)"),
    ),
)
