"""Cross tables: shares of people who hold both of two answers, from reports of two questions.

Given the answers, a device draws the noise of its two reports independently. With p, q of one
question, p', q' of the other, and s, s' = 1 if a report supports the answer and 0 otherwise,

    u = (s - q) / (p - q)    u' = (s' - q') / (p' - q')    E[u u'] = 1 where both are held, else 0

so the mean of u u' over all reports is an unbiased estimate of the share of people who hold both.
It is summed in whole numbers and converted to a float once. u u' has four values, so its interval
is that of a mean of bounded values; in an open round it is valid at every look. A cross table
spends no ε, because it uses the same reports.

Rates: of the people with the second answer, a share b of all, the share t also has the first one.
With a = t b for both answers, the mean of u' (u - t) over all reports is a - t b = 0 at the true t.
So the interval has those t at which the observed mean is near enough to 0 [1]:

    |a - t b|  <=  z √(v(t) / n) + half a report

where v(t) is the largest variance of u' (u - t) that b, and the share m with the first answer,
allow within their own limits. With V1 and V0 the variances of u for people with and without the
first answer, V1' and V0' likewise, g1 = V1 + (1 - t)^2 and g0 = V0 + t^2, it is

    v(t) = b (t g1 + (1 - t) g0) (1 - 2 q') / (p' - q') + V0' (m g1 + (1 - m) g0)

In an open round, u' (u - t) is bet on, as in `mean_limits`. A rate is a ratio, so no estimate of it
is unbiased: estimate and limits are cut to [0, 1]. If the observed ratio is outside, the limits are
those of the nearer end, so they never meet. If no one seems to have the second answer, there is no
estimate, and the limits are 0 and 1.

The standard error comes from the reports' values, but is at least that for people who hold neither
answer.

[1] Fieller 1954, "Some problems in interval estimation", Journal of the Royal Statistical Society B
    16(2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from deniable.server.estimation.mean_limits import log_sum_exp, population_mean
from deniable.server.estimation.share_limits import TILTS, needed_capital
from deniable.server.estimation.shares import (
    clopper_pearson,
    nearest_shares,
    support_counts,
    unbiased_share,
)
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Array,
    Cells,
    Interval,
    Points,
    deviates,
    joint_confidence,
    skewness,
)
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign

HALVINGS = 30  # limits are exact to nine digits


@dataclass(frozen=True)
class Joint(Points):
    """Joint shares of two questions' answers.

    Each array has a row for each of several rounds, and a number for each pair of answers: the
    second question's answers are listed within each answer of the first.
    """

    like: Interval
    every: Interval  # intervals for all shares jointly


class PairCounts(NamedTuple):
    """Counts of two crossed questions, in one round or in several."""

    first: SupportDesign
    second: SupportDesign
    one: Cells  # reports that support each answer of the first question
    other: Cells  # reports that support each answer of the second question
    both: Cells  # reports that support both: rows for the first question, columns for the second
    reports: int | Cells

    @classmethod
    def of(
        cls,
        designs: tuple[SupportDesign, SupportDesign],
        cells: tuple[Cells, Cells],
        crossed: Cells,
        reports: int | Cells,
    ) -> PairCounts:
        first, second = designs
        both = support_counts(first, crossed.swapaxes(-1, -2)).swapaxes(-1, -2)
        one, other = map(support_counts, designs, cells)
        return cls(first, second, one, other, support_counts(second, both), reports)

    @property
    def turned(self) -> PairCounts:
        """The same counts with both questions exchanged."""
        return PairCounts(
            self.second, self.first, self.other, self.one, self.both.swapaxes(-1, -2), self.reports
        )

    @property
    def answers(self) -> Sequence[Cells]:
        """Counts of support for each pair of answers (first, second, both), and the reports."""
        one, other = self.one[..., :, None], self.other[..., None, :]
        reports = np.asarray(self.reports)[..., None, None]
        return np.broadcast_arrays(one, other, self.both, reports)


def joint(pair: PairCounts, confidence: float = CONFIDENCE, looks: bool = False) -> Joint:
    """Estimate every joint share; with `looks`, the intervals hold simultaneously at all looks."""
    counts, values = quarters(pair), _values(pair.first, pair.second)
    order = np.argsort(values)
    values, counts = values[order], np.take(counts, order, axis=-1)
    exact, numbers = [*map(float, unbiased_shares(pair))], counts.astype(np.float64)
    estimate = np.array(exact).reshape(counts.shape[:-1])
    jointly = joint_confidence(counts.shape[-2], confidence)
    return Joint(
        estimate=estimate,
        standard_error=_errors(pair, values, counts),
        consistent=nearest_shares(estimate),
        like=population_mean(values, numbers, confidence, looks),
        every=population_mean(values, numbers, jointly, looks),
    )


def expected_margin(
    designs: Any, reports: int, share: float, confidence: float, looks: bool
) -> float:
    """Return the margin to expect if this share give two answers, and the others neither.

    Any: a pair of support designs.
    """
    first, second = designs
    both = (first.keep / ONE, second.keep / ONE), (first.lie / ONE, second.lie / ONE)
    yes, no = (np.outer([one, 1 - one], [other, 1 - other]).ravel() for one, other in both)
    rates, values = share * yes + (1 - share) * no, _values(first, second)
    order = np.argsort(values)
    low, high = population_mean(values[order], reports * rates[order], confidence, looks)
    return float(high - low) / 2


@dataclass(frozen=True)
class Rates:
    """Rates of the first question's answers among those with each answer to the second.

    The arrays have the shape of `PairCounts.both`. Without an estimate, it is NaN.
    """

    estimate: Array
    like: Interval
    every: Interval


def rates(
    pair: PairCounts, listed: int, confidence: float = CONFIDENCE, looks: bool = False
) -> Rates:
    """Estimate the rates; the intervals of `every` hold jointly for `listed` of them."""
    scale = np.asarray(pair.reports)[..., None, None]
    one, other, both, _ = (counts / scale for counts in pair.answers)
    (keep, lie), (other_keep, other_lie) = (
        (design.keep / ONE, design.lie / ONE) for design in (pair.first, pair.second)
    )
    held = (other - other_lie) / (other_keep - other_lie)
    together = both - other_lie * one - lie * other + lie * other_lie
    together = together / ((keep - lie) * (other_keep - other_lie))
    ratio = np.divide(together, held, out=np.full(held.shape, np.nan), where=held > 0)
    estimate = np.clip(ratio, 0, 1)
    like = every = _rate_limits(pair, estimate, confidence, looks)
    if listed > 1:
        every = _rate_limits(pair, estimate, joint_confidence(listed, confidence), looks)
    return Rates(estimate, like, every)


def _rate_limits(pair: PairCounts, estimate: Array, confidence: float, looks: bool) -> Interval:
    """Return the ends of the rates that are compatible with the counts."""
    counts = quarters(pair).reshape(*estimate.shape, 4).astype(np.float64)
    is_far = _bets(counts, confidence) if looks else _worst_case(pair, confidence)

    def excess(sign: int, end: float) -> Callable[[Array], Array]:
        """Return a function: how far the mean is beyond its reach, or beyond that at the end."""
        at_end = np.vecdot(sign * _products(pair, np.array(end)), counts) / counts.sum(-1)
        beyond = np.maximum(at_end, 0)[..., None]

        def above(rate: Array) -> Array:
            values = sign * _products(pair, rate) - beyond
            return is_far(rate, values, np.vecdot(values, counts) / counts.sum(-1))

        return above

    known = np.nan_to_num(estimate, nan=0.5)
    low = _crossing(excess(1, 1.0), np.zeros_like(known), known)
    high = _crossing(excess(-1, 0.0), np.ones_like(known), known)
    unknown = np.isnan(estimate)
    return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


Excess = Callable[[Array, Array, Array], Array]  # of a rate, the four values, and their mean


def _worst_case(pair: PairCounts, confidence: float) -> Excess:
    (keep, lie), (other_keep, other_lie) = (
        (design.keep / ONE, design.lie / ONE) for design in (pair.first, pair.second)
    )
    apart, other_apart = keep - lie, other_keep - other_lie
    spread, without = keep * (1 - keep) / apart**2, lie * (1 - lie) / apart**2
    other_without = other_lie * (1 - other_lie) / other_apart**2
    reports, z = np.asarray(pair.reports)[..., None], deviates(confidence)
    first = _held(pair.first, pair.one, reports, confidence)[..., :, None]
    second = _held(pair.second, pair.other, reports, confidence)[..., None, :]

    def beyond(rate: Array, values: Array, mean: Array) -> Array:
        yes, no = spread + (1 - rate) ** 2, without + rate**2
        of_second = (rate * yes + (1 - rate) * no) * (1 - 2 * other_lie) / other_apart
        variance = (of_second * second).max(0) + other_without * (no + ((yes - no) * first).max(0))
        step = np.ptp(values, axis=-1) / (2 * reports[..., None]) * skewness(confidence)
        return np.asarray(mean - z * np.sqrt(variance / reports[..., None]) - step)

    return beyond


def _held(design: SupportDesign, counts: Cells, reports: Cells, confidence: float) -> Array:
    """Return both limits of each answer's share, cut to those that are possible."""
    limits = clopper_pearson(counts, reports, confidence)
    return np.stack([np.clip(unbiased_share(limit, design), 0, 1) for limit in limits])


