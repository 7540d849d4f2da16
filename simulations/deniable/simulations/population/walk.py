"""Tallies for tables that are memoryless walks, from a few binomials per grid point.

Discrete Laplace noise, clamped to the range, is a memoryless walk. At point i, a person stays with
probability (1 - r) / (1 + r), or starts to move left or right with probability r / (1 + r) each. At
an end there is only one direction, and a person who does not take it stays. A moving person stops
at each inner point with probability 1 - r, wherever they started, and always at the end:

    P[j | i] = (1 - r) / (1 + r) r^|i - j|       j inside
             =       1 / (1 + r) r^|i - j|       j an end

People who move in the same direction are therefore exchangeable, and can be counted together. With
m + 1 points, 2 m binomials of people who start and 2 m of people who stop have exactly the joint
distribution of m + 1 multinomials, in time that grows with m and not with m^2. We know of no
published source.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
ROUNDING = 1e-13  # relative error of a probability after 255 steps in doubles; undetectable


def walk_rate(mechanism: NumberTable, rows: Array) -> float | None:
    """Return r if the rows of the mechanism are those of a walk, up to rounding; else None."""
    if rows.shape[0] != rows.shape[1]:
        return None
    stay = mechanism.rows[0][0]
    r = (ONE - stay) / stay
    return r if np.allclose(rows, walk_rows(len(rows) - 1, r), rtol=ROUNDING, atol=1e-17) else None


def walk_rows(steps: int, r: float) -> Array:
    points = np.arange(steps + 1)
    rows = (1 - r) / (1 + r) * r ** np.abs(points[:, None] - points)
    ends = r**points / (1 + r)
    rows[:, 0], rows[:, steps] = ends, ends[::-1]
    return np.asarray(rows)


def walked(r: float, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
    """Draw tallies of people at these points; `people` has one row, or one for each repetition."""
    last = held.shape[1] - 1
    ways = np.zeros((2, last + 1, repetitions), dtype=np.int64)  # starts to the right, and left
    counts = np.empty((last + 1, repetitions), dtype=np.int64)
    for point, people in enumerate(held.T):
        stay = people[0] if len(people) == 1 else people  # drawing is much faster for one number
        if point < last:
            ways[0, point] = generator.binomial(stay, r / (1 + r), repetitions)
        if point:
            share = r if point < last else r / (1 + r)
            ways[1, point] = generator.binomial(stay - ways[0, point], share)
        counts[point] = stay - ways[0, point] - ways[1, point]
    _arrive(counts, ways[0], r, generator)
    _arrive(counts[::-1], ways[1, ::-1], r, generator)
    return np.ascontiguousarray(counts.T)


def _arrive(counts: Counts, setting_out: Counts, r: float, generator: np.random.Generator) -> None:
    """Move people from the first point to the last, adding those who stop to `counts`."""
    moving = setting_out[0]
    for point in range(1, len(counts) - 1):
        stopped = generator.binomial(moving, 1 - r)
        counts[point] += stopped
        moving = moving - stopped + setting_out[point]
    counts[-1] += moving
