"""A median: a search by yes-or-no questions on devices against the exponential mechanism.

    local      "is yours above t?" by randomized response, t moved by each group's answers
                                        n variance -> C^2 / (4 f^2)           C = 1 / tanh(ε / 2)
    central    exponential mechanism        variance -> 1 / (4 n f^2) + 8 / (ε n f)^2
    none       the people's own median      variance -> 1 / (4 n f^2)

f is the density at the median. People are drawn anew in each repetition, since a median of devices
is about the distribution that people are drawn from; so the price against no privacy at all is C^2,
whatever n. All three are limits for many people.

The search is Polyak's averaging of a Robbins-Monro walk: group number i is asked at t_i, then
t_(i+1) = t_i + step (share above - 1/2), step = 0.5 i^-0.6 of the range, and the median is the mean
of the t_i after the first tenth. Everybody answers once. A group's answers are one binomial,
exactly.

The central mechanism is simulated exactly, by the order statistics around the middle: those beyond
a weight of e^-40 are left out. What a server would release is `central.PrivateQuantile`.

Source: variance of the averaged walk: Polyak, Juditsky 1992, "Acceleration of stochastic
approximation by averaging", SIAM J. Control Optim. 30(4).

The JSON form: `options` and `cells` (`model` local, central or none, `mechanism`, `epsilon`,
`people`, `exact` the limit, `measured`, `measured_error`, `repetitions`; squared shares of the
range).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.frame import comparison, option
from deniable.simulations.frame.study import Cell, Options, Row, Study
from deniable.simulations.studies.median.central import choose, middle_points, own_median
from deniable.simulations.studies.median.local_search import crowd, search
from deniable.simulations.studies.median.people import CENTRAL, LOCAL, MEDIAN, NONE, limit
from deniable.simulations.studies.median.report import make_report

__all__ = ["STUDY"]


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(500),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"epsilon": epsilon, "people": people, "repetitions": options["repetitions"]}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = (
        Epsilon(str(cell["epsilon"])),
        int(cell["people"]),
        int(cell["repetitions"]),
    )
    first, points = middle_points(people, float(epsilon), times, generator)
    mechanism = RandomizedResponse(epsilon)
    found = {
        LOCAL: search(mechanism, people, times, crowd(mechanism, generator)),
        CENTRAL: choose(points, first, people, float(epsilon), generator),
        NONE: own_median(points, first, people),
    }
    return [
        comparison.row(
            series, str(epsilon), people, limit(series, epsilon, people), estimates - MEDIAN
        )
        for series, estimates in found.items()
    ]


STUDY = Study(
    name="median",
    question="What does it cost to learn a median without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=make_report,
)
