"""The distribution of a number: shares, the share below each point, and quantiles.

The range is cut into equal parts, and each person counts for the two ends of their part, in
proportion to proximity. This gives a share at every point, and the shares add up to 1. Let R_k be
the share at the points 0 to k. Numbers at or below point k count fully in R_k, and those above
point k + 1 not at all, so

    share at or below point k  <=  R_k  <=  share below point k + 1

for any distribution and any effect of rounding to the table's grid.

Estimating: R_k is linear in a person's grid point, so it is the mean of h_k over reports, for any
h_k(symbol) whose mean under row i is the weight of grid point i in R_k. Such an h_k exists if the
rows are linearly independent; we use the one with the least variance for equally frequent grid
points or, if there is an earlier round, for 0.8 of that round's `consistent` shares and 0.2 of
equal ones. It is unbiased with any weights, and these are fixed before the round's reports, whose
noise is independent of the earlier round's. R_k then has the interval of `bounded_mean`, because
each report has one of finitely many values. All intervals hold jointly with the confidence
(Bonferroni). So does the band between

    low_k   the highest lower limit of R_0 ... R_(k - 1)
    high_k  the lowest upper limit of R_k and all after it

for the share at or below all points simultaneously. The band also bounds all quantiles: the
quantile of level p is above any point with high_k < p, and not above any point with low_k >= p.

Number of parts: the largest m from 4 to 20 that divides the grid and for which limits are expected
to be at most 1 / m away from R_k. It depends on the table and on the number of reports, not on
their content. If even four parts are too many, there are too few reports for a distribution.

`consistent` is the maximum-likelihood distribution, computed by expectation-maximization [1] from
equal shares. It stops when a step adds less than 0.001 to the log-likelihood, before it fits the
noise. Smoothing each step, as Li et al. do, flattens true concentrations at one value, such as
zeros, and does worse than early stopping (`./run bench --long --only distribution`). The estimates
of quantiles come from `consistent`; intervals do not depend on it.

[1] Dempster, Laird, Rubin 1977, "Maximum likelihood from incomplete data via the EM algorithm",
    Journal of the Royal Statistical Society B 39(1). With square waves, and smoothing: Li et al.
    2020, "Estimating numerical distributions under local differential privacy", SIGMOD.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from deniable.server.estimation.mean_limits import population_mean
from deniable.server.estimation.statements import CONFIDENCE, Array, Interval, joint_confidence
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable

MIN_PARTS, MAX_PARTS = 4, 20
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
LARGEST_MISFIT = 1e-9  # largest error of the means of h_k; the error is added to every limit
LEAST_GAIN = 1e-3
MAX_STEPS = 2_000
EVEN = 0.2  # weight of equal shares, next to an earlier round's


Solved = tuple[Array, float]  # h_k for every k, and the largest error of their means


class Quantile(NamedTuple):
    """A quantile; positions are from 0 at the low end of the range to 1 at its high end."""

    level: float
    estimate: float
    low: float
    high: float


class Distribution(NamedTuple):
    """Arrays with one number for each point; the points divide the range evenly.

    Each interval of `share` holds on its own, those of `below` hold jointly.
    """

    share: Array
    share_interval: Interval
    share_consistent: Array
    below: Array  # numbers at the point count half
    below_interval: Interval
    below_consistent: Array
    quantiles: tuple[Quantile, ...]

    @property
    def parts(self) -> int:
        return len(self.share) - 1


def distributions(
    table: NumberTable,
    counts: Array,
    confidence: float = CONFIDENCE,
    looks: bool = False,
    earlier: Sequence[Array | None] | None = None,
) -> list[Distribution | None]:
    """Estimate the distribution for each row of counts; None if intervals would be too wide.

    With `looks`, the intervals hold simultaneously at all looks. `earlier` has the counts of an
    earlier round for each row, or None: they make the intervals narrower.
    """
    made: list[Distribution | None] = [None] * len(counts)
    groups: dict[tuple[int, int | None], list[int]] = {}
    for row, reports in enumerate(counts.sum(1).tolist()):
        if parts := informative_parts(table, reports, confidence, looks):
            weighed = earlier is not None and earlier[row] is not None
            groups.setdefault((parts, row if weighed else None), []).append(row)
    for (parts, weighed_row), rows in groups.items():
        solved = None
        if earlier and weighed_row is not None and (before := earlier[weighed_row]) is not None:
            likely = likeliest(_rows(table), before)
            solved = weighed_values(table, parts, (1 - EVEN) * likely + EVEN / len(likely))
        estimated = _in_parts(table, counts[rows], parts, confidence, looks, solved)
        for row, distribution in zip(rows, estimated, strict=True):
            made[row] = distribution
    return made


def _in_parts(
    table: NumberTable,
    counts: Array,
    parts: int,
    confidence: float,
    looks: bool,
    solved: Solved | None = None,
) -> Iterator[Distribution]:
    values, misfit = solved or cumulative_values(table, parts)
    zeros, ones = np.zeros((1, table.symbols)), np.ones((1, table.symbols))
    shares = np.diff(values, axis=0, prepend=zeros, append=ones)
    bands = band(table, counts, parts, confidence, looks, solved)
    intervals = _limits(shares, counts, confidence, looks, 2 * misfit)
    positions = np.linspace(0, 1, table.steps + 1)
    for row, low, high, band_low, band_high in zip(counts, *intervals, *bands, strict=True):
        rates = row / row.sum()
        cumulative = [0, *values @ rates, 1]
        fine = likeliest(_rows(table), row)
        below = np.cumsum(fine) - fine / 2  # each grid point, plus half of the share at it
        yield Distribution(
            share=shares @ rates,
            share_interval=(low, high),
            share_consistent=_at_points(table.steps, parts) @ fine,
            below=np.array([(before + with_it) / 2 for before, with_it in pairwise(cumulative)]),
            below_interval=(band_low, band_high),
            below_consistent=below[:: table.steps // parts],
            quantiles=tuple(
                Quantile(
                    level,
                    float(np.interp(level, below, positions)),
                    *quantile_interval(level, band_low, band_high),
                )
                for level in LEVELS
            ),
        )


def band(
    table: NumberTable,
    counts: Array,
    parts: int,
    confidence: float,
    looks: bool = False,
    solved: Solved | None = None,
) -> Interval:
    """Return simultaneous limits for the shares at or below every point, for each row of counts."""
    values, misfit = solved or cumulative_values(table, parts)
    joint = joint_confidence(_limits_held_jointly(table, parts, looks), confidence)
    low, high = _limits(values, counts, joint, looks, misfit)
    rising = np.maximum.accumulate(low, axis=-1)[..., :-1]
    falling = np.minimum.accumulate(high[..., ::-1], axis=-1)[..., ::-1]
    zero, one = np.zeros_like(low[..., :1]), np.ones_like(low[..., :1])
    return (
        np.concatenate([zero, np.clip(rising, 0, 1), one], axis=-1),
        np.concatenate([np.clip(falling, 0, 1), one], axis=-1),
    )


def quantile_interval(level: float, low: Array, high: Array) -> tuple[float, float]:
    """Return the interval of a quantile from the band, as positions in the range."""
    points = np.linspace(0, 1, len(low))
    return float(points[high < level].max(initial=0)), float(points[low >= level].min())


def informative_parts(
    table: NumberTable, reports: float, confidence: float = CONFIDENCE, looks: bool = False
) -> int | None:
    """Return the number of parts for this number of reports, or None if there are too few."""
    for parts in reversed(_possible_parts(table)):
        joint = joint_confidence(_limits_held_jointly(table, parts, looks), confidence)
        deviations = NormalDist().inv_cdf((1 + joint) / 2)
        if deviations * math.sqrt(worst_variance(table, parts) / reports) <= 1 / parts:
            return parts
    return None


@lru_cache(maxsize=64)
def worst_variance(table: NumberTable, parts: int) -> float:
    """Return the largest variance of one report's value for any R_k between 0 and 1."""
    values, _ = cumulative_values(table, parts)
    return float((_rows(table) @ (values.T - 1 / 2) ** 2).max())


