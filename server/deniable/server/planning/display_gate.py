"""Number of reports from which an estimate is shown: `show_when` of a survey.

An estimate is shown once its planned margin of error, at the worst share, is small enough. That
depends on the number of reports, ε and the looks alone. A gate by the observed margin would select
estimates that look precise by chance: at ε 1, with 466 reports and a gate of ± 10 points, it would
show one estimate in ten, and only 56 % of the intervals shown would contain the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.crosstab import expected_margin
from deniable.server.estimation.statements import (
    MAX_SEPARATE_LABELS,
    Reading,
    RoundSize,
    deviates,
    joint_confidence,
    skewness,
)
from deniable.server.planning.forecast import Expected, people_for
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

UNLIMITED = np.array([-np.inf]), np.array([np.inf])


@dataclass(frozen=True)
class ExpectedPeriod:
    """Expected margins of several rounds, which may contain the same people.

    The rounds have these `sizes`, or any others in the same proportions.
    """

    expected: Expected
    sizes: tuple[RoundSize, ...]

    @property
    def question(self) -> Question:
        return self.expected.question

    def margin(self, reports: int) -> float:
        """Add to one round's margin the worst-case effect of people who are in several rounds."""
        kind, rounds = ESTIMATORS[self.question.estimation], len(self.sizes)
        if self.expected.looks:
            sure = joint_confidence(rounds, self.expected.confidence)
            alone = replace(self.expected, confidence=sure)
            if kind.noise_has_sampling:
                return math.sqrt(rounds) * alone.margin(reports)
            return alone.margin(max(1, reports // rounds))
        cells = np.zeros(self.question.mechanism.cells, np.int64)
        cells[0] = reports
        scale = reports / sum(size.reports for size in self.sizes)
        sizes: Any = scale * np.array(self.sizes).T  # Any: not whole numbers
        one, several = (kind(self.question, cells, reports, False, *of) for of in ((), sizes))
        added = several.sampling(UNLIMITED)
        if not kind.noise_has_sampling:
            added = added - one.sampling(UNLIMITED)
        sure = joint_confidence(self.expected.joint, self.expected.confidence)
        step = (several.step - one.step) * skewness(sure)
        width = np.hypot(self.expected.margin(reports), deviates(sure) * np.sqrt(added)) + step
        return float(width.max())


@dataclass(frozen=True)
class ExpectedCross:
    """Margins to expect of a cross table, if half of the people give one pair of answers."""

    question: Question
    other: Question
    reading: Reading

    def margin(self, reports: int) -> float:
        cells = len(self.question.answer_labels) * len(self.other.answer_labels)
        sure = joint_confidence(
            cells if cells > MAX_SEPARATE_LABELS else 1, self.reading.confidence
        )
        designs = self.question.mechanism, self.other.mechanism
        return expected_margin(designs, reports, 0.5, sure, self.reading.any_time)


Plan = Expected | ExpectedPeriod | ExpectedCross


def at_worst(
    question: Question, reading: Reading, values: int = 1, sizes: tuple[RoundSize, ...] = ()
) -> Expected | ExpectedPeriod | None:
    """Return the margins to expect at the worst share; None for texts, which have a floor.

    A period has the `sizes` of its rounds.
    """
    if not question.labels:
        return None
    share = question.mechanism.worst_share
    expected = Expected(question, share, reading.confidence, reading.any_time, values)
    return ExpectedPeriod(expected, sizes) if sizes else expected


def reports_needed(survey: Survey, plan: Plan | None) -> int:
    """Return the number of reports that an estimate needs to be shown."""
    if survey.show_when is None or plan is None:
        return survey.minimum_reports
    return max(survey.minimum_reports, _least(plan, survey.show_when / 100 * plan.question.span))


def margins(survey: Survey, plan: Plan, reports: int) -> tuple[float, float]:
    """Return the planned margin of these reports, and the one at which estimates are shown."""
    return plan.margin(reports), (survey.show_when or 100) / 100 * plan.question.span


@lru_cache(maxsize=1024)
def _least(plan: Plan, margin: float) -> int:
    return people_for(plan.margin, margin)
