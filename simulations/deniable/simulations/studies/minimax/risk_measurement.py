"""Measured risk: draw whole populations of reports, and compare the estimates with the truth.

People have one of two numbers, drawn independently. On devices the counts of the symbols are then
multinomial, drawn as a chain of binomials. For a trusted server, and without privacy, the count of
one of the two numbers is binomial. The server's discrete Laplace noise is added to the sum once
with each sign, which removes the covariance of noise and sum. Nothing is approximated, and the
time does not grow with the number of people.

With plain repetitions a mean square has a relative error of √(2 / repetitions). Where the exact
risk is within a hundredth of a percent of the lower bound, that would take 10^10 repetitions. So
the count with most of the spread is drawn in strata: [0, 1] is cut at g(j / S), where
g(v) = v^2 (3 - 2 v) is finer towards both ends. Each stratum has one uniform point, whose quantile
has the stratum's width as its weight. This weighted sum is unbiased for every function. Groups of
strata are independent, and their spread gives the Monte-Carlo error.

Quantiles come from a table of probabilities (`bit_reports.binomial`); the rest has a probability
below 10^-18.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.simulations.central.discrete_laplace import discrete_laplace
from deniable.simulations.studies.bit_reports import binomial
from deniable.simulations.studies.minimax.clipped_estimators import Estimator
from deniable.simulations.studies.minimax.hardest_distribution import TwoPoints

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
GROUPS = 100


def measured_risk(
    estimator: Estimator, distribution: TwoPoints, repetitions: int, generator: Generator
) -> tuple[float, float]:
    """Return the mean squared error over the repetitions, and its Monte-Carlo error."""
    if not estimator.clip:
        return distribution.mean**2, 0.0  # the estimate is always 0
    drawn = strata(GROUPS, max(2, repetitions // GROUPS), generator)
    values, probabilities = report_distribution(estimator, distribution)
    counts = _counts(estimator.users, probabilities, drawn.points, generator)
    total = sum((value * count for value, count in zip(values, counts, strict=True)), np.zeros(1))
    if not estimator.noise:
        return drawn.mean((total / estimator.users - distribution.mean) ** 2)
    moved = estimator.step * discrete_laplace(estimator.sum_noise, drawn.points.shape, generator)
    both = [(total + sign * moved) / estimator.users - distribution.mean for sign in (1, -1)]
    return drawn.mean((both[0] ** 2 + both[1] ** 2) / 2)


def report_distribution(estimator: Estimator, distribution: TwoPoints) -> tuple[Array, Array]:
    """Return the values of a report, ascending, and their probabilities for a person drawn."""
    clipped = np.clip([distribution.low, distribution.high], -estimator.clip, estimator.clip)
    shares = np.array([1 - distribution.probability, distribution.probability])
    table, clip = estimator.table, estimator.clip
    if table is None:
        return clipped, shares
    values = np.array([float(2 * value / table.steps - 1) * clip for value in table.values])
    return values, shares @ [_row(table, y) for y in clipped / clip]


def _row(table: NumberTable, y: float) -> Array:
    """Return the probabilities of the symbols for y in [-1, 1], rounded at random to the grid."""
    position = (y + 1) / 2 * table.steps
    below = min(int(position), table.steps - 1)
    low, high = (np.array([units / ONE for units in row]) for row in table.rows[below : below + 2])
    return np.asarray(low + (position - below) * (high - low))


def _counts(people: int, probabilities: Array, points: Array, generator: Generator) -> list[Counts]:
    """Return how many reports have each value: strata split them into two halves of the values."""
    half = len(probabilities) // 2
    upper = binomial_quantiles(people, float(probabilities[half:].sum()), points)
    return [
        *_split(people - upper, probabilities[:half], generator),
        *_split(upper, probabilities[half:], generator),
    ]


def _split(people: Counts, probabilities: Array, generator: Generator) -> list[Counts]:
    if len(probabilities) == 1:
        return [people]
    first = generator.binomial(people, min(1.0, probabilities[0] / math.fsum(probabilities)))
    return [first, *_split(people - first, probabilities[1:], generator)]


# Strata


@dataclass(frozen=True)
class Strata:
    """One point in each stratum of each group, as an array of groups by strata."""

    points: Array
    widths: Array  # widths of the strata: the weights of the points within their group

    def mean(self, values: Array) -> tuple[float, float]:
        """Return the mean of a function of the points, and its Monte-Carlo error."""
        groups = (values * self.widths).sum(axis=1)
        return float(groups.mean()), float(groups.std(ddof=1) / math.sqrt(len(groups)))


def strata(groups: int, size: int, generator: Generator) -> Strata:
    v = np.arange(size + 1) / size
    edges = v * v * (3 - 2 * v)
    widths = np.diff(edges)
    return Strata(edges[:-1] + widths * generator.random((groups, size)), widths)


def binomial_quantiles(people: int, probability: float, points: Array) -> Counts:
    """Return the least count whose cumulative probability exceeds each point."""
    counts, chances = binomial(people, probability)
    cumulative = np.cumsum(chances)
    index = np.searchsorted(cumulative, points * cumulative[-1], side="right")
    return np.asarray(counts[np.minimum(index, len(counts) - 1)], dtype=np.int64)
