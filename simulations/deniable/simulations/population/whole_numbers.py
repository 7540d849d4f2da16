"""Whole numbers of people from shares, and people on the grid of a number question.

A number between two grid points is rounded up with a probability equal to its share of the way to
the upper point, which keeps the mean. The number of people with the same value who are rounded up
is one binomial draw. Values are shares of the range, clamped to [0, 1] as on a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def whole_people(weights: Sequence[float], people: int) -> NDArray[np.int64]:
    """Split the people in proportion to the weights.

    The numbers add up to `people`, and each is off by less than one.

    >>> whole_people([1, 1, 1], 100).tolist()
    [33, 34, 33]
    """
    ends = np.cumsum(np.asarray(weights, dtype=float))
    whole = np.rint(people * (ends / ends[-1])).astype(np.int64)
    return np.asarray(np.diff(whole, prepend=0))


def on_grid(
    positions: Sequence[float],
    people: Sequence[int],
    steps: int,
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw the number of people at each of the steps + 1 points, one row per repetition."""
    points = np.zeros((repetitions, steps + 1), dtype=np.int64)
    for position, count in zip(positions, people, strict=True):
        below, share = grid_place(position, steps)
        up = generator.binomial(count, share, repetitions)
        points[:, below] += count - up
        points[:, below + 1] += up
    return points


def grid_place(position: float, steps: int) -> tuple[int, float]:
    """Return the grid point below (never the last point), and the share of the way to the next."""
    place = min(max(position, 0.0), 1.0) * steps
    below = min(math.floor(place), steps - 1)
    return below, place - below


def grid_distribution(
    positions: Sequence[float], shares: Sequence[float], steps: int
) -> list[float]:
    """Return the probability of each grid point for a person drawn from this distribution."""
    distribution = [0.0] * (steps + 1)
    for position, share in zip(positions, shares, strict=True):
        below, up = grid_place(position, steps)
        distribution[below] += share * (1 - up)
        distribution[below + 1] += share * up
    return distribution
