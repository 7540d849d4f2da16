"""Limits of shares: of the people who answered, and limits that hold at every look.

The people who answered are a finite population: k of these n people hold an option. They are
fixed, and only the noise is random: the number of reports that support the option is
C ~ Bin(k, p) + Bin(n - k, q), which is less dispersed than for a random sample of people,
Bin(n, r). That holds for each option separately, however a report's options depend on each other:
reports are independent, and each supports the option with rate p or q. The lower limit is the least
k with P[C >= c] > tail, and the upper limit mirrors it. These are two one-sided tests, each with an
error of at most (1 - confidence) / 2.

Up to SMALL reports the tails are summed. Above that, a saddlepoint approximation gives the tail
[1], with a relative error of at most 3 per cent, and the limits are moved out by that much. If
counts vary so little that a single person matters, the tails around the limit are summed again. At
the tilt s every bit has the rate p' = p e^s / (1 - p + p e^s), or q' likewise, so the k whose mean
is c has a closed form: (c - n q') / (p' - q'). The search is for the s with the right tail.

k cannot be below 0 or above n. To avoid clipping, a limit beyond an end keeps its distance: it is
the limit at that end, shifted by the excess of the count.

Anytime-valid limits hold at every look together, however often an open round is read. For a tilt t,
reports of expected logarithmic growth ψ(t) make

    M = exp(t · sum of the reports - their ψ(t)s)

a the capital in a fair game: its expectation stays 1, report by report. The same is true of any
mixture of tilts with weights fixed in advance, so the probability that it ever reaches 2 / error is
at most error / 2 (Ville). The lower limit is the least truth under which the mixture of positive
tilts has not reached that; the upper limit mirrors it. Both hold jointly, at all numbers of reports
simultaneously, with the requested confidence [2].

The order in which reports came is unknown and not needed: M depends only on their sum or their
counts, and on their number. In their actual order the game was fair: the noise of each report is
independent of all earlier reports, and whether a report arrives does not depend on its noise. So
who reports next may depend on anything but the noise.

ψ follows from what is known about the reports:

    these people      k log(1 - p + p e^t) + (n - k) log(1 - q + q e^t), exactly
    the population    n log(1 - r + r e^t), an upper bound for any mixture of people (Jensen)

Each limit uses the tilts around the relevant one at its n: omitting positive terms of the mixture
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

SMALL = 200  # reports
OUTWARD = 0.97  # relative error of the tail's probability, if it is not summed exactly
SMALLEST_TILT = 1e-3
ROUNDING = 1e-6
FEW = 9.0  # variance of the count below which a single person matters
AROUND = np.arange(-30, 31)  # ten standard deviations
TILTS = 8.0 * 2.0 ** (-np.arange(40) / 2)  # number of tilts with equal weight
WEIGHT = -math.log(len(TILTS))
NEAR = np.arange(-4, 5)  # number of tilts used on either side of the relevant one
DEVIATIONS = 3.5  # at which it does
STEPS = 5  # steps of Newton's method, after which limits are exact to nine digits


# The people who answered


@deduplicate_rows
def share_limits(
    counts: Array, people: Array, design: SupportDesign, confidence: float
) -> Interval:
    """Return limits for the share of these people, for each count."""
    keep, lie, tail = design.keep / ONE, design.lie / ONE, (1 - confidence) / 2
    held, missed = np.array([[keep], [1 - lie]]), np.array([[lie], [1 - keep]])
    from_below, small = np.array([counts, people - counts]), people <= SMALL
    holders = np.empty_like(from_below)
    for chosen, least_of in ((small, _least_of_few), (~small, _least_of_many)):
        if chosen.any():
            part = least_of(from_below[:, chosen], people[chosen], held, missed, tail)
            holders[:, chosen] = part
    low, others = holders
    return low / people, (people - others) / people


def share_noise(shares: Interval, people: Cells, design: SupportDesign) -> Array:
    """Return the larger of an estimate's variances at the limits, which is linear in the share."""
    keep, lie = design.keep / ONE, design.lie / ONE
    holders = (np.clip(share, 0, 1) * people for share in shares)
    low, high = (_variance(held, people, keep, lie) for held in holders)
    return np.asarray(np.maximum(low, high) / (people * (keep - lie)) ** 2)


