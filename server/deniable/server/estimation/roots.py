"""Vectorized root finding for increasing functions; each root is independent of the others.

`roots` uses the secant through the last two points or, if that leaves the bracket, its midpoint
[1]; it stops when the value is near 0. `brent` also uses inverse quadratic interpolation through
the last three points, and stops when the bracket is narrow enough [2]. A finished element no longer
changes while the others continue.

[1] Dekker 1969, "Finding a zero by means of successive linear interpolation", in: Constructive
    Aspects of the Fundamental Theorem of Algebra.
[2] Brent 1971, "An algorithm with guaranteed convergence for finding a zero of a function", The
    Computer Journal 14(4).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.statements import Array, Cells, Interval

P = ParamSpec("P")

MAX_STEPS = 60
CLOSE = 1e-8  # distance of the function's value from 0
TINY = 1e-300
PRECISION = 4 * float(np.finfo(np.float64).eps)


def roots(
    function: Callable[[Array], Array],
    low: Array,
    high: Array,
    near: Array | None = None,
    together: tuple[int, ...] = (),
) -> Array:
    """Return roots between `low`, where the function is at most 0, and `high`.

    All elements along the axes `together` continue until the last of them has converged.
    """
    before, at_before = low, function(low)
    here = (low + high) / 2 if near is None else np.clip(near, low, high)
    for _ in range(MAX_STEPS):
        at_here = function(here)
        goes_on = (np.abs(at_here) > CLOSE).any(together, keepdims=True)
        if not goes_on.any():
            break
        low, high = np.where(at_here < 0, here, low), np.where(at_here < 0, high, here)
        rise = at_here - at_before
        secant = here - at_here * (here - before) / np.where(rise == 0, TINY, rise)
        before, at_before = here, at_here
        inside = (low < secant) & (secant < high)
        following = np.where(at_here == 0, here, np.where(inside, secant, (low + high) / 2))
        here = np.where(goes_on, following, here)
    return here


def brent(function: Callable[[Array], Array], low: Array, high: Array, width: float) -> Array:
    """Return roots between `low` and `high`, to within `width`."""
    before, here, at_before, at_here = low, high, function(low), function(high)
    across, at_across, last, step = before, at_before, here - before, here - before
    for _ in range(MAX_STEPS):
        turned = (at_before < 0) != (at_here < 0)
        across, at_across = np.where(turned, (before, at_before), (across, at_across))
        last, step = np.where(turned, here - before, (last, step))
        nearer = np.abs(at_across) < np.abs(at_here)
        before, here, across = np.where(nearer, (here, across, here), (before, here, across))
        at_before, at_here, at_across = np.where(
            nearer, (at_here, at_across, at_here), (at_before, at_here, at_across)
        )
        half, least = (across - here) / 2, (width + PRECISION * np.abs(here)) / 2
        goes_on = (at_here != 0) & (np.abs(half) >= least)
        if not goes_on.any():
            break
        tried = _interpolated((before, here, across), (at_before, at_here, at_across))
        short = 2 * np.abs(tried) < np.minimum(np.abs(last), 3 * np.abs(half) - least)
        short &= (np.abs(last) > least) & (np.abs(at_here) < np.abs(at_before))
        last, step = np.where(short, (step, tried), half)
        before, at_before = np.where(goes_on, (here, at_here), (before, at_before))
        far = np.where(np.abs(step) > least, step, np.copysign(least, half))
        here = np.where(goes_on, here + far, here)
        at_here = function(here)
    return here


def _interpolated(at: tuple[Array, Array, Array], values: tuple[Array, Array, Array]) -> Array:
    """Return the step from `here` to the interpolated root."""
    (before, here, across), (at_before, at_here, at_across) = at, values
    with np.errstate(divide="ignore", invalid="ignore"):
        secant = -at_here * (here - before) / (at_here - at_before)
        first = (at_before - at_here) / (before - here)
        other = (at_across - at_here) / (across - here)
        quadratic = -at_here * (at_across * other - at_before * first)
        quadratic /= other * first * (at_across - at_before)
    return np.where(before == across, secant, quadratic)


def least(holds: Callable[[Cells], npt.NDArray[np.bool_]], first: Cells, last: Cells) -> Cells:
    """Return the least whole number for which the monotone `holds` is true, or `last`."""
    while (first < last).any():
        middle = (first + last) // 2
        found = holds(middle) | (first >= last)
        first, last = np.where(found, first, middle + 1), np.where(found, middle, last)
    return first


def deduplicate_rows(
    limits: Callable[Concatenate[Array, Array, P], Interval],
) -> Callable[Concatenate[Cells, int | Cells, P], Interval]:
    """Decorate `limits` to compute each pair of count and reports only once.

    A choice may have 65,536 options. `reports` may be broadcast.
    """

    @wraps(limits)
    def deduplicated(
        counts: Cells, reports: int | Cells, /, *rest: P.args, **named: P.kwargs
    ) -> Interval:
        totals, group = np.unique(reports, return_inverse=True)
        span = int(counts.max(initial=0)) + 1
        distinct, index = np.unique(group * span + counts, return_inverse=True)
        group, count = np.divmod(distinct, span)
        trials = totals[group].astype(np.float64)
        low, high = limits(count.astype(np.float64), trials, *rest, **named)
        return low[index], high[index]

    return deduplicated
