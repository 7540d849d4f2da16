"""Quantiles of a distribution: its limits, three local searches, and the trusted mechanism.

Sequential search: Polyak's averaging of a Robbins-Monro walk over thresholds. Each group of people
is asked about a threshold that depends on the reports of the groups before it. It attains the limit
of all local protocols.

One round: thresholds cannot depend on answers, so each of L groups reports its interval at one
level of a binary tree by unary encoding. The quantile is found from the root, one node at each
level. The share below a point adds up as many groups as the path turns right: about (L / 2) L 4 V /
n.

Two groups: a tenth of the people are asked in one round. Half of the others are asked whether they
are above the resulting estimate moved down by two deviations, the other half moved up. The straight
line between both shares replaces the distribution function.

A group's reports are one binomial, exactly: groups are different people.

Trusted server: the exponential mechanism, and the people's own quantile, by the order statistics
around the quantile; exact except for weights below e^-40. A server would release
`central.PrivateQuantile`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine.comparison import Series, look

LOCAL = Series("local", "search", "local, sequential", look(0))
TWO_GROUPS = Series("local", "two-groups", "local, two groups", look(5))
ONCE = Series("local", "once", "local, one round", look(3))
CLIP = Series("local", "clip", "local, clipped mean", look(4))
CENTRAL = Series("central", "exponential", "trusted server", look(1))
NONE = Series("none", "median", "no privacy", look(2))
SERIES = (LOCAL, CENTRAL, NONE)
ALL = (LOCAL, TWO_GROUPS, ONCE, CLIP, CENTRAL, NONE)

Array = NDArray[np.float64]
SHAPE = 5.0  # F(x) = 1 - (1 - x^2)^5 on [0, 1]: unimodal, with a closed form
CENTRE, SIGMA = 0.4, 0.05  # of the normal distribution; the range is 20 deviations wide
CLIPPED = 3.0  # deviations
Ask = Callable[[int, Array], Array]  # (people, thresholds) -> how many report "above"
GROUPS = 2_000
BURN_IN = 50  # one group in 50 only approaches the quantile: its thresholds are not averaged
FIRST_GROUP, ASIDE = 0.1, 2.0  # a share of the people; deviations
LEAST_LOG_WEIGHT = 40.0


def below(x: Array | float) -> Array:
    """Return the share of people below x."""
    return np.asarray(1 - (1 - np.square(x)) ** SHAPE)


def quantile(share: Array | float) -> Array:
    return np.asarray(np.sqrt(1 - (1 - np.asarray(share)) ** (1 / SHAPE)))


def normal_below(x: Array | float) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr((np.asarray(x) - CENTRE) / SIGMA))


def normal_quantile(share: Array | float) -> Array:
    from scipy.special import ndtri

    return np.asarray(np.clip(CENTRE + SIGMA * ndtri(np.asarray(share)), 0, 1))


@dataclass(frozen=True)
class Target:
    """The `share` quantile of the distribution F, or the centre of the normal distribution."""

    question: str  # quantile or location
    share: float

    def below(self, x: Array | float) -> Array:
        return (normal_below if self.question == "location" else below)(x)

    def quantile(self, share: Array | float) -> Array:
        return (normal_quantile if self.question == "location" else quantile)(share)

    @property
    def truth(self) -> float:
        return float(self.quantile(self.share))

    @property
    def density(self) -> float:
        if self.question == "location":
            return 1 / (SIGMA * math.sqrt(2 * math.pi))
        return float(2 * SHAPE * self.truth * (1 - self.truth**2) ** (SHAPE - 1))

    def limit(self, series: Series, epsilon: Epsilon, people: int) -> float:
        """Return the asymptotic variance of a series; no local protocol is below the search."""
        if series is CLIP:
            return float((CLIPPED * SIGMA / math.tanh(float(epsilon) / 2)) ** 2 / people)
        spread = self.share * (1 - self.share)
        none: float = spread / (people * self.density**2)
        if series.model == "local":
            return none + noise(epsilon) / (people * self.density**2)
        if series is CENTRAL:
            more: float = 8 / (float(epsilon) * people * self.density) ** 2
            return none + more
        return SIGMA**2 / people if self.question == "location" else none


def noise(epsilon: Epsilon) -> float:
    """Return V: n times the variance of a share by randomized response."""
    return 1 / (4 * math.sinh(float(epsilon) / 2) ** 2)


HALF = Target("quantile", 0.5)
MEDIAN, DENSITY = HALF.truth, HALF.density


def limit(series: Series, epsilon: Epsilon, people: int) -> float:
    """Return the asymptotic variance of the median."""
    return HALF.limit(series, epsilon, people)


# Local searches


def crowd(mechanism: RandomizedResponse, generator: Generator, target: Target = HALF) -> Ask:
    """Return how to ask a group: one binomial of the reports that are above the threshold."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE

    def ask(size: int, threshold: Array) -> Array:
        rate = lie + (keep - lie) * (1 - target.below(threshold))
        return np.asarray(generator.binomial(size, rate), dtype=float)

    return ask