@lru_cache(maxsize=64)
def cumulative_values(table: NumberTable, parts: int) -> Solved:
    return weighed_values(table, parts, np.full(table.steps + 1, 1 / (table.steps + 1)))


def weighed_values(table: NumberTable, parts: int, shares: Array) -> Solved:
    """Return h_k for k = 0 ... parts - 1, and the largest error of their means.

    They have the least variance if `shares` are those of the grid points.
    """
    rows = _rows(table)
    wanted = np.cumsum(_at_points(table.steps, parts), axis=0)[:-1]
    weights = shares @ rows
    values = np.linalg.lstsq(rows / np.sqrt(weights), wanted.T, rcond=None)[0].T / np.sqrt(weights)
    return values, float(np.abs(values @ rows.T - wanted).max())


@lru_cache(maxsize=64)
def _possible_parts(table: NumberTable) -> tuple[int, ...]:
    """Return the possible numbers of parts; none if the table cannot distinguish grid points."""
    divisors = [p for p in range(MIN_PARTS, MAX_PARTS + 1) if table.steps % p == 0]
    return tuple(p for p in divisors if cumulative_values(table, p)[1] <= LARGEST_MISFIT)


def _limits_held_jointly(table: NumberTable, parts: int, looks: bool) -> int:
    """Count the limits that must hold jointly; later looks may have more parts."""
    return sum(_possible_parts(table)) if looks else parts


@lru_cache(maxsize=64)
def _rows(table: NumberTable) -> Array:
    return np.array([[units / ONE for units in row] for row in table.rows])


def _at_points(steps: int, parts: int) -> Array:
    """Return the weight of each grid point at each point of the distribution."""
    positions = np.arange(steps + 1) * parts / steps
    return np.asarray(np.maximum(1 - np.abs(positions - np.arange(parts + 1)[:, None]), 0))


def _limits(
    values: Array, counts: Array, confidence: float, looks: bool, misfit: float
) -> Interval:
    ascending = np.argsort(values, axis=-1, kind="stable")
    values, counts = np.take_along_axis(values, ascending, -1), np.take(counts, ascending, -1)
    low, high = population_mean(values, counts, confidence, looks)
    return low - misfit, high + misfit


def likeliest(rows: Array, counts: Array) -> Array:
    """Return the maximum-likelihood share of each grid point."""
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
