"""The local searches: asked in turn, in two groups, and once.

In turn: Polyak's averaging of a Robbins-Monro walk over thresholds, each group moved by what the
groups before reported. It reaches the limit of all local protocols.

Once: thresholds cannot follow answers, so each of L groups reports the interval of one level of a
binary tree by unary encoding; the quantile is found from the top, one node for each level. The
share below a point is a sum over as many groups as the tree turns right: about (L / 2) L 4 V / n.

Two groups: a tenth of the people are asked once; half of the others whether they are above the
place that was found, moved down by two deviations, and half of them moved up. The straight line
between both shares is taken for the distribution.

A group's reports are one binomial, exactly: groups are different people.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.studies.median.people import HALF, Array, Target

Ask = Callable[[int, Array], Array]  # so many people and thresholds: reports that say "above"
GROUPS = 2_000
LEFT_OUT = 50  # one part in so many of the groups: spent on getting near
FIRST_GROUP, ASIDE = 0.1, 2.0


def crowd(
    mechanism: RandomizedResponse, generator: np.random.Generator, target: Target = HALF
) -> Ask:
    """How many of a group report that they are above the threshold: one binomial for all."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE

    def ask(size: int, threshold: Array) -> Array:
        rate = lie + (keep - lie) * (1 - target.below(threshold))
        return np.asarray(generator.binomial(size, rate), dtype=float)

    return ask


def search(
    mechanism: RandomizedResponse, people: int, times: int, ask: Ask, share: float = 0.5
) -> Array:
    """In turn, by groups of people who are asked at the same threshold."""
    ends = np.rint(np.linspace(0, people, min(people, GROUPS) + 1)).astype(np.int64)
    threshold, total, weight = np.full(times, 0.5), np.zeros(times), 0
    for place, size in enumerate(np.diff(ends).tolist()):
        if place >= len(ends) // LEFT_OUT:
            total += size * threshold
            weight += size
        above = _truly(mechanism, ask(size, threshold) / size)
        threshold = np.clip(threshold + 0.5 * (place + 1) ** -0.6 * (above - (1 - share)), 0, 1)
    return total / weight


def levels(people: int) -> int:
    """Of the tree: fine enough that the last step is less than the error."""
    return max(10, math.ceil(math.log2(people) / 2))


def once(
    unary: Unary, people: int, times: int, target: Target, generator: np.random.Generator
) -> Array:
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
    generator: np.random.Generator,
) -> Array:
    first = max(10, round(people * FIRST_GROUP))
    near = once(unary, first, times, target, generator)
    aside = ASIDE * near.std() + 1e-9
    ask, half = crowd(mechanism, generator, target), (people - first) // 2
    lower, upper = near - aside, near + aside
    at_lower, at_upper = (
        1 - _truly(mechanism, ask(half, np.clip(at, 0, 1)) / half) for at in (lower, upper)
    )
    slope = np.maximum(at_upper - at_lower, 1e-3)
    line = lower + (target.share - at_lower) / slope * (upper - lower)
    return np.asarray(np.clip(line, lower - aside, upper + aside))


def _truly(mechanism: RandomizedResponse, reported: Array) -> Array:
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return (reported - lie) / (keep - lie)
