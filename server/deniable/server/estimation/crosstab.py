"""Cross tables: shares of people who hold both of two answers, from reports of two questions.

Given the answers, a device draws the noise of its two reports independently. With p, q of one
question, p', q' of the other, and s, s' = 1 if a report supports the answer and 0 otherwise,

    u = (s - q) / (p - q)    u' = (s' - q') / (p' - q')    E[u u'] = 1 where both are held, else 0

so the mean of u u' over all reports is an unbiased estimate of the share of people who hold both.
It is summed in whole numbers and converted to a float once. u u' has four values, so its interval
is that of a mean of bounded values; in an open round it is valid at every look. A cross table
spends no ε, because it uses the same reports.

The standard error comes from the reports' values, but is at least that for people who hold neither
answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from deniable.server.estimation.mean_limits import population_mean
from deniable.server.estimation.shares import nearest_shares, support_counts
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Array,
    Cells,
    Interval,
    Points,
    joint_confidence,
)
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign


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
    (yes, no), (other_yes, other_no) = (
        (float(design.unbiased_share(Fraction(1))), float(design.unbiased_share(Fraction(0))))
        for design in (first, second)
    )
    return np.array([yes * other_yes, yes * other_no, no * other_yes, no * other_no])


def _errors(pair: PairCounts, values: Array, counts: Cells) -> Array:
    reports = np.asarray(pair.reports)[..., None]
    rates = counts / reports[..., None]
    mean, square = (np.vecdot(rates, powers) for powers in (values, values**2))
    least = math.prod(
        design.lie * (ONE - design.lie) / (design.keep - design.lie) ** 2
        for design in (pair.first, pair.second)
    )
    return np.asarray(np.sqrt(np.maximum(square - mean**2, least) / reports))
