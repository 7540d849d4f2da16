"""Limits for the people who answered, a finite population: only the noise is random.

Shares: of n fixed people k hold an option. They are not drawn, only the noise is: the reports that
support the option are  C ~ Bin(k, p) + Bin(n - k, q),  which is less dispersed than the reports of
people drawn at random, Bin(n, r). That holds for each option separately, however a report's options
depend on each other: reports are independent, and each supports it with rate p or q. The lower
limit is the least k with P[C >= c] > tail, the upper one mirrors it: two one-sided tests, each of
which errs with at most (1 - confidence) / 2.

Up to SMALL reports the tails are summed. Above it a saddlepoint gives the tail [1], to within 3 per
cent of itself, and the limits are moved out by that much; where counts vary so little that a single
person matters, the tails around the limit are summed again. At the tilt s every bit is rated
p' = p e^s / (1 - p + p e^s), and q' likewise, so the k whose mean is c there has a closed form:
(c - n q') / (p' - q'). The s is searched for whose tail is the right one.

There is no k below 0 or above n. So that nothing is clipped, a limit that would be there keeps its
distance: that of the law at the end, moved as far as the count lies off.

[1] Daniels 1987, "Tail probability approximations", International Statistical Review 55(1): the
    second continuity correction of Lugannani and Rice's formula.

Means: a report of a number at position x has the mean x and a variance V(x) given by the table. The
positions of these n people are unknown, but no positions with the mean m have more noise than
W(m), W being the least concave function above V (Jensen). Nor have they more than the reports vary,
S, since the people themselves differ too. So the limits are those m for which

    |mean of the reports - m|  <=  z √(min(W(m), S) / n) + (highest value - lowest value) / n

where the last part is what is not normal: that reports come in steps, and their skewness. The
coverage is measured, not proved. With two symbols nothing is known of the noise that the reports do
not show: there the limits are those for people drawn at random, which hold for these as well.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import intervals
from deniable.server.estimation.roots import brent, deduplicate_rows, least, roots
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

SMALL = 200  # reports
OUTWARD = 0.97  # of the tail's probability, where it is not summed exactly
SMALLEST_TILT = 1e-3
ROUNDING = 1e-6
FEW = 9.0  # a variance of the count below which a single person matters
AROUND = np.arange(-30, 31)  # ten standard deviations


@deduplicate_rows
def share_limits(
    counts: Array, people: Array, design: SupportDesign, confidence: float
) -> Interval:
    """Limits for the share of these people, for each count."""
    keep, lie, tail = design.keep / ONE, design.lie / ONE, (1 - confidence) / 2
    held, missed = np.array([[keep], [1 - lie]]), np.array([[lie], [1 - keep]])
    from_below, small = np.array([counts, people - counts]), people <= SMALL
    found = np.empty_like(from_below)
    for some, of in ((small, _least_of_few), (~small, _least_of_many)):
        if some.any():
            found[:, some] = of(from_below[:, some], people[some], held, missed, tail)
    low, others = found
    return low / people, (people - others) / people


def share_noise(shares: Interval, people: Cells, design: SupportDesign) -> Array:
    """Return the variance of an estimate at the worst of the shares within these limits.

    It is linear in the share, so one of the two is the worst.
    """
    return np.maximum(*(_variance_of(np.clip(share, 0, 1), people, design) for share in shares))


def _variance_of(shares: Array, people: Cells, design: SupportDesign) -> Array:
    keep, lie = design.keep / ONE, design.lie / ONE
    counted = _variance(shares * people, people, keep, lie)
    return np.asarray(counted / (people * (keep - lie)) ** 2)


def _least_of_few(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Return the least number of holders; a row for each rate."""
    rates = zip(counts, keep[:, 0].tolist(), lie[:, 0].tolist(), strict=True)
    found = np.array([_summed(row, people, yes, no, tail) for row, yes, no in rates])
    first, last = _outermost(people, keep, lie, tail)
    below = np.minimum((counts - first) / (keep - lie), 0.0)
    above = np.maximum(people + (counts - last) / (keep - lie), people)
    return np.where(found == 0, below, np.where(found > people, above, found))


