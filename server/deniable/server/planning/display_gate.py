"""Number of reports from which an estimate is shown: `show_when` of a survey.

An estimate is shown once its planned margin of error, at the worst share, is small enough. That
depends on the number of reports, ε and the looks alone. A gate by the observed margin would select
estimates that look precise by chance: at ε 1, with 466 reports and a gate of ± 10 points, it would
show one estimate in ten, and only 56 % of the intervals shown would contain the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deniable.server.estimation.crosstab import expected_margin
from deniable.server.estimation.statements import (
    MAX_SEPARATE_LABELS,
    Reading,
    RoundSize,
    joint_confidence,
    largest_sampling,
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


def at_worst(
    question: Question, reading: Reading, values: int = 1, sizes: tuple[RoundSize, ...] = ()
) -> Expected | None:
    """Return the margins to expect near the worst share; None for texts, which have a floor.

    A period has the `sizes` of its rounds. The same people may be in all of them, which multiplies
    the variance of sampling. That moves the worst share towards 1/2: with N(f) the noise of a
    report at the share f, and c times the variance of sampling, to 1/2 + (N(1) - N(0)) / (2 c).
    """
    if not question.labels:
        return None
    mechanism, share = question.mechanism, question.mechanism.worst_share
    if sizes and share is not None and not reading.any_time:
        reports, people = np.array(sizes).T
        times = 4 * reports.sum() * largest_sampling(reports, people, np.array(0.5))
        rise = mechanism.variances(1.0)[1] - mechanism.variances(0.0)[1]
        share = float(np.clip(0.5 + rise / (2 * times), 0, 1))
    return Expected(question, share, reading.confidence, reading.any_time, values, sizes)


def reports_needed(survey: Survey, plan: Plan | None) -> int:
    """Return the number of reports that an estimate needs to be shown."""
    if survey.show_when is None or plan is None:
        return survey.minimum_reports
    return max(survey.minimum_reports, _least(plan, survey.show_when / 100 * plan.question.span))


def margins(survey: Survey, plan: Plan, reports: int) -> tuple[float, float]:
    """Return the planned margin of these reports, and the one at which estimates are shown."""
    return plan.margin(reports), (survey.show_when or 100) / 100 * plan.question.span


def is_enough(survey: Survey, plan: Plan | None, reports: int) -> bool:
    """Return whether an estimate is shown. A period needs no search: its sizes are known."""
    if reports < survey.minimum_reports or survey.show_when is None or plan is None:
        return reports >= survey.minimum_reports
    if isinstance(plan, Expected) and plan.sizes:
        planned, most = margins(survey, plan, reports)
        return planned <= most
    return reports >= reports_needed(survey, plan)


@lru_cache(maxsize=1024)
def _least(plan: Plan, margin: float) -> int:
    return people_for(plan.margin, margin)
