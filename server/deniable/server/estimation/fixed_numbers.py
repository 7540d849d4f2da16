"""Limits for the mean of these very people's numbers: they are not drawn, only the noise is.

A report of a number at position x has the mean x and a variance V(x) that the table tells. Nobody
knows where these n people are, but of all places with the mean m none have more noise than W(m), W
being the least concave function above V (Jensen). Nor have they more than the reports vary, S,
since the people themselves differ too. So the limits are those m for which

    |mean of the reports - m|  <=  z √(min(W(m), S) / n) + (highest value - lowest value) / n

where the last part is what is not normal: that reports come in steps, and their skewness. The
coverage is measured, not proved. With two symbols nothing is known of the noise that the reports do
not show: there the limits are those for people drawn at random, which hold for these as well.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import bounded_mean
from deniable.server.estimation.roots import brent
from deniable.shared.privacy.families.number_table import NumberTable

Array = npt.NDArray[np.float64]
Interval = tuple[Array, Array]

PLACES = 256  # about so many are looked at, and at least two for each step


def limits(table: NumberTable, counts: Array, confidence: float) -> Interval:
    """As positions in the range, 0 its low end and 1 its high one. From at least one report."""
    values = positions(table)
    if len(values) == 2:
        return bounded_mean.interval(values, counts, confidence)
    reports = counts.sum(-1)
    mean = np.vecdot(counts, values) / reports
    places, worst = most_noise(table)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = np.sqrt(np.minimum(worst, _seen(table, counts)[..., None]) / reports[..., None])
    reach = z * spread + step(table, reports)[..., None]
    low = _least(places, reach, mean)
    high = 1 - _least(1 - places[::-1], reach[..., ::-1], 1 - mean)
    return low, high


def step(table: NumberTable, reports: Array) -> Array:
    """What one report moves the mean at the most."""
    values = positions(table)
    return np.asarray((values[-1] - values[0]) / reports)


def noise(table: NumberTable, counts: Array) -> Array:
    """The variance of the mean, at the most, in units of the range."""
    reports = counts.sum(-1)
    mean = np.vecdot(counts, positions(table)) / reports
    worst = np.interp(mean, *most_noise(table))
    return np.asarray(np.minimum(worst, _seen(table, counts)) / reports)


def _seen(table: NumberTable, counts: Array) -> Array:
    """The variance of the reports."""
    values, reports = positions(table), counts.sum(-1)
    mean = np.vecdot(counts, values) / reports
    apart = values - mean[..., None]
    seen = np.vecdot(apart**2, counts) / np.maximum(reports - 1, 1)
    return np.asarray(np.maximum(seen, table.least_variance(1)))


def positions(table: NumberTable) -> Array:
    """The symbols' values, in units of the range."""
    return np.array([float(value) for value in table.values]) / table.steps


def _least(places: Array, reach: Array, mean: Array) -> Array:
    """The least m that has the mean within reach: the reach is concave, so there is one such."""

    def short(m: Array) -> Array:
        return m + _between(places, reach, m) - mean

    return brent(short, mean - reach.max(-1) - 1e-9, mean, 1e-12)


def _between(places: Array, heights: Array, at: Array) -> Array:
    """As numpy interpolates, for each its own heights."""
    right = np.clip(np.searchsorted(places, at, side="right"), 1, len(places) - 1)
    low, high = (
        np.take_along_axis(heights, end[..., None], -1)[..., 0] for end in (right - 1, right)
    )
    slope = (high - low) / (places[right] - places[right - 1])
    return np.asarray(slope * (np.clip(at, places[0], places[-1]) - places[right - 1]) + low)


@lru_cache(maxsize=64)
def most_noise(table: NumberTable) -> tuple[Array, Array]:
    """Places, and W at each: the upper hull of V, which between two places is above the chord by a
    quarter of their distance, squared, at the most."""
    places = places_of(table)
    rise = places[1] ** 2 / 4
    return hull(places, np.array([table.variance(1, place) + rise for place in places]))


def places_of(table: NumberTable) -> Array:
    """The grid's points, and some between them."""
    return np.linspace(0, 1, table.steps * max(2, PLACES // table.steps) + 1)


def hull(places: Array, heights: Array) -> tuple[Array, Array]:
    """The corners of the least concave function above them (Andrew's monotone chain)."""
    kept: list[int] = []
    for here in range(len(places)):
        while len(kept) > 1 and _is_below(places, heights, kept[-2], kept[-1], here):
            kept.pop()
        kept.append(here)
    return places[kept], heights[kept]


def _is_below(x: Array, y: Array, before: int, middle: int, after: int) -> bool:
    across = (x[middle] - x[before]) * (y[after] - y[before])
    return bool((y[middle] - y[before]) * (x[after] - x[before]) <= across)
