"""Smoothed trend: the true value of a round, from the reports of this round and some before it.

Model: the true value moves by at most M from one round to the next. The survey's `most_change`
states M; it is never taken from data. The estimate is that of a period: the reports of the last h
rounds, pooled. Its limits refer to the average of the rounds' true values, weighted by their
reports. The newest round's value f differs from it by at most

    b = M × mean age of the reports, in rounds

So the limits are those of the period, moved outward by b. If f is b above the average, the upper
limit misses with probability a, and the lower limit, which then has 2 b to spare, with about
Φ(-z - 2 b / se), where a = Φ(-z) and se is the standard error. In between, both together miss less
often (Φ is convex in the tail), so the confidence of the period's limits is 1 - 2 a with

    Φ(-z) + Φ(-z - 2 b / se) = 1 - confidence

If the estimate is normal, the half width is cv(b / se) se, where cv(t) is the quantile of |N(t, 1)|
[1]. With se at the worst share, a errs outward. Where counts vary so little that they are not
normal, and where limits hold at every look, a is half of 1 - confidence, which holds for any law.

The length h is the one of LENGTHS with the least width at the planned noise. It depends only on the
numbers of reports, on the mechanism and on M. At every look, the limits hold jointly for all
LENGTHS, because the choice may change as reports arrive. Equal weights cost at most 5 % of the
width of the best weights, which decrease linearly with age, and allow the exact limits of a period.

[1] Armstrong, Kolesár 2020, "Simple and honest confidence intervals in nonparametric regression",
    Quantitative Economics 11(1).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from deniable.server.estimation.roots import brent
from deniable.server.estimation.statements import (
    CONFIDENCE,
    LEAST_NOISE,
    Array,
    Cells,
    Estimator,
    Reading,
    joint_confidence,
)
from deniable.shared.privacy.families.number_table import NumberTable

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
MAX_LENGTH = LENGTHS[-1]
STEPS, MAX_RATIO = 20, 3  # b / se is rounded down to 1 / STEPS, so that many rounds share one


class Window(NamedTuple):
    """Rounds whose reports estimate the value of the newest of them."""

    rounds: int
    bias: float  # b, in the units of `change`


def windows(reports: Cells, change: float, variance: float) -> list[Window]:
    """Return the window of each round, for this noise of one report."""
    counted, moments = (
        np.concatenate([[0.0], np.cumsum(values)])
        for values in (reports, reports * np.arange(len(reports)))
    )
    last = np.arange(len(reports))[:, None]
    first = last + 1 - np.array(LENGTHS)
    start = np.maximum(first, 0)
    people = np.maximum(counted[last + 1] - counted[start], 1)
    bias = change * (last - (moments[last + 1] - moments[start]) / people)
    error = np.sqrt(variance / people)
    width = np.where(first >= 0, half_width(bias / error) * error, np.inf)
    best = width.argmin(1)
    return [Window(LENGTHS[n], float(row[n])) for n, row in zip(best.tolist(), bias, strict=True)]


def half_width(bias: Array, confidence: float = CONFIDENCE) -> Array:
    """Return cv: the half width in standard errors, for a bias in standard errors."""
    from scipy.special import ndtr

    def excess(c: Array) -> Array:
        return np.asarray(ndtr(c - bias) - ndtr(-c - bias) - confidence)

    one_sided = NormalDist().inv_cdf(confidence)
    return brent(excess, bias + one_sided - 1e-9, bias + 2 * one_sided, 1e-12)


def period_confidence(read: Reading, bias: float, error: float) -> float:
    """Return the confidence of the period's limits, for its largest standard error.

    The error is infinite if the estimate is not nearly normal.
    """
    if read.any_time:
        return joint_confidence(len(LENGTHS), read.confidence)
    ratio = min(math.floor(STEPS * bias / error), MAX_RATIO * STEPS) / STEPS
    return _one_look(ratio, read.confidence) if ratio else read.confidence


@lru_cache(maxsize=256)
def _one_look(ratio: float, confidence: float) -> float:
    z = float(half_width(np.array([ratio]), confidence)[0]) - ratio
    return 2 * NormalDist().cdf(z) - 1


def largest_error(estimator: Estimator, reports: float, rounds: int, *, sampling: bool) -> float:
    """Return the standard error at the worst share, as a share of the range.

    With `sampling`, the same people may be in all rounds.
    """
    if estimator.noise_of_a_report * reports < LEAST_NOISE:
        return math.inf
    mechanism = estimator.mechanism
    noise = (
        mechanism.worst_variance(1)
        if isinstance(mechanism, NumberTable)
        else max(mechanism.variance(1, share) for share in (0, 1))
    )
    return math.sqrt((noise + sampling * rounds / 4) / reports)
