"""Reports of one bit by randomized response: rates, estimates, counts, and a sequential search.

The search is a Robbins-Monro walk with Polyak's averaging. It asks one group of people after
another about its present point. Group number i moves the point by i^-0.6 times the difference
between the group's reports and the wanted rate. The estimate is the average point. It leaves out
the first fiftieth of the people, in which the walk only approaches its goal.

A search that adapts divides each step by the slope of a least-squares line through the recent
groups, or with few people by a first guess. Its estimate is the point at which the line through all
averaged groups has the wanted rate. With 10^6 people or more, the first groups are smaller.

Source: Polyak, Juditsky 1992, "Acceleration of stochastic approximation by averaging", SIAM J.
Control Optim. 30(4).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary

Array = NDArray[np.floating]
BURN_IN = 50  # the first fiftieth of the people is not averaged
MEMORY, LEAST_SLOPE = 0.9, 0.1  # of a search that adapts: factor for each older group
DEVIATIONS, COUNTS = 9, 60  # reach around the mean of a binomial; the tails beyond are below 1e-18


def noise(epsilon: float) -> float:
    """Return V = e^ε / (e^ε - 1)^2, n times the variance that randomized response adds to a share.

    V = (C^2 - 1) / 4 with C = 1 / tanh(ε / 2).
    """
    return 1 / (4 * math.sinh(epsilon / 2) ** 2)


def reported_rate(mechanism: RandomizedResponse | Unary, rate: Array | float) -> Array:
    """Return the probability that a report about a bit says yes, if the bit is yes at this rate."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return np.asarray(lie + (keep - lie) * np.asarray(rate))


def estimated_rate(
    mechanism: RandomizedResponse | Unary,
    size: int,
    rate: Array | float,
    times: int | tuple[int, ...],
    generator: Generator,
) -> Array:
    """Draw unbiased estimates of a bit's rate, each from the reports of `size` people."""
    counts = generator.binomial(size, reported_rate(mechanism, rate), times)
    return np.asarray(mechanism.unbiased_share(counts / size))


def binomial(people: int, rate: float) -> tuple[Array, Array]:
    """Return the counts of a binomial and their probabilities, without negligible tails.

    They come from the ratios of neighbours, (people - k) / (k + 1) rate / (1 - rate).
    """
    room = DEVIATIONS * math.sqrt(people * rate * (1 - rate)) + COUNTS
    first, last = max(0, math.floor(people * rate - room)), math.ceil(people * rate + room)
    counts = np.arange(first, min(people, last) + 1, dtype=float)
    if rate in (0.0, 1.0):
        return counts, (counts == people * rate).astype(float)
    ratios = (people - counts[:-1]) / counts[1:] * (rate / (1 - rate))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    chances = np.exp(logs - logs.max())
    return counts, chances / chances.sum()


def averaged_walk(
    people: int,
    groups: int,
    start: Array,
    off: Callable[[int, Array], Array],
    step: float,
    ends: tuple[float, float],
    variance: float | None = None,
) -> Array:
    """Return the average point of a sequential search, for each repetition.

    `off(size, point)` is the difference between the wanted rate and the reports of a group of this
    size about the point. Each group moves the point in proportion to it, within `ends`. With the
    `variance` of a report, the search adapts, and its estimate is corrected.
    """
    growth = 1.0 if variance is None else min(2.0, max(1.0, math.log10(people) - 5))
    parts = np.linspace(0, 1, groups + 1) ** growth
    bounds = np.unique(np.rint(people * parts).astype(np.int64))
    point, slope = start, np.full_like(start, 1 / step)
    averaged, recent = (Line(len(start), 1 / step, variance) for _ in range(2))
    for group, size in enumerate(np.diff(bounds).tolist()):
        difference = off(size, point)
        if bounds[group] >= people // BURN_IN:
            averaged.add(size, point - start, difference)
        if variance is not None:
            recent.add(size, point - start, difference, MEMORY)
            slope = recent.slope
        moved = point + (group + 1) ** -0.6 / slope * difference
        point = np.minimum(np.maximum(moved, ends[0]), ends[1])  # faster than np.clip
    x, difference = averaged.means
    corrected = x if variance is None else x + difference / averaged.slope
    return np.asarray(np.clip(start + corrected, *ends))


class Line:
    """Least-squares line through the differences of groups, for each repetition.

    `first` is a guess of its slope. Few people hardly change it, at this variance of a report.
    """

    def __init__(self, repetitions: int, first: float, variance: float | None) -> None:
        self.first, self.variance, self.people = first, variance or 0.0, 0.0
        self._terms, self._sums = np.zeros((2, 4, repetitions))  # x, difference, and both times x

    def add(self, size: int, x: Array, difference: Array, memory: float = 1.0) -> None:
        """Add a group of this size; all earlier ones count less by the factor `memory`."""
        self._terms[0], self._terms[1] = x, difference
        np.multiply(x, self._terms[:2], out=self._terms[2:])
        self.people = memory * self.people + size
        self._sums *= memory
        self._sums += size * self._terms

    @property
    def means(self) -> Array:
        return self._sums[:2] / self.people

    @property
    def slope(self) -> Array:
        """Decrease of the difference per unit; at least a tenth."""
        xx, xy = self._sums[2:] - self._sums[0] * self._sums[:2] / self.people
        spread = np.maximum(xx, 0) + self.variance
        return np.asarray(np.maximum(LEAST_SLOPE, (self.variance * self.first - xy) / spread))


def least_enough(enough: Callable[[int], bool], most: int, first: int = 1) -> int | None:
    """Return the least whole number from `first` to `most` that is `enough`, or None."""
    high = first
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = max(first, high // 2 + 1)
    return low + bisect_left(range(low, high), True, key=enough)
