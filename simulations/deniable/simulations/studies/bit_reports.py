"""Reports of one bit by randomized response: rates, estimates, counts, and a sequential search.

The search is a Robbins-Monro walk with Polyak's averaging. It asks one group of people after
another about its present point. Group number i moves the point by i^-0.6 times the difference
between the group's reports and the wanted rate. The estimate is the average point. It leaves out
the first fiftieth of the groups, in which the walk only approaches its goal.

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
BURN_IN = 50  # the first fiftieth of the groups is not averaged
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
    """Return the counts of a binomial and their probabilities, without negligible tails."""
    from scipy.stats import binom

    room = DEVIATIONS * math.sqrt(people * rate * (1 - rate)) + COUNTS
    counts = np.arange(
        max(0, math.floor(people * rate - room)), min(people, math.ceil(people * rate + room)) + 1
    )
    return counts.astype(float), np.asarray(binom.pmf(counts, people, rate))


def averaged_walk(
    people: int,
    groups: int,
    start: Array,
    off: Callable[[int, Array], Array],
    step: float,
    ends: tuple[float, float],
) -> Array:
    """Return the average point of a sequential search, for each repetition.

    `off(size, point)` is the difference between the wanted rate and the reports of a group of this
    size about the point. Each group moves the point in proportion to it, within `ends`.
    """
    bounds = np.rint(np.linspace(0, people, groups + 1)).astype(np.int64)
    point, total, weight = start, np.zeros_like(start), 0
    for group, size in enumerate(np.diff(bounds).tolist()):
        if group >= len(bounds) // BURN_IN:
            total += size * point
            weight += size
        point = np.clip(point + step * (group + 1) ** -0.6 * off(size, point), *ends)
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
