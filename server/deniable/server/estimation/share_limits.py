"""Limits of shares: for the respondents, and at every look.

The respondents are a finite population: k of these n people hold an option. They are fixed, and
only the noise is random: the number of reports that support the option is
C ~ Bin(k, p) + Bin(n - k, q), which is less dispersed than for a random sample of people,
Bin(n, r). That holds for each option separately, even if a report's options depend on each other:
reports are independent, and each supports the option with rate p or q. The lower limit is the least
k with P[C >= c] > tail, and the upper limit mirrors it. These are two one-sided tests, each with an
error of at most (1 - confidence) / 2.

Up to MAX_SUMMED_REPORTS the tails are summed. Above that, a saddlepoint approximation gives the
tail [1], with a relative error of at most 3 per cent, and the limits are widened by that much. If
counts vary so little that a single person matters, the tails around the limit are summed again. At
the tilt s every bit has the rate p' = p e^s / (1 - p + p e^s), or q' likewise, so the k whose mean
is c has a closed form: (c - n q') / (p' - q'). The search is for the s with the right tail.

k cannot be below 0 or above n. A limit beyond an end is not clipped: it is the limit at that end,
shifted by the count's excess.

Anytime-valid limits hold at every look jointly, however often someone reads an open round. For a
tilt t, reports of expected logarithmic growth ψ(t) make

    M = exp(t · sum of the reports - sum of their ψ(t))

the capital in a fair game: its expectation stays 1, report by report. The same is true of any
mixture of tilts with weights fixed in advance, so the probability that it ever reaches 2 / error is
at most error / 2 (Ville). The lower limit is the least truth under which the mixture of positive
tilts has not reached that; the upper limit mirrors it. Both hold jointly, at all numbers of reports
simultaneously, with the requested confidence [2].

The order of the reports is unknown and not needed: M depends only on their sum or their counts, and
on their number. In their actual order the game was fair: the noise of each report is independent of
all earlier reports, and whether a report arrives does not depend on its noise. So who reports next
may depend on anything but the noise.

ψ follows from what is known about the reports:

    respondents       k log(1 - p + p e^t) + (n - k) log(1 - q + q e^t), exactly
    population        n log(1 - r + r e^t), an upper bound for any mixture of people (Jensen)

Each limit uses only the tilts near the best one for its n: omitting positive terms of the mixture
makes it smaller, which can only widen the limit.

[1] Daniels 1987, "Tail probability approximations", International Statistical Review 55(1): the
    second continuity correction of Lugannani and Rice's formula.
[2] Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Annals of Statistics 49(2).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.roots import deduplicate_rows, least, roots
from deniable.server.estimation.statements import Array, Cells, Interval
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign

MAX_SUMMED_REPORTS = 200
OUTWARD = 0.97  # allows for the relative error of an approximate tail
SMALLEST_TILT = 1e-3
ROUNDING = 1e-6
LOW_VARIANCE = 9.0  # variance of the count below which a single person matters
SUMMED_OFFSETS = np.arange(-30, 31)  # ten standard deviations
TILTS = 8.0 * 2.0 ** (-np.arange(40) / 2)  # all have the same weight
NEAR = np.arange(-4, 5)  # tilts used on either side of the best one
DEVIATIONS = 3.5  # distance of a limit, in standard deviations, for which the tilt is best
STEPS = 5  # number of Newton steps, after which limits are exact to nine digits


# The respondents


@deduplicate_rows
def share_limits(
    counts: Array, people: Array, design: SupportDesign, confidence: float
) -> Interval:
    """Return limits for the respondents' share, for each count."""
    keep, lie, tail = design.keep / ONE, design.lie / ONE, (1 - confidence) / 2
    rates = np.array([[keep], [1 - lie]]), np.array([[lie], [1 - keep]])
    both_counts, small = np.array([counts, people - counts]), people <= MAX_SUMMED_REPORTS
    holders = np.empty_like(both_counts)
    for rows, least_holders in ((small, _least_summed), (~small, _least_approximate)):
        if rows.any():
            holders[:, rows] = least_holders(both_counts[:, rows], people[rows], *rates, tail)
    low, others = holders
    return low / people, (people - others) / people


def share_noise(shares: Interval, people: Cells, design: SupportDesign) -> Array:
    """Return an estimate's larger variance at the two limits; it is linear in the share."""
    keep, lie = design.keep / ONE, design.lie / ONE
    holders = (np.clip(share, 0, 1) * people for share in shares)
    low, high = (_variance(number, people, keep, lie) for number in holders)
    return np.asarray(np.maximum(low, high) / (people * (keep - lie)) ** 2)


