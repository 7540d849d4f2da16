"""Limits for the mean of these very people's numbers: they are not drawn, only the noise is.

A report of a number at position x has the mean x and a variance V(x) that the table tells. Nobody
knows where these n people are, but of all places with the mean m none have more noise than W(m), W
being the least concave function above V (Jensen). So the limits are those m for which

    |mean of the reports - m|  <=  z √(W(m) / n)

Where a table has the same noise everywhere, as an optimal one nearly has, W is V. Of one with two
symbols it is what people drawn at random show: there these limits are no narrower than theirs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.shapes.number_table import NumberTable

Array = npt.NDArray[np.float64]

PARTS = 16  # of a step; between two of its places its noise is above the chord by RISE at most
RISE = 1 / (4 * PARTS**2)


def limits(table: NumberTable, reports: int, mean: float, confidence: float) -> tuple[float, float]:
    """As positions in the range, 0 its low end and 1 its high one."""
    if not reports:
        return -math.inf, math.inf
    places, noise = most_noise(table)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(reports)
    low = _least(places, np.sqrt(noise) * reach, mean)
    high = 1 - _least(1 - places[::-1], np.sqrt(noise[::-1]) * reach, 1 - mean)
    return low, high


def _least(places: Array, reach: Array, mean: float) -> float:
    """The least m from which the mean is within reach; what is above W's middle never is least."""
    from scipy.optimize import brentq

    def short(m: float) -> float:
        return m + float(np.interp(m, places, reach)) - mean

    return float(brentq(short, mean - float(reach.max()) - 1e-12, mean, xtol=1e-12))


@lru_cache(maxsize=64)
def most_noise(table: NumberTable) -> tuple[Array, Array]:
    """Places, and W at each: the upper hull of V."""
    places = np.linspace(0, 1, table.steps * PARTS + 1)
    rise = RISE / table.steps**2
    return hull(places, np.array([table.variance(1, place) + rise for place in places]))


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