def _bets(counts: Array, confidence: float) -> Excess:
    needed = needed_capital(confidence)

    def beyond(rate: Array, values: Array, mean: Array) -> Array:  # noqa: ARG001 # as `Excess`
        stakes = TILTS / TILTS[0] / (2 * np.abs(values).max(-1)[..., None])
        gains = np.log1p(stakes[..., :, None] * values[..., None, :])
        return log_sum_exp((gains @ counts[..., None])[..., 0]) - needed

    return beyond


def _products(pair: PairCounts, rate: Array) -> Array:
    """Return u' (u - t) for reports of each of the `quarters`."""
    (yes, no), (other_yes, other_no) = map(_unbiased_values, (pair.first, pair.second))
    pairs = (yes, other_yes), (yes, other_no), (no, other_yes), (no, other_no)
    return np.stack([second * (first - rate) for first, second in pairs], axis=-1)


def _crossing(excess: Callable[[Array], Array], start: Array, end: Array) -> Array:
    """Return where the excess ends between `start` and `end`; `start` if it has none there."""
    inside, outside = end.copy(), start.copy()
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        is_outside = excess(middle) > 0
        outside, inside = (
            np.where(is_outside, middle, outside),
            np.where(is_outside, inside, middle),
        )
    return np.where(excess(start) > 0, outside, start)


