"""Reports of one bit by randomized response: rates, estimates, counts, and a sequential search.

The search is a Robbins-Monro walk with Polyak's averaging. It asks one group of people after
another about its present point. Group number i moves the point by i^-0.6 times the difference
between the group's reports and the wanted rate. The estimate is the average point. It leaves out
the first fiftieth of the people, in which the walk only approaches its goal.

A search that adapts divides each step by the slope of a least-squares line through the recent
groups, or with few people by a first guess. From 10^6 people on, there are up to twice as many
groups, and the first ones are smaller.

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
    `variance` of a report, the search adapts.
    """
    growth = 1.0 if variance is None else min(2.0, max(1.0, math.log10(people) - 5))
    parts = np.linspace(0, 1, round(groups * growth) + 1) ** growth
    bounds = np.unique(np.rint(people * parts).astype(np.int64))
    point, total, weight, slope = start, np.zeros_like(start), 0, np.full_like(start, 1 / step)
    moments = np.zeros((5, len(start)))  # of recent groups: people, and sums of x, y, x x and x y
    for group, size in enumerate(np.diff(bounds).tolist()):
        if bounds[group] >= people // BURN_IN:
            total += size * point
            weight += size
        difference = off(size, point)
        if variance is not None:
            x = point - start
            terms = np.stack([np.ones_like(x), x, -difference, x * x, -x * difference])
            moments = MEMORY * moments + size * terms
            n, sx, sy, sxx, sxy = moments
            spread = np.maximum(sxx - sx * sx / n, 0) + variance
            slope = np.maximum(LEAST_SLOPE, (sxy - sx * sy / n + variance / step) / spread)
        point = np.clip(point + (group + 1) ** -0.6 / slope * difference, *ends)
    return np.asarray(total / weight)


def least_enough(enough: Callable[[int], bool], most: int, first: int = 1) -> int | None:
    """Return the least whole number from `first` to `most` that is `enough`, or None."""
    high = first
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = max(first, high // 2 + 1)
    return low + bisect_left(range(low, high), True, key=enough)
