"""The distribution of a number: shares, the share below each point, and quantiles.

The range is cut into so many equal parts, and each person counts for the two ends of their part, as
near to each as they are: a share at every point, adding up to 1. Let R_k be the share at the points
0 to k. Numbers at or below point k count in it wholly, those above point k + 1 not at all, so

    share at or below point k  <=  R_k  <=  share below point k + 1

whatever the distribution, and whatever rounding to the table's grid has done.

Estimating: R_k is linear in a person's grid point, so it is the mean of h_k over reports, for any
h_k(symbol) whose mean under row i is what grid point i counts for in R_k. Where the rows are
linearly independent there is one; of several that of least variance if all grid points are alike.
Each report bears one of finitely many values, so R_k has the interval of `bounded_mean`. All of
them together hold with the confidence (Bonferroni), and so does the band between

    low_k   the highest lower limit of R_0 ... R_(k - 1)
    high_k  the lowest upper limit of R_k and all after it

for the share at or below all points simultaneously. A band bounds all quantiles at no cost: the
quantile of level p is above a point with high_k < p, and not above one with low_k >= p.

Parts: the most, of 4 to 20 that divide the grid, for which a limit is expected within one
part of the whole from R_k at worst. That depends on the table and on the number of reports, not on
their content. If even four parts are too many, there are too few reports for a distribution.

`consistent` is a distribution: the most likely one by expectation and maximization [1], from even
shares and stopped where a step adds less than 0.001 to the logarithm of the likelihood, before it
follows the noise. Li et al. smooth each step as well: that flattens what is in truth at one value,
as zeros are, and does worse than stopping does (`./run bench --long --only distribution`).
The quantiles' estimates are its own. Intervals do not depend on it.

[1] Dempster, Laird, Rubin 1977, "Maximum likelihood from incomplete data via the EM algorithm",
    Journal of the Royal Statistical Society B 39(1). With square waves, and smoothing: Li et al.
    2020, "Estimating numerical distributions under local differential privacy", SIGMOD.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import anytime_valid
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.intervals import bounded_mean
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Interval = tuple[Array, Array]

MIN_PARTS, MAX_PARTS = 4, 20
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
LARGEST_MISFIT = 1e-9  # of what h_k counts for; it is added to every limit
LEAST_GAIN = 1e-3
MAX_STEPS = 2_000


@dataclass(frozen=True)
class Quantile:
    """Places in the range, 0 its low end and 1 its high one."""

    level: float
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Distribution:
    """One number for each point in each array; the points divide the range evenly.

    Intervals of `share` hold one by one, those of `below` simultaneously.
    """

    share: Array
    share_interval: Interval
    share_consistent: Array
    below: Array  # those at the point count half
    below_interval: Interval
    below_consistent: Array
    quantiles: tuple[Quantile, ...]

    @property
    def parts(self) -> int:
        return len(self.share) - 1


def distributions(
    table: NumberTable, counts: Array, confidence: float = CONFIDENCE, looks: bool = False
) -> list[Distribution | None]:
    """Estimate the distribution for each row of counts.

    It is None where the intervals would be too wide. With `looks` they hold at every look together.
    """
    found: list[Distribution | None] = [None] * len(counts)
    parts = [informative_parts(table, each, confidence, looks) for each in counts.sum(1).tolist()]
    for several in {each for each in parts if each is not None}:
        places = [place for place, each in enumerate(parts) if each == several]
        alike = _in_parts(table, counts[places], several, confidence, looks)
        for place, each in zip(places, alike, strict=True):
            found[place] = each
    return found


def _in_parts(
    table: NumberTable, counts: Array, parts: int, confidence: float, looks: bool
) -> Iterator[Distribution]:
    values, misfit = cumulative_values(table, parts)
    ends = np.zeros((1, table.symbols)), np.ones((1, table.symbols))
    shares = np.diff(values, axis=0, prepend=ends[0], append=ends[1])
    held = band(table, counts, parts, confidence, looks)
    intervals = _limits(shares, counts, confidence, looks, 2 * misfit)
    for row, low, high, *held_here in zip(counts, *intervals, *held, strict=True):
        rates = row / row.sum()
        cumulative = [0, *values @ rates, 1]
        fine = likeliest(_rows(table), row)
        ends_of_band = held_here[0], held_here[1]
        yield Distribution(
            share=shares @ rates,
            share_interval=(low, high),
            share_consistent=_at_points(table.steps, parts) @ fine,
            below=np.array([(before + with_it) / 2 for before, with_it in pairwise(cumulative)]),
            below_interval=ends_of_band,
            below_consistent=_below(fine)[:: table.steps // parts],
            quantiles=tuple(
                Quantile(level, _at_level(level, fine), *quantile_interval(level, ends_of_band))
                for level in LEVELS
            ),
        )


def band(
    table: NumberTable, counts: Array, parts: int, confidence: float, looks: bool = False
) -> Interval:
    """Return simultaneous limits for the shares at or below every point, for each row of counts."""
    values, misfit = cumulative_values(table, parts)
    each = 1 - (1 - confidence) / _held_at_once(table, parts, looks)
    low, high = _limits(values, counts, each, looks, misfit)
    rising = np.maximum.accumulate(low, axis=-1)[..., :-1]
    falling = np.minimum.accumulate(high[..., ::-1], axis=-1)[..., ::-1]
    none, every = np.zeros_like(low[..., :1]), np.ones_like(low[..., :1])
    return (
        np.concatenate([none, np.clip(rising, 0, 1), every], axis=-1),
        np.concatenate([np.clip(falling, 0, 1), every], axis=-1),
    )


def quantile_interval(level: float, held: Interval) -> tuple[float, float]:
    """Return the interval of a quantile, as places in the range."""
    low, high = held
    points = np.linspace(0, 1, len(low))
    return float(points[high < level].max(initial=0)), float(points[low >= level].min())


def informative_parts(
    table: NumberTable, reports: float, confidence: float = CONFIDENCE, looks: bool = False
) -> int | None:
    """Return the number of parts, which depends on nothing but the number of reports."""
    for parts in reversed(_possible_parts(table)):
        joint = 1 - (1 - confidence) / _held_at_once(table, parts, looks)
        deviations = NormalDist().inv_cdf((1 + joint) / 2)
        if deviations * math.sqrt(worst_variance(table, parts) / reports) <= 1 / parts:
            return parts
    return None


@lru_cache(maxsize=64)
def worst_variance(table: NumberTable, parts: int) -> float:
    """Return the largest variance of one report's value for any R_k, which is between 0 and 1."""
    values, _ = cumulative_values(table, parts)
    return float((_rows(table) @ (values.T - 1 / 2) ** 2).max())


