"""Number of reports from which an estimate is shown: `show_when` of a survey.

An estimate is shown once its planned margin of error, at the worst share, is small enough. That
depends on the number of reports, ε and the looks alone. A gate by the observed margin would select
estimates that look precise by chance: at ε 1, with 466 reports and a gate of ± 10 points, it would
show one estimate in ten, and only 56 % of the intervals shown would contain the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from deniable.server.estimation.crosstab import expected_margin
from deniable.server.estimation.statements import (
    MAX_SEPARATE_LABELS,
    Reading,
    joint_confidence,
)
from deniable.server.planning.forecast import Expected, people_for
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question


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


Plan = Expected | ExpectedCross


def at_worst(question: Question, reading: Reading, values: int = 1) -> Expected | None:
    """Return the statements to expect at the worst share; None for texts, which have a floor."""
    if not question.labels:
        return None
    share = question.mechanism.worst_share
    return Expected(question, share, reading.confidence, reading.any_time, values)


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
