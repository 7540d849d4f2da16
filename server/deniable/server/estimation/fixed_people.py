"""Limits for these very people: how many of those who reported hold an option.

Of n fixed people k hold it. They are not drawn, only the noise is: the reports that support the
option are  C ~ Bin(k, p) + Bin(n - k, q),  which is less dispersed than the reports of people
drawn at random, Bin(n, r). That holds for each option by itself, however a report's options depend
on each other: reports are independent, and each supports it with rate p or q. The lower limit is
the least k with P[C >= c] > tail, the upper one mirrors it: two one-sided tests, each of which
errs with at most (1 - confidence) / 2.

Up to SMALL reports the whole table of tails is summed. Above it a saddlepoint gives the tail [1],
to within 3 per cent of itself, and the limits are moved out by that much; where counts vary so
little that a single person matters, the tails around the limit are summed again. At the tilt s
every bit is rated p' = p e^s / (1 - p + p e^s), and q' likewise, so the k whose mean is c there is
known at once: (c - n q') / (p' - q'). The s is searched for whose tail is the right one.

There is no k below 0 or above n. So that nothing is clipped, a limit that would be there keeps its
distance: that of the law at the end, moved as far as the count lies off.

[1] Daniels 1987, "Tail probability approximations", International Statistical Review 55(1): the
    second continuity correction of Lugannani and Rice's formula.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.roots import roots
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]

SMALL = 200  # reports
OUTWARD = 0.97  # of the tail's probability, where it is not summed exactly
SMALLEST_TILT = 1e-3
ROUNDING = 1e-6
FEW = 9.0  # a variance of the count below which a single person matters
AROUND = np.arange(-30, 31)  # ten standard deviations


def limits(
    counts: npt.NDArray[np.int64], people: int, design: SupportDesign, confidence: float
) -> tuple[Array, Array]:
    """The lowest and the highest share of these people that each count is compatible with."""
    if not people:
        nothing = np.full(len(counts), np.inf)
        return -nothing, nothing
    keep, lie, tail = design.keep / ONE, design.lie / ONE, (1 - confidence) / 2
    distinct, where = np.unique(counts, return_inverse=True)
    from_below = np.array([distinct, people - distinct], dtype=np.float64)
    held, missed = np.array([[keep], [1 - lie]]), np.array([[lie], [1 - keep]])
    low, others = _least(from_below, people, held, missed, tail)
    return low[where] / people, (people - others)[where] / people


def noise(shares: tuple[Array, Array], people: int, design: SupportDesign) -> Array:
    """The variance of an estimate at the worst of the shares between these: it is linear in them,
    hence that of one of the two."""
    return np.maximum(*(_variance_of(np.clip(share, 0, 1), people, design) for share in shares))


def _variance_of(shares: Array, people: int, design: SupportDesign) -> Array:
    keep, lie = design.keep / ONE, design.lie / ONE
    counted = _variance(shares * people, people, keep, lie)
    return counted / (people * (keep - lie)) ** 2


def _least(counts: Array, people: int, keep: Array, lie: Array, tail: float) -> Array:
    """The least number of holders, by the saddlepoint or by the sum; a row for each rate."""
    small = people <= SMALL
    tail *= 1.0 if small else OUTWARD
    first, last = np.split(_quantiles(people, np.concatenate([lie, keep]), tail), 2)
    result = (counts - first) / (keep - lie)
    above = people + (counts - last) / (keep - lie)
    if small:
        tables = [
            _summed(people, *rates, tail) for rates in zip(keep[:, 0], lie[:, 0], strict=True)
        ]
        least = np.array(
            [table[row.astype(np.int64)] for table, row in zip(tables, counts, strict=True)]
        )
        inside, beyond = (least > 0) & (least <= people), least > people
        result = np.where(inside, least, np.where(beyond, np.maximum(above, people), result))
        return np.where(least == 0, np.minimum(result, 0.0), result)
    result = np.where(counts > last, above, result)
    inside = (first < counts) & (counts <= last)
    keep, lie = (np.broadcast_to(rates, counts.shape)[inside] for rates in (keep, lie))
    if inside.any():
        result[inside] = _rounded(counts[inside], people, keep, lie, tail)
    return result


def _rounded(counts: Array, people: int, keep: Array, lie: Array, tail: float) -> Array:
    """People are whole."""
    found = _searched(counts, people, keep, lie, tail)
    result: Array = np.ceil(found - ROUNDING)
    few = _variance(found, people, keep, lie) < FEW
    if few.any():
        result[few] = _checked(
            result[few], counts[few], people, keep[few], lie[few], tail / OUTWARD
        )
    return result


def _checked(
    near: Array, counts: Array, people: int, keep: Array, lie: Array, tail: float
) -> Array:
    """The least whole number next to these whose tail, summed exactly, is large enough."""
    from scipy.stats import binom

    least = np.minimum(near + 1, people)
    keep, lie = keep[:, None], lie[:, None]
    for candidate in (near, near - 1):
        holders = np.clip(candidate, 0, people)[:, None]
        yes = np.floor(holders * keep) + AROUND
        beyond = binom.sf(counts[:, None] - 1 - yes, people - holders, lie)
        tails = np.sum(binom.pmf(yes, holders, keep) * beyond, axis=1)
        least = np.where((tails > tail) & (candidate >= 0), holders[:, 0], least)
    return least


def _searched(counts: Array, people: int, keep: Array, lie: Array, tail: float) -> Array:
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


def _quantiles(people: int, rates: Array, tail: float) -> Array:
    """The counts that so many bits of one rate reach with the tail's probability: anything but
    whole, and no more than there are bits."""
    all_of_them = people * np.log(rates) >= math.log(tail)
    rates = np.where(all_of_them, 0.25, rates)  # anything
    wanted, last = -NormalDist().inv_cdf(tail), _logit((people - 0.5) / people) - _logit(rates)

    def excess(tilt: Array) -> Array:
        return _deviate(tilt, np.full_like(tilt, people), people, rates, rates) - wanted

    found = people * _tilted(rates, roots(excess, np.minimum(SMALLEST_TILT, last / 2), last))
    return np.where(all_of_them, people, found)


def _deviate(tilt: Array, holders: Array, people: int, keep: Array, lie: Array) -> Array:
    """The normal deviate of P[C >= the mean at this tilt]."""
    yes, no, others = _tilted(keep, tilt), _tilted(lie, tilt), people - holders
    grown = np.expm1(tilt)
    cumulant = holders * np.log1p(keep * grown) + others * np.log1p(lie * grown)
    spread = holders * yes * (1 - yes) + others * no * (1 - no)
    w = np.sqrt(2 * np.maximum(tilt * (holders * yes + others * no) - cumulant, 1e-18))
    u = -np.expm1(-tilt) * np.sqrt(spread)
    deviate: Array = w + np.log(u / w) / w
    return deviate


def _variance(holders: Array, people: int, keep: Any, lie: Any) -> Array:
    found: Array = holders * keep * (1 - keep) + (people - holders) * lie * (1 - lie)
    return found


def _tilted(rate: Array, tilt: Array) -> Array:
    return rate / (rate + (1 - rate) * np.exp(-tilt))


def _logit(rate: Any) -> Any:
    return np.log(rate) - np.log1p(-rate)


@lru_cache(maxsize=64)
def _summed(people: int, keep: float, lie: float, tail: float) -> npt.NDArray[np.int64]:
    """For each count the least k of 0 .. n whose P[C >= count] is above the tail; else n + 1."""
    holders, others = _binomials(people, keep), _binomials(people, lie)
    least = np.full(people + 1, people + 1)
    for k in range(people, -1, -1):
        law = np.convolve(holders[k, : k + 1], others[people - k, : people - k + 1])
        least[np.cumsum(law[::-1])[::-1] > tail] = k
    return least


def _binomials(people: int, rate: float) -> Array:
    """Row k is the distribution of k bits of this rate."""
    laws = np.zeros((people + 1, people + 1))
    laws[0, 0] = 1.0
    for k in range(people):
        laws[k + 1] = (1 - rate) * laws[k]
        laws[k + 1, 1:] += rate * laws[k, :-1]
    return laws
