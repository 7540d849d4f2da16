"""Where each of many increasing functions is 0, all of them at once.

Regula falsi, with the value at an end that stays halved (the Illinois rule): superlinear, and never
outside of its bracket.

Source: Dowell, Jarratt 1971, "A modified regula falsi method for computing the root of an
equation", BIT 11.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MOST_STEPS = 60
CLOSE = 1e-9  # of the bracket's ends, relative to them


def roots(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Between `low`, where the function is at most 0, and `high`, where it is at least 0."""
    at_low, at_high = function(low), function(high)
    for _ in range(MOST_STEPS):
        if (np.abs(high - low) <= CLOSE * np.maximum(np.abs(low), np.abs(high))).all():
            break
        share = at_low / np.minimum(at_low - at_high, -1e-300)
        middle = low + np.clip(share, 0.001, 0.999) * (high - low)
        found = function(middle)
        below = found < 0
        at_low, at_high = (
            np.where(below, found, at_low / 2),
            np.where(below, at_high / 2, found),
        )
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
