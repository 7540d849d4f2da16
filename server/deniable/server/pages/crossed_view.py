"""What a page shows of two questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from deniable.server.pages.charts import MOST_MARKS
from deniable.server.pages.question_view import MOST_ROWS
from deniable.server.results import Crossed
from deniable.server.results.crossing import TIMES
from deniable.server.results.display import Figures, known_figures
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question


@dataclass(frozen=True)
class CrossedView:
    name: str
    figures: Sequence[Figures]  # as many as a table holds
    left_out: int
    joint: bool  # whether the intervals hold at once


def crossed_view(survey: Survey, found: Crossed) -> CrossedView:
    asked = {question.name: question for question in survey.questions}
    pair = [asked[name] for name in found.questions]
    called = _called(*pair)
    joint = len(found.rows) > MOST_MARKS
    known = known_figures(found.rows, "share", joint=joint)
    if joint:
        known.sort(key=lambda row: -row.estimate)
    return CrossedView(
        name=TIMES.join(question.title for question in pair),
        figures=[replace(row, label=called[row.label]) for row in known[:MOST_ROWS]],
        left_out=max(0, len(known) - MOST_ROWS),
        joint=joint,
    )


def _called(first: Question, second: Question) -> dict[str, str]:
    """What people call each two answers."""
    theirs = [
        (each.answer_labels, each.display.options or each.answer_labels) for each in (first, second)
    ]
    (ours, ours_called), (others, others_called) = theirs
    named = zip(product(ours, others), product(ours_called, others_called), strict=True)
    return {TIMES.join(labels): TIMES.join(words) for labels, words in named}