@lru_cache(maxsize=64)
def cumulative_values(table: NumberTable, parts: int) -> tuple[Array, float]:
    """Return h_k for k = 0 ... parts - 1, and the largest error of their means."""
    rows = _rows(table)
    wanted = np.cumsum(_at_points(table.steps, parts), axis=0)[:-1]
    weights = rows.mean(0)
    values = np.linalg.lstsq(rows / np.sqrt(weights), wanted.T, rcond=None)[0].T / np.sqrt(weights)
    return values, float(np.abs(values @ rows.T - wanted).max())


@lru_cache(maxsize=64)
def _possible_parts(table: NumberTable) -> tuple[int, ...]:
    """Return no parts for a table that cannot distinguish all grid points, as with few symbols."""
    divisors = [p for p in range(MIN_PARTS, MAX_PARTS + 1) if table.steps % p == 0]
    return tuple(p for p in divisors if cumulative_values(table, p)[1] <= LARGEST_MISFIT)


def _held_at_once(table: NumberTable, parts: int, looks: bool) -> int:
    """Return how many limits must hold together: later looks may have more parts, or fewer."""
    return sum(_possible_parts(table)) if looks else parts


@lru_cache(maxsize=64)
def _rows(table: NumberTable) -> Array:
    return np.array([[units / ONE for units in row] for row in table.rows])


def _at_points(steps: int, parts: int) -> Array:
    """Return what each grid point adds to each of the points."""
    places = np.arange(steps + 1) * parts / steps
    counted: Array = np.maximum(1 - np.abs(places - np.arange(parts + 1)[:, None]), 0)
    return counted


def _limits(
    values: Array, counts: Array, confidence: float, looks: bool, misfit: float
) -> Interval:
    ascending = np.argsort(values, axis=-1, kind="stable")
    of = anytime_valid.mean if looks else bounded_mean
    low, high = of(
        np.take_along_axis(values, ascending, -1), np.take(counts, ascending, -1), confidence
    )
    return low - misfit, high + misfit


def likeliest(rows: Array, counts: Array) -> Array:
    """A share for each grid point, none below 0, adding up to 1."""
    shares = np.full(len(rows), 1 / len(rows))
    seen = counts > 0
    rows, counts = rows[:, seen], counts[seen]
    before = -math.inf
    for _ in range(MAX_STEPS):
        expected = shares @ rows
        likelihood = float(counts @ np.log(expected))
        if likelihood - before < LEAST_GAIN:
            break
        before = likelihood
        shares = shares * (rows @ (counts / expected))
        shares /= shares.sum()
    return shares


def _below(fine: Array) -> Array:
    """Return the share at or below each grid point, with half of those at the point.

    Rounding to the grid has put them there.
    """
    return np.asarray(np.cumsum(fine) - fine / 2)


def _at_level(level: float, fine: Array) -> float:
    return float(np.interp(level, _below(fine), np.linspace(0, 1, len(fine))))