def search(
    mechanism: RandomizedResponse, people: int, times: int, ask: Ask, share: float = 0.5
) -> Array:
    """Search sequentially, by groups of people who are asked about the same threshold."""
    ends = np.rint(np.linspace(0, people, min(people, GROUPS) + 1)).astype(np.int64)
    threshold, total, weight = np.full(times, 0.5), np.zeros(times), 0
    for group, size in enumerate(np.diff(ends).tolist()):
        if group >= len(ends) // BURN_IN:
            total += size * threshold
            weight += size
        above = _debiased(mechanism, ask(size, threshold) / size)
        threshold = np.clip(threshold + 0.5 * (group + 1) ** -0.6 * (above - (1 - share)), 0, 1)
    return total / weight


def levels(people: int) -> int:
    """Return the depth of the tree: its last step is smaller than the error."""
    return max(10, math.ceil(math.log2(people) / 2))


def one_round(unary: Unary, people: int, times: int, target: Target, generator: Generator) -> Array:
    depth = levels(people)
    sizes = np.diff(np.rint(np.linspace(0, people, depth + 1))).astype(np.int64)
    keep, lie = unary.keep / ONE, unary.lie / ONE
    start, left = np.zeros(times), np.full(times, target.share)
    mass = np.zeros(times)
    for level, size in enumerate(sizes.tolist(), 1):
        step = 0.5**level
        held = target.below(start + step) - target.below(start)
        counts = generator.binomial(size, lie + (keep - lie) * held)
        mass = (counts / size - lie) / (keep - lie)
        right = left > mass
        start, left = start + step * right, left - mass * right
    return start + 0.5**depth / 2


def two_groups(
    mechanism: RandomizedResponse,
    unary: Unary,
    people: int,
    times: int,
    target: Target,
    generator: Generator,
) -> Array:
    first = max(10, round(people * FIRST_GROUP))
    near = one_round(unary, first, times, target, generator)
    aside = ASIDE * near.std() + 1e-9
    ask, half = crowd(mechanism, generator, target), (people - first) // 2
    lower, upper = near - aside, near + aside
    at_lower, at_upper = (
        1 - _debiased(mechanism, ask(half, np.clip(at, 0, 1)) / half) for at in (lower, upper)
    )
    slope = np.maximum(at_upper - at_lower, 1e-3)
    line = lower + (target.share - at_lower) / slope * (upper - lower)
    return np.asarray(np.clip(line, lower - aside, upper + aside))


def _debiased(mechanism: RandomizedResponse, reported: Array) -> Array:
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return (reported - lie) / (keep - lie)


# Trusted server


def near_points(
    people: int,
    epsilon: float,
    times: int,
    generator: Generator,
    share: float = 0.5,
    quantile_of: Callable[[Array], Array] = quantile,
) -> tuple[int, Array]:
    """Return the order statistics around the share, and the rank of the first of them.

    Ranks 0 and people + 1 are the ends of the range. Of uniform numbers, rank r is
    Beta(r, n - r + 1), and the next one covers the same part of the rest above rank i as the least
    of n - i uniform numbers does.
    """
    reach, middle = math.ceil(2 * LEAST_LOG_WEIGHT / epsilon) + 1, math.floor(share * people)
    first, last = max(0, middle - reach), min(people + 1, middle + reach)
    start = generator.beta(first, people - first + 1, (times, 1)) if first else np.zeros((times, 1))
    steps = generator.exponential(size=(times, last - first)) / (
        people - np.arange(first, last) + (np.arange(first, last) == people)
    )
    above = np.cumsum(np.hstack([np.log1p(-start), -steps]), axis=1)
    uniform = -np.expm1(above)
    if last == people + 1:
        uniform[:, -1] = 1.0
    return first, quantile_of(uniform)


def choose(
    points: Array, first: int, people: int, epsilon: float, generator: Generator, share: float = 0.5
) -> Array:
    """Choose by the exponential mechanism.

    An interval has a probability proportional to its length · e^(-(ε/2) |rank - share n|), and its
    points are equally likely. The Gumbel trick draws it: the largest log weight plus Gumbel noise.
    """
    lengths = np.diff(points, axis=1)
    ranks = first + np.arange(lengths.shape[1])
    with np.errstate(divide="ignore"):
        weights = np.log(lengths) - epsilon / 2 * np.abs(ranks - people * share)
    chosen = np.argmax(weights + generator.gumbel(size=weights.shape), axis=1)[:, None]
    start, length = (np.take_along_axis(a, chosen, 1)[:, 0] for a in (points, lengths))
    return np.asarray(start + generator.random(len(points)) * length)


def own_quantile(points: Array, first: int, people: int, share: float = 0.5) -> Array:
    """Return the people's own quantile: the middle of two people where the rank is whole."""
    rank = people * share
    low, high = math.ceil(rank) - first, math.floor(rank) + 1 - first
    return np.asarray((points[:, low] + points[:, high]) / 2)