def _least_summed(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Return the least number of holders by exact sums, with a row for each rate."""
    rates = zip(counts, keep[:, 0].tolist(), lie[:, 0].tolist(), strict=True)
    holders = np.array([_summed(row, people, yes, no, tail) for row, yes, no in rates])
    first, last = _outermost(people, keep, lie, tail)
    below = np.minimum((counts - first) / (keep - lie), 0.0)
    above = np.maximum(people + (counts - last) / (keep - lie), people)
    return np.where(holders == 0, below, np.where(holders > people, above, holders))


def _least_approximate(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Return the least number of holders by the saddlepoint approximation."""
    tail *= OUTWARD
    first, last = _outermost(people, keep, lie, tail)
    above = people + (counts - last) / (keep - lie)
    result = np.where(counts > last, above, (counts - first) / (keep - lie))
    inside = (first < counts) & (counts <= last)
    keep, lie, people = (np.broadcast_to(n, counts.shape)[inside] for n in (keep, lie, people))
    if inside.any():
        result[inside] = _whole_holders(counts[inside], people, keep, lie, tail)
    return result


def _whole_holders(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    holders = _searched(counts, people, keep, lie, tail)
    result: Array = np.ceil(holders - ROUNDING)
    few = _variance(holders, people, keep, lie) < LOW_VARIANCE
    if few.any():
        args = [array[few] for array in (result, counts, people, keep, lie)]
        result[few] = _checked(tail / OUTWARD, *args)
    return result


def _checked(
    tail: float, near: Array, counts: Array, people: Array, keep: Array, lie: Array
) -> Array:
    """Return the least nearby whole number whose exact tail is large enough."""
    result = np.minimum(near + 1, people)
    keep, lie = keep[:, None], lie[:, None]
    for candidate in (near, near - 1):
        holders = np.clip(candidate, 0, people)[:, None]
        yes: Array = np.floor(holders * keep) + SUMMED_OFFSETS
        exactly = _at_least(yes, holders, keep) - _at_least(yes + 1, holders, keep)
        beyond = _at_least(counts[:, None] - yes, people[:, None] - holders, lie)
        tails = np.vecdot(exactly, beyond)
        result = np.where((tails > tail) & (candidate >= 0), holders[:, 0], result)
    return result


def _at_least(successes: Array, trials: Array, rate: Array) -> Array:
    from scipy.special import bdtrc

    inside = bdtrc(np.clip(successes - 1, 0, trials), trials.astype(np.int64), rate)
    return np.where(successes <= 0, 1.0, np.where(successes > trials, 0.0, inside))


def _searched(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    if_all_support = (math.log(tail) - people * np.log(lie)) / (np.log(keep) - np.log(lie))
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
    return np.where(counts == people, if_all_support, holders(roots(excess, lowest, highest, near)))


def _outermost(people: Array, keep: Array, lie: Array, tail: float) -> tuple[Array, Array]:
    """Return the quantiles of the count if no one, or everyone, holds the option."""
    distinct, index = np.unique(people, return_inverse=True)
    quantiles = _quantiles(distinct, np.concatenate([lie, keep]), tail)[:, index]
    return quantiles[: len(lie)], quantiles[len(lie) :]


def _quantiles(people: Array, rates: Array, tail: float) -> Array:
    """Return fractional quantiles of a sum of bits with one rate."""
    at_end = people * np.log(rates) >= math.log(tail)
    rates = np.where(at_end, 0.25, rates)  # any rate: the result is not used
    wanted, last = -NormalDist().inv_cdf(tail), _logit((people - 0.5) / people) - _logit(rates)

    def excess(tilt: Array) -> Array:
        return _deviate(tilt, people, people, rates, rates) - wanted

    first = np.minimum(SMALLEST_TILT, last / 2)
    tilts = roots(excess, first, last, together=(0,))
    return np.where(at_end, people, people * _tilted(rates, tilts))


def _deviate(tilt: Array, holders: Array, people: Array, keep: Array, lie: Array) -> Array:
    """Return the normal deviate of P[C >= the mean at this tilt]."""
    yes, no, others = _tilted(keep, tilt), _tilted(lie, tilt), people - holders
    grown = np.expm1(tilt)
    cumulant = holders * np.log1p(keep * grown) + others * np.log1p(lie * grown)
    spread = holders * yes * (1 - yes) + others * no * (1 - no)
    w = np.sqrt(2 * np.maximum(tilt * (holders * yes + others * no) - cumulant, 1e-18))
    u = -np.expm1(-tilt) * np.sqrt(spread)
    return np.asarray(w + np.log(u / w) / w)


def _variance(holders: Array, people: Array | Cells, keep: Any, lie: Any) -> Array:
    return np.asarray(holders * keep * (1 - keep) + (people - holders) * lie * (1 - lie))


def _tilted(rate: Array, tilt: Array) -> Array:
    return rate / (rate + (1 - rate) * np.exp(-tilt))


def _logit(rate: Any) -> Any:
    return np.log(rate) - np.log1p(-rate)


def _summed(counts: Array, people: Array, keep: float, lie: float, tail: float) -> Cells:
    """Return the least number of holders with P[C >= count] above the tail, or n + 1."""
    holders, beyond = _binomials(keep), _tails(lie)
    wanted = np.clip(
        counts[:, None] - np.arange(MAX_SUMMED_REPORTS + 1), 0, MAX_SUMMED_REPORTS + 1
    ).astype(np.int64)
    n = people.astype(np.int64)

    def is_likely(k: Cells) -> npt.NDArray[np.bool_]:
        others = np.maximum(n - k, 0)[:, None]
        tails = np.vecdot(holders[np.minimum(k, MAX_SUMMED_REPORTS)], beyond[others, wanted])
        return np.asarray(tails > tail)

    return least(is_likely, np.zeros_like(n), n + 1)


@lru_cache(maxsize=16)
def _binomials(rate: float) -> Array:
    """Return the distribution of the sum of k bits with this rate, in row k."""
    laws = np.zeros((MAX_SUMMED_REPORTS + 1, MAX_SUMMED_REPORTS + 1))
    laws[0, 0] = 1.0
    for k in range(MAX_SUMMED_REPORTS):
        laws[k + 1] = (1 - rate) * laws[k]
        laws[k + 1, 1:] += rate * laws[k, :-1]
    return laws


@lru_cache(maxsize=16)
def _tails(rate: float) -> Array:
    """Return the probabilities that the sum of k bits is at least 0, 1, ..., in row k."""
    tails = np.zeros((MAX_SUMMED_REPORTS + 1, MAX_SUMMED_REPORTS + 2))
    tails[:, :-1] = np.cumsum(_binomials(rate)[:, ::-1], axis=1)[:, ::-1]
    return tails


# Every look


@deduplicate_rows
def anytime_rates(counts: Array, reports: Array, confidence: float, rounds: int = 1) -> Interval:
    """Return limits for the rate of support in the population, for counts of an average round."""
    counts, reports = counts / rounds, reports / rounds
    low = anytime_lowest_rate(counts, reports, confidence)
    return low, 1 - anytime_lowest_rate(reports - counts, reports, confidence)


@deduplicate_rows
def anytime_holders(
    counts: Array, people: Array, design: SupportDesign, confidence: float
) -> Interval:
    """Return limits for the respondents' share, for each count."""
    keep, lie, needed = design.keep / ONE, design.lie / ONE, needed_capital(confidence)
    low = _holders(counts, people, keep, lie, needed) / people
    return low, 1 - _holders(people - counts, people, 1 - lie, 1 - keep, needed) / people


def needed_capital(confidence: float) -> float:
    """Return the logarithm of the capital at the limit, if each tilt starts with a capital of 1."""
    return math.log(2 / (1 - confidence)) + math.log(len(TILTS))


def anytime_lowest_rate(counts: Array, reports: Array, confidence: float) -> Array:
    """Return the lowest rate at which the bets have not reached the needed capital.

    A single tilt reaches it at log(1 + r (e^t - 1)) = (t count - needed) / n; all tilts together
    reach it at a higher rate.
    """
    needed, of = needed_capital(confidence), reports[..., None]
    tilts = _around(counts, reports)
    grown, staked = np.expm1(tilts), tilts * counts[..., None]
    rate: Array = (np.expm1((staked - needed) / of) / grown).max(-1)
    for _ in range(STEPS):
        inside = 1 + rate[..., None] * grown
        rate = rate + _newton_step(staked - of * np.log(inside), of * grown / inside, needed)
    return rate


def _holders(counts: Array, reports: Array, keep: float, lie: float, needed: float) -> Array:
    """Return the least number of holders; the logarithm of each capital is linear in it."""
    tilts = _around(counts, reports)
    yes, no = (np.log1p(rate * np.expm1(tilts)) for rate in (keep, lie))
    free, fall = tilts * counts[:, None] - reports[:, None] * no, yes - no
    holders: Array = ((free - needed) / fall).max(1)
    for _ in range(STEPS):
        holders += _newton_step(free - holders[:, None] * fall, fall, needed)
    return holders


def _newton_step(capitals: Array, falls: Array, needed: float) -> Array:
    """Return the next step, from the logarithms of the capitals and their slopes.

    The logarithm of the total capital is convex and decreasing, so steps from below stay below: too
    few steps only widen the limit.
    """
    highest = capitals.max(-1)
    parts = np.exp(capitals - highest[..., None])
    total = parts.sum(-1)
    step: Array = (highest + np.log(total) - needed) * total / (parts * falls).sum(-1)
    return np.maximum(step, 0)


def _around(counts: Array, reports: Array) -> Array:
    """Return the tilts near the best one for limits DEVIATIONS standard deviations away."""
    rate = (counts + 1) / (reports + 2)
    best = DEVIATIONS / np.sqrt(reports * rate * (1 - rate))
    places = np.rint(-2 * np.log2(best / TILTS[0])).astype(np.int64)
    first = np.clip(places + NEAR[0], 0, len(TILTS) - len(NEAR))
    return np.asarray(TILTS[first[..., None] + np.arange(len(NEAR))])
