"""Binomial counts in strata: the same distribution, and risks measured far more closely.

Plain repetitions know a mean square to a relative √(2 / repetitions). Where the exact risk is
within a hundredth of a percent of the lower bound, that would take 10^10 of them. So the count
that carries most of the spread is drawn in strata: [0, 1] is cut at g(j / S), where
g(v) = v^2 (3 - 2 v) is finer towards both ends; each stratum gives one uniform point, and what that
point's quantile leads to counts with the stratum's width. Such a weighted sum is unbiased, whatever
the function. Groups of strata are independent: their spread gives the Monte-Carlo error.

Quantiles come from the whole table of probabilities, summed from the ratios of neighbours
P[k + 1] / P[k] = (n - k) / (k + 1) p / (1 - p), within 9 deviations (and 60 counts) of the mean:
what lies beyond has a probability below 10^-18.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
DEVIATIONS, COUNTS = 9, 60


@dataclass(frozen=True)
class Strata:
    """One point in each stratum of each group: an array of groups by strata."""

    points: Array
    widths: Array  # of the strata: how much each point counts within its group

    def mean(self, values: Array) -> tuple[float, float]:
        """Of a function of the points, over all groups, and its Monte-Carlo error."""
        groups = (values * self.widths).sum(axis=1)
        return float(groups.mean()), float(groups.std(ddof=1) / math.sqrt(len(groups)))


def strata(groups: int, size: int, generator: np.random.Generator) -> Strata:
    v = np.arange(size + 1) / size
    edges = v * v * (3 - 2 * v)
    widths = np.diff(edges)
    return Strata(edges[:-1] + widths * generator.random((groups, size)), widths)


def binomial_quantiles(people: int, probability: float, points: Array) -> Counts:
    """The least count whose cumulative probability exceeds each point."""
    mean, room = (
        people * probability,
        DEVIATIONS * math.sqrt(people * probability * (1 - probability)) + COUNTS,
    )
    first, last = max(0, math.floor(mean - room)), min(people, math.ceil(mean + room))
    if probability in (0.0, 1.0):
        return np.full(points.shape, round(mean), dtype=np.int64)
    counts = np.arange(first, last)
    ratios = (people - counts) / (counts + 1.0) * (probability / (1 - probability))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    cumulative = np.cumsum(np.exp(logs - logs.max()))
    found = np.searchsorted(cumulative, points * cumulative[-1], side="right")
    return np.asarray(first + np.minimum(found, last - first), dtype=np.int64)
