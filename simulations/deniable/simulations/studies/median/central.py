"""The exponential mechanism and the people's own quantile, by the order statistics around it.

Exact but for what lies beyond a weight of e^-40. What a server would release is
`central.PrivateQuantile`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deniable.simulations.studies.median.people import Array, quantile

LEAST_LOG_WEIGHT = 40.0


def near_points(
    people: int,
    epsilon: float,
    times: int,
    generator: np.random.Generator,
    share: float = 0.5,
    of: Callable[[Array], Array] = quantile,
) -> tuple[int, Array]:
    """The order statistics around the share of all, and the rank of the first; ranks 0 and people
    + 1 are the ends of the range.

    Uniform ones: rank r is Beta(r, n - r + 1), and of what is above rank i the next takes the part
    that the least of n - i uniform numbers takes."""
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
    return first, of(uniform)


def choose(
    points: Array,
    first: int,
    people: int,
    epsilon: float,
    generator: np.random.Generator,
    share: float = 0.5,
) -> Array:
    """The exponential mechanism: an interval with probability proportional to its
    length · e^(-(ε/2) |rank - share n|), and a uniform point of it. The largest of log weights plus
    Gumbel noise is such a choice."""
    lengths = np.diff(points, axis=1)
    ranks = first + np.arange(lengths.shape[1])
    with np.errstate(divide="ignore"):
        weights = np.log(lengths) - epsilon / 2 * np.abs(ranks - people * share)
    chosen = np.argmax(weights + generator.gumbel(size=weights.shape), axis=1)[:, None]
    start, length = (np.take_along_axis(a, chosen, 1)[:, 0] for a in (points, lengths))
    return np.asarray(start + generator.random(len(points)) * length)


def own_quantile(points: Array, first: int, people: int, share: float = 0.5) -> Array:
    """Of the people; between two of them where the rank is whole."""
    rank = people * share
    low, high = math.ceil(rank) - first, math.floor(rank) + 1 - first
    return np.asarray((points[:, low] + points[:, high]) / 2)
