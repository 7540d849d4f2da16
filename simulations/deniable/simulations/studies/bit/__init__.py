"""A yes-or-no question: randomized response against a trusted count, and the price of locality.

                                               these people     the population they are drawn from
    local      randomized response             V / n            (V + s (1 - s)) / n
    central    geometric noise on the count    2 V / n^2        s (1 - s) / n + 2 V / n^2
    central    Laplace noise on the count      2 / (ε n)^2      s (1 - s) / n + 2 / (ε n)^2
    shuffled   randomized response at ε₀       V(ε₀) / n        (V(ε₀) + s (1 - s)) / n

are the variances, with V = e^ε / (e^ε - 1)^2 and s the share of yes. Both models keep ε for one
person who answers otherwise; shuffled reports keep (ε, δ) if the shuffler and n people are honest
(`engine/comparison.py`), and no limit of theirs is known here.

For these people the first ratio is n / 2 for every ε, exactly: with a = p / q, randomized response
has p q / (p - q)^2 = a / (a - 1)^2, and geometric noise twice that. Against Laplace noise it is
less, (n / 2) (ε / 2)^2 / sinh(ε / 2)^2, as Laplace wastes what it could save by being whole. For
the population the price is 1 + V / (s (1 - s)) however many are asked: 1 / tanh(ε / 2)^2 at one
half.

Limits, for many people: randomized response, since every report about two points is a function of
one [1], and geometric noise among releases of a count [2].

[1] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
[2] Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
    STOC; Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents".

The JSON form: `options`, `cells` (`model`, `mechanism`, `epsilon`, `people`, `exact`, `measured`,
`measured_error`, `repetitions`, mean squared errors of these people's share; `exact_drawn`,
`measured_drawn`, `error_drawn` of the population's; `limit`, `limit_drawn`, null for shuffled
reports; `report_epsilon` of one report, null where there are none) and `prices`
(`epsilon`, `people`, `geometric`, `laplace`, `drawn`: the local error by the central one, the last
by geometric noise for the population).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.shuffled import report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import SHUFFLED
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.population import discrete_laplace, drawn, fixed
from deniable.simulations.studies.bit.report import report
from deniable.simulations.studies.bit.series import GEOMETRIC, LAPLACE, LOCAL, SERIES

Array = NDArray[np.float64]


OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.repetitions(20_000),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    comparison.delta_option(),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {
            "epsilon": e,
            "people": n,
            "share": options["share"],
            "delta": options["delta"],
            "repetitions": options["repetitions"],
        }
        for e in options["epsilon"]
        for n in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = str(cell["epsilon"]), int(cell["people"]), int(cell["repetitions"])
    share = float(cell["share"])
    yes = round(people * share)
    mechanism, trusted = RandomizedResponse(Epsilon(epsilon)), GeometricCounts(Epsilon(epsilon))
    mixed = report_epsilon(Epsilon(epsilon), people, float(cell["delta"]))
    reported = {LOCAL: mechanism, SHUFFLED: RandomizedResponse(mixed)}
    scale = 1 / (float(Epsilon(epsilon)) * people)
    noise = {
        LOCAL: _noise(mechanism, people, yes, times, generator),
        GEOMETRIC: discrete_laplace(trusted.noise, times, generator) / people,
        LAPLACE: generator.laplace(0, scale, times),
    }
    exact = {
        LOCAL: mechanism.variance(people, yes / people),
        GEOMETRIC: trusted.variance(people),
        LAPLACE: 2 * scale**2,
        SHUFFLED: reported[SHUFFLED].variance(people, yes / people),
    }
    least = {LOCAL: exact[LOCAL], GEOMETRIC: exact[GEOMETRIC], LAPLACE: exact[GEOMETRIC]}
    sampling = share * (1 - share) / people
    errors = {LOCAL: _drawn_errors(mechanism, people, share, times, generator)}
    sampled = generator.binomial(people, share, times) / people - share
    errors |= {series: sampled + noise[series] for series in (GEOMETRIC, LAPLACE)}
    noise[SHUFFLED] = _noise(reported[SHUFFLED], people, yes, times, generator)
    errors[SHUFFLED] = _drawn_errors(reported[SHUFFLED], people, share, times, generator)
    return [
        comparison.row(series, epsilon, people, exact[series], noise[series])
        | comparison.drawn_columns(exact[series] + sampling, errors[series])
        | {
            "limit": least.get(series),
            "limit_drawn": least[series] + sampling if series in least else None,
            "report_epsilon": str(reported[series].epsilon) if series in reported else None,
        }
        for series in SERIES
    ]


def _noise(
    mechanism: RandomizedResponse, people: int, yes: int, times: int, generator: np.random.Generator
) -> Array:
    """What reports of these people are off by."""
    ones = fixed(mechanism, [people - yes, yes], times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - yes / people


def _drawn_errors(
    mechanism: RandomizedResponse,
    people: int,
    share: float,
    times: int,
    generator: np.random.Generator,
) -> Array:
    """The same of people who are drawn with this share."""
    ones = drawn(mechanism, [1 - share, share], people, times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - share


def _share_of(mechanism: RandomizedResponse, ones: NDArray[np.int64], people: int) -> Array:
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return np.asarray((ones - people * lie) / (people * (keep - lie)))


STUDY = Study(
    name="bit",
    question="What does it cost to ask a yes-or-no question without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, these people", "V / n, V = e^ε / (e^ε - 1)^2"),
        ("a trusted server, these people", "2 V / n^2"),
        ("devices, their population with a share s of yes", "(V + s (1 - s)) / n"),
        ("a trusted server, their population", "s (1 - s) / n + 2 V / n^2"),
    ),
)