def _least_of_many(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Return the least number of holders by the saddlepoint."""
    tail *= OUTWARD
    first, last = _outermost(people, keep, lie, tail)
    above = people + (counts - last) / (keep - lie)
    result = np.where(counts > last, above, (counts - first) / (keep - lie))
    inside = (first < counts) & (counts <= last)
    keep, lie, people = (
        np.broadcast_to(each, counts.shape)[inside] for each in (keep, lie, people)
    )
    if inside.any():
        result[inside] = _rounded(counts[inside], people, keep, lie, tail)
    return result


def _rounded(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Round to whole people."""
    found = _searched(counts, people, keep, lie, tail)
    result: Array = np.ceil(found - ROUNDING)
    few = _variance(found, people, keep, lie) < FEW
    if few.any():
        result[few] = _checked(
            result[few], counts[few], people[few], keep[few], lie[few], tail / OUTWARD
        )
    return result


def _checked(
    near: Array, counts: Array, people: Array, keep: Array, lie: Array, tail: float
) -> Array:
    """Return the least whole number near these whose tail, summed exactly, is large enough."""
    found = np.minimum(near + 1, people)
    keep, lie = keep[:, None], lie[:, None]
    for candidate in (near, near - 1):
        holders = np.clip(candidate, 0, people)[:, None]
        yes: Array = np.floor(holders * keep) + AROUND
        exactly = _at_least(yes, holders, keep) - _at_least(yes + 1, holders, keep)
        beyond = _at_least(counts[:, None] - yes, people[:, None] - holders, lie)
        tails = np.vecdot(exactly, beyond)
        found = np.where((tails > tail) & (candidate >= 0), holders[:, 0], found)
    return found


def _at_least(successes: Array, trials: Array, rate: Array) -> Array:
    from scipy.special import bdtrc

    inside = np.clip(successes - 1, 0, trials)
    found = bdtrc(inside, trials.astype(np.int64), rate)
    return np.where(successes <= 0, 1.0, np.where(successes > trials, 0.0, found))


def _searched(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    all_of_them = (math.log(tail) - people * np.log(lie)) / (np.log(keep) - np.log(lie))
    rates = np.minimum(counts, people - 0.5) / people
    wanted = -NormalDist().inv_cdf(tail)

    def holders(tilt: Array) -> Array:
        yes, no = _tilted(keep, tilt), _tilted(lie, tilt)
        return np.clip((counts - people * no) / (yes - no), 0, people)

    def excess(tilt: Array) -> Array:
        return _deviate(tilt, holders(tilt), people, keep, lie) - wanted

    highest = _logit(rates) - _logit(lie)
    lowest = np.maximum(_logit(rates) - _logit(keep), np.minimum(highest, 1) * SMALLEST_TILT)
    near = wanted / np.sqrt(people * rates * (1 - rates))
    found = holders(roots(excess, lowest, highest, near))
    return np.where(counts == people, all_of_them, found)


def _outermost(people: Array, keep: Array, lie: Array, tail: float) -> tuple[Array, Array]:
    """Return the counts that the tail's probability reaches where no one or everyone holds it."""
    distinct, where = np.unique(people, return_inverse=True)
    found = _quantiles(distinct, np.concatenate([lie, keep]), tail)[:, where]
    first, last = np.split(found, 2)
    return first, last


def _quantiles(people: Array, rates: Array, tail: float) -> Array:
    """Return the counts that bits of one rate reach with the tail's probability.

    They are fractions, and at most the number of bits.
    """
    all_of_them = people * np.log(rates) >= math.log(tail)
    rates = np.where(all_of_them, 0.25, rates)  # anything
    wanted, last = -NormalDist().inv_cdf(tail), _logit((people - 0.5) / people) - _logit(rates)

    def excess(tilt: Array) -> Array:
        return _deviate(tilt, people, people, rates, rates) - wanted

    first = np.minimum(SMALLEST_TILT, last / 2)
    found = people * _tilted(rates, roots(excess, first, last, together=(0,)))
    return np.where(all_of_them, people, found)


def _deviate(tilt: Array, holders: Array, people: Array, keep: Array, lie: Array) -> Array:
    """Return the normal deviate of P[C >= the mean at this tilt]."""
    yes, no, others = _tilted(keep, tilt), _tilted(lie, tilt), people - holders
    grown = np.expm1(tilt)
    cumulant = holders * np.log1p(keep * grown) + others * np.log1p(lie * grown)
    spread = holders * yes * (1 - yes) + others * no * (1 - no)
    w = np.sqrt(2 * np.maximum(tilt * (holders * yes + others * no) - cumulant, 1e-18))
    u = -np.expm1(-tilt) * np.sqrt(spread)
    deviate: Array = w + np.log(u / w) / w
    return deviate


def _variance(holders: Array, people: Array | Cells, keep: Any, lie: Any) -> Array:
    found: Array = holders * keep * (1 - keep) + (people - holders) * lie * (1 - lie)
    return found


def _tilted(rate: Array, tilt: Array) -> Array:
    return rate / (rate + (1 - rate) * np.exp(-tilt))


def _logit(rate: Any) -> Any:
    return np.log(rate) - np.log1p(-rate)


def _summed(counts: Array, people: Array, keep: float, lie: float, tail: float) -> Cells:
    """Return for each count the least number of holders whose P[C >= count] is above the tail.

    It is n + 1 where no number of 0 to n is.
    """
    holders, beyond = _binomials(keep), _tails(lie)
    wanted = np.clip(counts[:, None] - np.arange(SMALL + 1), 0, SMALL + 1).astype(np.int64)
    all_of_them = people.astype(np.int64)

    def is_likely(k: Cells) -> npt.NDArray[np.bool_]:
        others = np.maximum(all_of_them - k, 0)[:, None]
        tails = np.vecdot(holders[np.minimum(k, SMALL)], beyond[others, wanted])
        return np.asarray(tails > tail)

    return least(is_likely, np.zeros_like(all_of_them), all_of_them + 1)


@lru_cache(maxsize=16)
def _binomials(rate: float) -> Array:
    """Return the distributions of k bits of this rate, in row k."""
    laws = np.zeros((SMALL + 1, SMALL + 1))
    laws[0, 0] = 1.0
    for k in range(SMALL):
        laws[k + 1] = (1 - rate) * laws[k]
        laws[k + 1, 1:] += rate * laws[k, :-1]
    return laws


@lru_cache(maxsize=16)
def _tails(rate: float) -> Array:
    """Return the probability that k bits are at least so many: 0 .. SMALL + 1."""
    tails = np.zeros((SMALL + 1, SMALL + 2))
    tails[:, :-1] = np.cumsum(_binomials(rate)[:, ::-1], axis=1)[:, ::-1]
    return tails


PLACES = 256  # about so many are looked at, and at least two for each step


def mean_limits(table: NumberTable, counts: Array, confidence: float) -> Interval:
    """Limits for the mean of these people, as positions in the range from 0 to 1.

    There must be at least one report.
    """
    values = positions(table)
    if len(values) == 2:
        return intervals.bounded_mean(values, counts, confidence)
    reports = counts.sum(-1)
    mean = np.vecdot(counts, values) / reports
    places, worst = most_noise(table)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = np.sqrt(np.minimum(worst, _seen(table, counts)[..., None]) / reports[..., None])
    reach = z * spread + mean_step(table, reports)[..., None]
    low = _least(places, reach, mean)
    high = 1 - _least(1 - places[::-1], reach[..., ::-1], 1 - mean)
    return low, high


def mean_step(table: NumberTable, reports: Array) -> Array:
    """Return how far one report can move the mean."""
    values = positions(table)
    return np.asarray((values[-1] - values[0]) / reports)


def mean_noise(table: NumberTable, counts: Array) -> Array:
    """Return the largest variance of the mean, in units of the range."""
    reports = counts.sum(-1)
    mean = np.vecdot(counts, positions(table)) / reports
    worst = np.interp(mean, *most_noise(table))
    return np.asarray(np.minimum(worst, _seen(table, counts)) / reports)


def _seen(table: NumberTable, counts: Array) -> Array:
    """Return the variance of the reports."""
    values, reports = positions(table), counts.sum(-1)
    mean = np.vecdot(counts, values) / reports
    apart = values - mean[..., None]
    seen = np.vecdot(apart**2, counts) / np.maximum(reports - 1, 1)
    return np.asarray(np.maximum(seen, table.least_variance(1)))


def positions(table: NumberTable) -> Array:
    """Return the symbols' values in units of the range."""
    return np.array([float(value) for value in table.values]) / table.steps


def _least(places: Array, reach: Array, mean: Array) -> Array:
    """Return the least mean that has the reports' mean within reach.

    The reach is concave, so there is one.
    """

    def short(m: Array) -> Array:
        return m + _between(places, reach, m) - mean

    return brent(short, mean - reach.max(-1) - 1e-9, mean, 1e-12)


def _between(places: Array, heights: Array, at: Array) -> Array:
    """Interpolate like numpy, each element with its own heights."""
    right = np.clip(np.searchsorted(places, at, side="right"), 1, len(places) - 1)
    low, high = (
        np.take_along_axis(heights, end[..., None], -1)[..., 0] for end in (right - 1, right)
    )
    slope = (high - low) / (places[right] - places[right - 1])
    return np.asarray(slope * (np.clip(at, places[0], places[-1]) - places[right - 1]) + low)


@lru_cache(maxsize=64)
def most_noise(table: NumberTable) -> tuple[Array, Array]:
    """Return places and W at each.

    W is the upper hull of V, raised by a quarter of the squared distance between two places: V is
    above their chord by that much at most.
    """
    places = places_of(table)
    rise = places[1] ** 2 / 4
    return hull(places, np.array([table.variance(1, place) + rise for place in places]))


def places_of(table: NumberTable) -> Array:
    """Return the grid's points and some places between them."""
    return np.linspace(0, 1, table.steps * max(2, PLACES // table.steps) + 1)


def hull(places: Array, heights: Array) -> tuple[Array, Array]:
    """Return the corners of the least concave function above these heights (monotone chain)."""
    kept: list[int] = []
    for here in range(len(places)):
        while len(kept) > 1 and _is_below(places, heights, kept[-2], kept[-1], here):
            kept.pop()
        kept.append(here)
    return places[kept], heights[kept]


def _is_below(x: Array, y: Array, before: int, middle: int, after: int) -> bool:
    across = (x[middle] - x[before]) * (y[after] - y[before])
    return bool((y[middle] - y[before]) * (x[after] - x[before]) <= across)
