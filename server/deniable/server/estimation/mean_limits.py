"""Limits of means: for the population, for the respondents, and at every look.

The mean of bounded values has Clopper-Pearson's interval, generalized from two values to many. With
c_j reports of value v_j, let G_j be independent gamma variables of shape c_j. The upper limit is
the (1 + confidence) / 2 quantile of

    sum_j v_j G_j / sum_j G_j           with the shape c_m + 1 for the highest value

and the lower limit mirrors it. With two values these are quantiles of beta distributions: exactly
Clopper-Pearson. The extra unit stands for values that may exist but were not seen: without a single
report of the highest value its probability may still be 3.7 / n. For many reports the interval
approaches the normal one. Coverage for every bounded distribution is Gaffke's conjecture, open and
unrefuted [1]. The tests measure the coverage for our tables; at small n it is well above 95 %.

If n of N fixed people were asked, at random, the interval refers to all N: their reports' mean has
the same expectation as that of n independent draws, and a variance that is no larger, since no one
is asked twice. For two values this is proved (`clopper_pearson`); for more it is measured.

With S(x) = sum_j (v_j - x) G_j, that mean is above x exactly if S(x) is above 0. A saddlepoint
approximation gives the probability [2]. It is too high by at most 2 per cent of itself, so it errs
outward.

The respondents: a report of a number at position x has the mean x and a variance V(x) given by the
table. The positions of these n people are unknown, but positions with the mean m have at most the
noise W(m), where W is the least concave function above V (Jensen). The noise is also at most S, the
variance of the reports, which includes the differences between people. So the limits are those m
for which

    |mean of the reports - m|  <=  z √(min(W(m), S) / n) + (highest value - lowest value) / n

where the last term allows for the steps and the skewness of the mean of the reports. The coverage
is measured, not proved. With two symbols, the limits are those for the population, which also hold
for the respondents.

At every look jointly, as in `share_limits`: for the mean of the respondents, ψ is n times the least
concave function above log E[e^(t value) | x]. For the mean of the population, where the
distribution of values is unknown, the capital comes from bets, prod (1 + t (value - m)). Each
factor has expectation 1, and if people's means differ, the expectation of the product is only
smaller [3].

[1] Learned-Miller, Thomas 2019, "A new confidence interval for the mean of a bounded random
    variable", arXiv 1905.06208.
[2] Lugannani, Rice 1980, "Saddle point approximation for the distribution of the sum of
    independent random variables", Advances in Applied Probability 12(2).
[3] Waudby-Smith, Ramdas 2024, "Estimating means of bounded random variables by betting", Journal of
    the Royal Statistical Society B 86(1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from deniable.server.estimation.roots import brent, roots
from deniable.server.estimation.share_limits import TILTS, needed_capital
from deniable.server.estimation.shares import beta_quantile
from deniable.server.estimation.statements import Array, Interval
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable

ROOT_OF_TWO_PI = math.sqrt(2 * math.pi)
MIN_PLACES = 256  # approximate number of positions to evaluate; at least two for each step


# The population


def population_mean(values: Array, counts: Array, confidence: float, looks: bool) -> Interval:
    """Return limits at one look, or at every look jointly, for each row of ascending values."""
    return (anytime_mean if looks else bounded_mean)(values, counts, confidence)


def bounded_mean(values: Array, counts: Array, confidence: float | Sequence[float]) -> Interval:
    """Return limits of the mean that reports were drawn from, for each row of ascending values.

    With several confidences, their limits come one after another. All are searched together,
    because a step takes as long for one row as for many.
    """
    values, counts = np.broadcast_arrays(values, counts)
    tails = (1 - np.array(confidence)) / 2
    tails = tails.reshape(*tails.shape, *[1] * values.ndim)
    sides = (-values[..., ::-1], counts[..., ::-1]), (values, counts)
    both = (np.broadcast_arrays(*side, tails) for side in sides)
    low, high = _upper(*map(np.stack, zip(*both, strict=True)))
    return -low, high


def _upper(values: Array, counts: Array, tail: Array) -> Array:
    """Compute rows with the same number of values together: zeros would change the rounding."""
    shape, tail = values.shape, tail[..., 0].ravel()
    values, shapes = (array.reshape(-1, shape[-1]) for array in (values, counts))
    shapes = shapes + (np.arange(shape[-1]) == shape[-1] - 1)
    used = shapes > 0
    number, upper = used.sum(1), values[:, -1].copy()
    for size in np.unique(number[number > 1]).tolist():
        rows = number == size
        points, weights = (array[rows][used[rows]].reshape(-1, size) for array in (values, shapes))
        if size == 2:
            (low, high), (failures, successes) = points.T, weights.T
            for share in np.unique(tail).tolist():
                at = tail[rows] == share
                quantile = beta_quantile(successes[at], failures[at], 1 - share)
                upper[np.flatnonzero(rows)[at]] = low[at] + (high - low)[at] * quantile
        else:
            upper[rows] = _saddlepoint_upper(points, weights, tail[rows])
    return upper.reshape(shape[:-1])


def _saddlepoint_upper(values: Array, shapes: Array, tail: Array) -> Array:
    """Search for the pole at which the probability beyond its mean is `tail`.

    Each pole above the highest value is the saddlepoint of one mean. Nearer poles have higher
    means.
    """
    top = values[:, -1]
    below = values - top[:, None]  # the top becomes 0, so that a pole next to it loses no digits
    total = shapes.sum(1)
    centre = np.vecdot(below, shapes) / total
    spread = np.sqrt(np.vecdot(shapes, (below - centre[:, None]) ** 2))
    nearest, farthest = np.log(-below[:, 0] / total / 1000), np.log(centre + 10 * spread)

    def excess(logarithm: Array) -> Array:
        return at_pole(np.exp(logarithm), below, shapes)[1] - tail

    pole = np.exp(brent(excess, nearest, farthest, 1e-10))
    return np.asarray(top + at_pole(pole, below, shapes)[0])


def at_pole(pole: Array, values: Array, shapes: Array) -> tuple[Array, Array]:
    """Return a mean x, and the probability that the random mean is above it: P[S(x) > 0].

    The cumulant function of S(x), -sum_j c_j log(1 - (v_j - x) s), is flat at the s for which the
    mean of the values, weighted by c_j / (pole - v_j) with pole = x + 1 / s, is x.
    """
    from scipy.special import ndtr

    above = np.asarray(pole)[..., np.newaxis]
    weights = shapes / (above - values)
    x = np.vecdot(weights, values) / weights.sum(-1)
    apart = values - x[..., np.newaxis]
    w = np.sqrt(2 * (shapes * np.log1p(apart / (x - pole)[..., np.newaxis])).sum(-1))
    u = np.sqrt((shapes * (apart / (above - values)) ** 2).sum(-1))
    return x, ndtr(-w) + np.exp(-(w**2) / 2) * (1 / u - 1 / w) / ROOT_OF_TWO_PI


# The respondents


def mean_limits(table: NumberTable, counts: Array, confidence: float) -> Interval:
    """Return limits for the respondents' mean, as positions from 0 to 1; reports are required."""
    values = positions(table)
    if len(values) == 2:
        return bounded_mean(values, counts, confidence)
    reports, (mean, variance) = counts.sum(-1), _moments(table, counts)
    places, worst = largest_noise(table)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = np.sqrt(np.minimum(worst, variance[..., None]) / reports[..., None])
    reach = z * spread + mean_step(table, reports)[..., None]
    low = _least(places, reach, mean)
    high = 1 - _least(1 - places[::-1], reach[..., ::-1], 1 - mean)
    return low, high


