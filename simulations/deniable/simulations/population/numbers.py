"""People on the grid of a number question: stochastic rounding to one of two neighbours.

A number goes up with probability its share of the way there, which keeps the mean. People who hold
the same number are alike, so how many of them go up is one binomial draw. The numbers here are
shares of the range, 0 to 1, clamped to it as on a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def on_grid(
    positions: Sequence[float],
    people: Sequence[int],
    steps: int,
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """People at each of the steps + 1 grid points: one row for each repetition."""
    points = np.zeros((repetitions, steps + 1), dtype=np.int64)
    for position, count in zip(positions, people, strict=True):
        below, share = grid_place(position, steps)
        up = generator.binomial(count, share, repetitions)
        points[:, below] += count - up
        points[:, below + 1] += up
    return points


def grid_place(position: float, steps: int) -> tuple[int, float]:
    """The grid point below, never the last one, and the share of the way to the next."""
    place = min(max(position, 0.0), 1.0) * steps
    below = min(math.floor(place), steps - 1)
    return below, place - below


def grid_distribution(
    positions: Sequence[float], shares: Sequence[float], steps: int
) -> list[float]:
    """The probability that one person drawn from this distribution stands at each grid point."""
    distribution = [0.0] * (steps + 1)
    for position, share in zip(positions, shares, strict=True):
        below, up = grid_place(position, steps)
        distribution[below] += share * (1 - up)
        distribution[below + 1] += share * up
    return distribution
