"""Reports of one bit by randomized response: rates, estimates, counts, and a sequential search.

A search asks one group after another at the point where it stands, and its estimate is Polyak's
average of a Robbins-Monro walk: group number i moves the point by i^-0.6 times what its reports are
off, and points of the first fiftieth of the groups, which only approach, are not averaged.

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
BURN_IN = 50  # one group in 50 only approaches: its points are not averaged
DEVIATIONS, COUNTS = 9, 60  # of a binomial: what lies beyond has a probability below 1e-18


def noise(epsilon: float) -> float:
    """Return V = e^ε / (e^ε - 1)^2, n times the variance that randomized response adds to a share.

    With C = 1 / tanh(ε / 2) it is (C^2 - 1) / 4.
    """
    return 1 / (4 * math.sinh(epsilon / 2) ** 2)


def reported_rate(mechanism: RandomizedResponse | Unary, rate: Array | float) -> Array:
    """Return the probability of a yes in a report about a bit that is true at this rate."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return np.asarray(lie + (keep - lie) * np.asarray(rate))


def estimated_rate(
    mechanism: RandomizedResponse | Unary,
    size: int,
    rate: Array | float,
    times: int,
    generator: Generator,
) -> Array:
    """Draw unbiased estimates of a bit's rate, each from the reports of `size` people."""
    counts = generator.binomial(size, reported_rate(mechanism, rate), times)
    return np.asarray(mechanism.unbiased_share(counts / size))


def binomial(people: int, rate: float) -> tuple[Array, Array]:
    """Return counts and their probabilities, except for a negligible tail."""
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

    Each group of people moves the point within `ends`, in steps that shrink, in proportion to
    `off(size, point)`: how far the reports of a group of this size are from their wanted rate.
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
    """Return the least whole number from `first` on that is enough; None if `most` is too few."""
    high = first
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = max(first, high // 2 + 1)
    return low + bisect_left(range(low, high), True, key=enough)
