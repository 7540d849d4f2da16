"""The distributions of a round's numbers, in the questions' own units."""

from __future__ import annotations

import numpy as np

from deniable.server.estimation import distribution as estimation
from deniable.server.results.document import Distribution, Point, Quantile
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Number, Question


def round_distributions(
    survey: Survey, tally: RoundTally | None, looks: bool
) -> dict[str, Distribution]:
    """Of those questions for which the reports are enough."""
    found = {q.name: question_distribution(survey, q, tally, looks) for q in survey.questions}
    return {name: each for name, each in found.items() if each}


def question_distribution(
    survey: Survey, question: Question, tally: RoundTally | None, looks: bool
) -> Distribution | None:
    if tally is None or not isinstance(question, Number):
        return None
    reports, cells = tally.of(survey, question)
    if reports < max(survey.minimum_reports, 1):
        return None
    counts = cells.astype(np.float64)
    found = estimation.distribution(question.mechanism, counts, looks=looks)
    return _in_its_units(question, found) if found else None


def _in_its_units(question: Number, found: estimation.Distribution) -> Distribution:
    def place(position: float) -> float:
        return float(question.low) + question.span * position

    columns = (
        *(found.share, *found.share_interval, found.share_consistent),
        *(found.below, *found.below_interval, found.below_consistent),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Distribution(
        points=tuple(Point(place(n / found.parts), *row) for n, row in enumerate(rows)),
        quantiles=tuple(
            Quantile(each.level, place(each.estimate), place(each.low), place(each.high))
            for each in found.quantiles
        ),
    )
