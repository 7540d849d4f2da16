"""Cross tables: shares of people who hold both of two answers, from reports of two questions.

Given the answers, a device draws the noise of its two reports independently. With p, q of the one
question and p', q' of the other, and s, s' which say whether a report supports the answer, 1 or 0,

    u = (s - q) / (p - q)    u' = (s' - q') / (p' - q')    E[u u'] = 1 where both are held, else 0

so the mean of u u' over all reports is unbiased for the share of people who hold both: the tensor
product of the two unbiased estimators. It is summed in whole numbers and made a float once. As u u'
has four values, the interval is that of the mean of bounded values, or while a round is open the
one that is valid at every look. No ε is spent: the reports are the same.

The standard error is that of the reports' values, and at least that of a person who holds neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import anytime_valid, intervals
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.point_estimates import nearest_shares, support_counts
from deniable.server.estimation.statements import at_once
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]


@dataclass(frozen=True)
class Joint:
    """Joint shares of two questions' answers.

    Each array holds one number for each answer of the first question and each of the second, the
    second question's answers within the first's. Of several rounds it has a row for each.
    """

    estimate: Array
    standard_error: Array
    consistent: Array
    like: Interval
    every: Interval  # of all of them jointly


@dataclass(frozen=True)
class Pair:
    """Counts of two crossed questions, in one round or in several."""

    first: SupportDesign
    second: SupportDesign
    one: Cells  # how many support each answer of the first
    other: Cells  # and of the second
    both: Cells  # of both: a row for each of the first, a column for each of the second
    reports: int | Cells

    @classmethod
    def of(
        cls,
        designs: tuple[SupportDesign, SupportDesign],
        cells: tuple[Cells, Cells],
        crossed: Cells,
        reports: int | Cells,
    ) -> Pair:
        """Return the pair for the cells of each question and of both, as the tally counts them."""
        first, second = designs
        both = support_counts(first, crossed.swapaxes(-1, -2)).swapaxes(-1, -2)
        one, other = (support_counts(*each) for each in zip(designs, cells, strict=True))
        return cls(first, second, one, other, support_counts(second, both), reports)

    @property
    def answers(self) -> Sequence[Cells]:
        """Support counts for each two answers: of one, of the other, of both; and the reports."""
        one, other = self.one[..., :, None], self.other[..., None, :]
        reports = np.asarray(self.reports)[..., None, None]
        return np.broadcast_arrays(one, other, self.both, reports)


def joint(pair: Pair, confidence: float = CONFIDENCE, looks: bool = False) -> Joint:
    """Estimate every joint share from at least one report.

    With `looks` its intervals hold at every look together.
    """
    counts, values = quarters(pair), _values(pair.first, pair.second)
    order = np.argsort(values)
    values, counts = values[order], np.take(counts, order, axis=-1)
    exact = [float(share) for share in unbiased_shares(pair)]
    estimate = np.array(exact).reshape(counts.shape[:-1])
    return Joint(
        estimate=estimate,
        standard_error=_errors(pair, values, counts),
        consistent=nearest_shares(estimate),
        like=_limits(values, counts, confidence, looks),
        every=_limits(values, counts, at_once(counts.shape[-2], confidence), looks),
    )


def unbiased_shares(pair: Pair) -> list[Fraction]:
    """Return the exact estimates, round after round.

    Each is the sum of (s ONE - q) (s' ONE - q') over all reports, divided by its scale.
    """
    q, q_other = pair.first.lie, pair.second.lie
    one, other, both, reports = (each.astype(object) for each in pair.answers)
    totals = both * ONE**2 - ONE * (q_other * one + q * other) + q * q_other * reports
    scales = (pair.first.keep - q) * (pair.second.keep - q_other) * reports
    return [Fraction(*each) for each in zip(totals.ravel(), scales.ravel(), strict=True)]


def quarters(pair: Pair) -> Cells:
    """Return, for each pair of answers, how many reports support both, only one, and neither."""
    one, other, both, reports = pair.answers
    parts = np.stack([both, one - both, other - both, reports - one - other + both], axis=-1)
    return parts.reshape(*parts.shape[:-3], -1, 4)


def _values(first: SupportDesign, second: SupportDesign) -> Array:
    """Return the value of a report in each of the `quarters`."""
    (yes, no), (other_yes, other_no) = (
        (float(Fraction(ONE - each.lie, gap)), float(Fraction(-each.lie, gap)))
        for each in (first, second)
        for gap in (each.keep - each.lie,)
    )
    return np.array([yes * other_yes, yes * other_no, no * other_yes, no * other_no])


def _limits(values: Array, counts: Cells, confidence: float, looks: bool) -> Interval:
    of = anytime_valid.mean if looks else intervals.bounded_mean
    return of(values, counts.astype(np.float64), confidence)


def _errors(pair: Pair, values: Array, counts: Cells) -> Array:
    reports = np.asarray(pair.reports)[..., None]
    rates = counts / reports[..., None]
    mean, square = (np.vecdot(rates, each) for each in (values, values**2))
    least = math.prod(
        each.lie * (ONE - each.lie) / (each.keep - each.lie) ** 2
        for each in (pair.first, pair.second)
    )
    errors: Array = np.sqrt(np.maximum(square - mean**2, least) / reports)
    return errors