def unbiased_shares(pair: PairCounts) -> list[Fraction]:
    """Return the exact estimates: sums of (s ONE - q) (s' ONE - q'), divided by their scale."""
    q, q_other = pair.first.lie, pair.second.lie
    one, other, both, reports = (counts.astype(object) for counts in pair.answers)
    totals = both * ONE**2 - ONE * (q_other * one + q * other) + q * q_other * reports
    scales = (pair.first.keep - q) * (pair.second.keep - q_other) * reports
    return [*map(Fraction, totals.ravel(), scales.ravel())]


def quarters(pair: PairCounts) -> Cells:
    """Return the number of reports that support both answers, only one, and neither."""
    one, other, both, reports = pair.answers
    parts = np.stack([both, one - both, other - both, reports - one - other + both], axis=-1)
    return parts.reshape(*parts.shape[:-3], -1, 4)


def _values(first: SupportDesign, second: SupportDesign) -> Array:
    """Return the value of a report in each of the `quarters`."""
    (yes, no), (other_yes, other_no) = map(_unbiased_values, (first, second))
    return np.array([yes * other_yes, yes * other_no, no * other_yes, no * other_no])


def _unbiased_values(design: SupportDesign) -> tuple[float, float]:
    """Return u of a report that supports the answer, and of one that does not."""
    yes, no = (float(design.unbiased_share(Fraction(support))) for support in (1, 0))
    return yes, no


def _errors(pair: PairCounts, values: Array, counts: Cells) -> Array:
    reports = np.asarray(pair.reports)[..., None]
    rates = counts / reports[..., None]
    mean, square = (np.vecdot(rates, powers) for powers in (values, values**2))
    least = math.prod(
        design.lie * (ONE - design.lie) / (design.keep - design.lie) ** 2
        for design in (pair.first, pair.second)
    )
    return np.asarray(np.sqrt(np.maximum(square - mean**2, least) / reports))