def _least_of_few(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Return the least number of holders by exact sums, with a row for each rate."""
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
    keep, lie, people = (np.broadcast_to(n, counts.shape)[inside] for n in (keep, lie, people))
    if inside.any():
        result[inside] = _rounded(counts[inside], people, keep, lie, tail)
    return result


def _rounded(counts: Array, people: Array, keep: Array, lie: Array, tail: float) -> Array:
    """Round limits to whole people."""
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
    """Return the least nearby whole number whose exact tail is large enough."""
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
    """Return the quantiles of the count if no one, or everyone, holds the option."""
    distinct, where = np.unique(people, return_inverse=True)
    found = _quantiles(distinct, np.concatenate([lie, keep]), tail)[:, where]
    return found[: len(lie)], found[len(lie) :]


def _quantiles(people: Array, rates: Array, tail: float) -> Array:
    """Return fractional quantiles of a sum of bits with one rate."""
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
    wanted = np.clip(counts[:, None] - np.arange(SMALL + 1), 0, SMALL + 1).astype(np.int64)
    all_of_them = people.astype(np.int64)

    def is_likely(k: Cells) -> npt.NDArray[np.bool_]:
        others = np.maximum(all_of_them - k, 0)[:, None]
        tails = np.vecdot(holders[np.minimum(k, SMALL)], beyond[others, wanted])
        return np.asarray(tails > tail)

    return least(is_likely, np.zeros_like(all_of_them), all_of_them + 1)


@lru_cache(maxsize=16)
def _binomials(rate: float) -> Array:
    """Return the distribution of the sum of k bits with this rate, in row k."""
    laws = np.zeros((SMALL + 1, SMALL + 1))
    laws[0, 0] = 1.0
    for k in range(SMALL):
        laws[k + 1] = (1 - rate) * laws[k]
        laws[k + 1, 1:] += rate * laws[k, :-1]
    return laws


@lru_cache(maxsize=16)
def _tails(rate: float) -> Array:
    """Return the probability that the sum of k bits is at least 0 .. SMALL + 1, in row k."""
    tails = np.zeros((SMALL + 1, SMALL + 2))
    tails[:, :-1] = np.cumsum(_binomials(rate)[:, ::-1], axis=1)[:, ::-1]
    return tails


# Every look


@deduplicate_rows
def anytime_rates(counts: Array, reports: Array, confidence: float) -> Interval:
    """Return limits for the population's rate of support, for each count."""
    low = anytime_lowest_rate(counts, reports, confidence)
    return low, 1 - anytime_lowest_rate(reports - counts, reports, confidence)


@deduplicate_rows
def anytime_holders(
    counts: Array, people: Array, design: SupportDesign, confidence: float
) -> Interval:
    """Return limits for the share of these people, for each count."""
    keep, lie, needed = design.keep / ONE, design.lie / ONE, needed_capital(confidence)
    low = _holders(counts, people, keep, lie, needed) / people
    return low, 1 - _holders(people - counts, people, 1 - lie, 1 - keep, needed) / people


def needed_capital(confidence: float) -> float:
    """Return the logarithm of the capital that must be reached, with 1 staked on each tilt."""
    return math.log(2 / (1 - confidence)) - WEIGHT


def anytime_lowest_rate(counts: Array, reports: Array, confidence: float) -> Array:
    """Return the least rate under which the capital has not been reached.

    A single tilt reaches it at log(1 + r (e^t - 1)) = (t count - needed) / n; all of them together
    reach it at a higher rate.
    """
    needed, of = needed_capital(confidence), reports[..., None]
    tilts = _around(counts, reports)
    grown, staked = np.expm1(tilts), tilts * counts[..., None]
    rate: Array = (np.expm1((staked - needed) / of) / grown).max(-1)
    for _ in range(STEPS):
        inside = 1 + rate[..., None] * grown
        rate = rate + _farther(staked - of * np.log(inside), of * grown / inside, needed)
    return rate


def _holders(counts: Array, reports: Array, keep: float, lie: float, needed: float) -> Array:
    """Return the least number of holders, in which the logarithm of each capital is linear."""
    tilts = _around(counts, reports)
    yes, no = (np.log1p(rate * np.expm1(tilts)) for rate in (keep, lie))
    free, fall = tilts * counts[:, None] - reports[:, None] * no, yes - no
    holders: Array = ((free - needed) / fall).max(1)
    for _ in range(STEPS):
        holders += _farther(free - holders[:, None] * fall, fall, needed)
    return holders


def _farther(capitals: Array, falls: Array, needed: float) -> Array:
    """Return one step of Newton's method.

    The logarithm of the total capital is convex and decreasing, so steps from below stay below: too
    few steps only widen the limit.
    """
    highest = capitals.max(-1)
    parts = np.exp(capitals - highest[..., None])
    total = parts.sum(-1)
    farther: Array = (highest + np.log(total) - needed) * total / (parts * falls).sum(-1)
    return np.maximum(farther, 0)


def _around(counts: Array, reports: Array) -> Array:
    """Return the tilts around the best one for counts DEVIATIONS standard deviations away."""
    rate = (counts + 1) / (reports + 2)
    best = DEVIATIONS / np.sqrt(reports * rate * (1 - rate))
    places = np.rint(-2 * np.log2(best / TILTS[0])).astype(np.int64)
    first = np.clip(places + NEAR[0], 0, len(TILTS) - len(NEAR))
    return np.asarray(TILTS[first[..., None] + np.arange(len(NEAR))])
