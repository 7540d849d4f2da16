"""Where each of many increasing functions is 0, all of them at once.

The secant through the last two points, and where that leaves the bracket its middle (Dekker).

Source: Dekker 1969, "Finding a zero by means of successive linear interpolation", in: Constructive
Aspects of the Fundamental Theorem of Algebra.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MOST_STEPS = 60
CLOSE = 1e-8  # of the function's value to 0
TINY = 1e-300


def roots(
    function: Callable[[Array], Array], low: Array, high: Array, near: Array | None = None
) -> Array:
    """Between `low`, where the function is at most 0, and `high`, where it is at least 0."""
    before, at_before = low, function(low)
    here = (low + high) / 2 if near is None else np.clip(near, low, high)
    for _ in range(MOST_STEPS):
        at_here = function(here)
        if (np.abs(at_here) <= CLOSE).all():
            break
        low, high = np.where(at_here < 0, here, low), np.where(at_here < 0, high, here)
        rise = at_here - at_before
        secant = here - at_here * (here - before) / np.where(rise == 0, TINY, rise)
        before, at_before = here, at_here
        inside = (low < secant) & (secant < high)
        here = np.where(at_here == 0, here, np.where(inside, secant, (low + high) / 2))
    return here
