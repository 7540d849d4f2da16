"""The risk, measured: whole populations of reports are drawn, and the estimate made from each.

People hold one of two numbers, drawn independently. Locally each report is then one of a few
symbols, all independent: their counts are multinomial, drawn as a chain of binomials. Centrally
and without privacy the count of one of the two numbers is binomial; centrally discrete Laplace
noise is added to the sum, with either sign, as both are as likely: that takes away what noise and
sum happen to have in common. Nothing is approximated, and time does not grow with the people.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central.discrete_laplace import discrete_laplace
from deniable.simulations.studies.minimax.distributions import TwoPoints
from deniable.simulations.studies.minimax.estimators import Estimator, central_noise, grid_step
from deniable.simulations.studies.minimax.stratified import (
    Array,
    Counts,
    binomial_quantiles,
    strata,
)

GROUPS = 100


def measured_risk(
    estimator: Estimator, distribution: TwoPoints, repetitions: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Mean squared error over the repetitions, and its Monte-Carlo error."""
    if not estimator.clip:
        return distribution.mean**2, 0.0  # the estimate is 0, whatever is reported
    drawn = strata(GROUPS, max(2, repetitions // GROUPS), generator)
    values, probabilities = report_distribution(estimator, distribution)
    counts = _counts(estimator.users, probabilities, drawn.points, generator)
    total = sum((value * count for value, count in zip(values, counts, strict=True)), np.zeros(1))
    if not estimator.noise:
        return drawn.mean((total / estimator.users - distribution.mean) ** 2)
    noise = discrete_laplace(central_noise(estimator), drawn.points.shape, generator)
    moved = grid_step(estimator.clip) * noise
    both = [(total + sign * moved) / estimator.users - distribution.mean for sign in (1, -1)]
    return drawn.mean((both[0] ** 2 + both[1] ** 2) / 2)


def report_distribution(estimator: Estimator, distribution: TwoPoints) -> tuple[Array, Array]:
    """What a report can be worth, ascending, and how probable each is for a person drawn."""
    cut = np.clip([distribution.low, distribution.high], -estimator.clip, estimator.clip)
    shares = np.array([1 - distribution.probability, distribution.probability])
    if estimator.table is None:
        return cut, shares
    values = [
        float(2 * v / estimator.table.steps - 1) * estimator.clip for v in estimator.table.values
    ]
    return np.array(values), shares @ [_row(estimator.table, y) for y in cut / estimator.clip]


def _row(table: NumberTable, y: float) -> Array:
    """The probabilities of the symbols for y in [-1, 1], the coin between grid points included."""
    place = (y + 1) / 2 * table.steps
    below = min(int(place), table.steps - 1)
    low, high = (np.array([units / ONE for units in row]) for row in table.rows[below : below + 2])
    return np.asarray(low + (place - below) * (high - low))


def _counts(
    people: int, probabilities: Array, points: Array, generator: np.random.Generator
) -> list[Counts]:
    """How many reports are worth each value. The upper half of the values is counted first, by the
    strata; what is within the halves comes from the generator's own binomials."""
    half = len(probabilities) // 2
    upper = binomial_quantiles(people, float(probabilities[half:].sum()), points)
    return [
        *_within(people - upper, probabilities[:half], generator),
        *_within(upper, probabilities[half:], generator),
    ]


def _within(people: Counts, probabilities: Array, generator: np.random.Generator) -> list[Counts]:
    if len(probabilities) == 1:
        return [people]
    first = generator.binomial(people, min(1.0, probabilities[0] / math.fsum(probabilities)))
    return [first, *_within(people - first, probabilities[1:], generator)]