def mean_step(table: NumberTable, reports: Array) -> Array:
    """Return the largest effect of one report on the mean."""
    values = positions(table)
    return np.asarray((values[-1] - values[0]) / reports)


def mean_noise(table: NumberTable, counts: Array) -> Array:
    """Return an upper bound on the variance of the mean, in units of the range."""
    mean, variance = _moments(table, counts)
    worst = np.interp(mean, *largest_noise(table))
    return np.asarray(np.minimum(worst, variance) / counts.sum(-1))


def _moments(table: NumberTable, counts: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of the reports."""
    values, reports = positions(table), counts.sum(-1)
    mean = np.vecdot(counts, values) / reports
    squares = (values - mean[..., None]) ** 2
    variance = np.vecdot(squares, counts) / np.maximum(reports - 1, 1)
    return mean, np.maximum(variance, table.least_variance(1))


def positions(table: NumberTable) -> Array:
    """Return the symbols' values in units of the range."""
    return np.array([float(value) for value in table.values]) / table.steps


def _least(places: Array, reach: Array, mean: Array) -> Array:
    """Return the only mean that is below the reports' mean by exactly its (concave) reach."""

    def short(m: Array) -> Array:
        return m + _between(places, reach, m) - mean

    return brent(short, mean - reach.max(-1) - 1e-9, mean, 1e-12)


def _between(places: Array, heights: Array, at: Array) -> Array:
    """Interpolate like `np.interp`, but with separate heights for each element."""
    right = np.clip(np.searchsorted(places, at, side="right"), 1, len(places) - 1)
    low, high = (
        np.take_along_axis(heights, end[..., None], -1)[..., 0] for end in (right - 1, right)
    )
    slope = (high - low) / (places[right] - places[right - 1])
    return np.asarray(slope * (np.clip(at, places[0], places[-1]) - places[right - 1]) + low)


@lru_cache(maxsize=64)
def largest_noise(table: NumberTable) -> tuple[Array, Array]:
    """Return places and W at each place.

    W is the upper hull of V, raised by a quarter of the squared distance between two places,
    because V exceeds their chord by at most that much.
    """
    places = places_of(table)
    rise = places[1] ** 2 / 4
    return hull(places, np.array([table.variance(1, x) + rise for x in places]))


def places_of(table: NumberTable) -> Array:
    """Return the grid's points and some places between them."""
    return np.linspace(0, 1, table.steps * max(2, MIN_PLACES // table.steps) + 1)


def hull(places: Array, heights: Array) -> tuple[Array, Array]:
    """Return the corners of the least concave function above these heights (monotone chain)."""
    kept: list[int] = []
    for corner in range(len(places)):
        while len(kept) > 1:
            before, middle = kept[-2:]
            across = (places[middle] - places[before]) * (heights[corner] - heights[before])
            if (heights[middle] - heights[before]) * (places[corner] - places[before]) > across:
                break
            kept.pop()
        kept.append(corner)
    return places[kept], heights[kept]


# Every look


def anytime_mean(values: Array, counts: Array, confidence: float) -> Interval:
    """Return limits for the mean of the population, for each row of ascending values."""
    needed = needed_capital(confidence)
    return _bets(values, counts, needed), -_bets(-values[..., ::-1], counts[..., ::-1], needed)


def anytime_mean_of_these(table: NumberTable, counts: Array, confidence: float) -> Interval:
    """Return limits for the respondents' mean, as positions in the range."""
    values, needed = positions(table), needed_capital(confidence)
    low = _known_noise(table, False, values, counts, needed)
    return low, 1 - _known_noise(table, True, 1 - values[::-1], counts[..., ::-1], needed)


def _bets(values: Array, counts: Array, needed: float) -> Array:
    """Return the lowest mean at which the bets have not reached the needed capital."""
    reports, stakes = counts.sum(-1), _stakes(values)
    mean = np.vecdot(values, counts) / reports

    def short(m: Array) -> Array:
        return needed - _won(values, counts, stakes, m)

    won = np.expm1(needed / reports) / stakes[..., 0]
    return np.maximum(roots(short, values[..., 0] - won, mean), values[..., 0])


def _won(values: Array, counts: Array, stakes: Array, mean: Array) -> Array:
    """Return the logarithm of the bets' total capital; each bet stakes at most half of its own."""
    gains = np.log1p(stakes[..., :, None] * (values - mean[..., None])[..., None, :])
    return log_sum_exp((gains @ counts[..., None])[..., 0])


def _stakes(values: Array) -> Array:
    span = values[..., -1] - values[..., 0]
    return np.asarray(TILTS / TILTS[0] / (2 * span[..., None]))


def log_sum_exp(exponents: Array) -> Array:
    highest = exponents.max(-1)
    return np.asarray(highest + np.log(np.exp(exponents - highest[..., None]).sum(-1)))


def _known_noise(
    table: NumberTable, mirrored: bool, values: Array, counts: Array, needed: float
) -> Array:
    """Return the lowest possible mean of the respondents, for any positions.

    It does not use bets on the mean: the respondents' mean changes with each report, so such bets
    would not be fair.
    """
    reports, total = counts.sum(-1), np.vecdot(counts, values)
    span = values[-1] - values[0]
    tilts, hulls = TILTS / span, _growths(table, mirrored)

    def short(m: Array) -> Array:
        inside = np.clip(m, 0.0, 1.0)
        growths = np.stack([np.interp(inside, *corners) for corners in hulls], axis=-1)
        free = total - reports * (m - inside)
        return needed - log_sum_exp(tilts * free[..., None] - reports[..., None] * growths)

    mean = total / reports
    low = np.minimum(0.0, mean) - span * (1 + needed / reports)
    return np.asarray(np.maximum(roots(short, low, mean), values[0]))


@lru_cache(maxsize=32)
def _growths(table: NumberTable, mirrored: bool) -> tuple[tuple[Array, Array], ...]:
    """Return, per tilt, the corners of the least concave function above log E[e^(t value) | x].

    Between two grid points, stochastic rounding makes the expectation linear. Between two places,
    its logarithm exceeds the chord by at most an eighth of its squared rise.
    """
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    values = positions(table)
    if mirrored:
        rows, values = rows[::-1, ::-1], 1 - values[::-1]
    grid = np.linspace(0, 1, table.steps + 1)
    places = places_of(table)
    corners = []
    for tilt in TILTS / (values[-1] - values[0]):
        growth = np.log(np.interp(places, grid, rows @ np.exp(tilt * values)))
        rise = float(np.abs(np.diff(growth)).max()) ** 2 / 8
        corners.append(hull(places, growth + rise))
    return tuple(corners)
