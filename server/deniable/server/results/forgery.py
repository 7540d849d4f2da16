"""Rounds whose counts honest reports cannot give: how many are forged at least, and what it can do.

What forged reports inside of the possible region do is bounded by their leverage only.
"""

from __future__ import annotations

from collections.abc import Mapping

from deniable.server.estimation.possible import fit
from deniable.server.results.display import STYLES
from deniable.server.results.document import Fit
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question


def question_fit(survey: Survey, question: Question, tally: RoundTally | None) -> Fit:
    """Of one question in one round; without reports everything fits."""
    if tally is None:
        return Fit(p_value=1.0, forged=0, shift=0.0)
    reports, cells = tally.of(survey, question)
    found = fit(question.mechanism, cells, reports, len(survey.questions))
    share = found.forged / reports if found.forged else 0.0
    shift = share * question.mechanism.leverage * question.span
    return Fit(p_value=found.p_value, forged=found.forged, shift=shift)


def round_fits(survey: Survey, tally: RoundTally | None) -> dict[str, Fit]:
    return {each.name: question_fit(survey, each, tally) for each in survey.questions}


def warning(survey: Survey, tally: RoundTally | None, fits: Mapping[str, Fit]) -> str | None:
    """What to say before any figure of the round; None where honest reports can give it."""
    parts = [
        _part(question, tally.of(survey, question)[0], fits[question.name])
        for question in survey.questions
        if tally is not None and fits[question.name].forged
    ]
    if not parts:
        return None
    return (
        f"forged reports are in this round, do not rely on its figures: {'; '.join(parts)}. "
        "There may be more, which look like honest ones"
    )


def _part(question: Question, reports: int, found: Fit) -> str:
    style = STYLES[question.statistic]
    shift = f"{style.factor * found.shift:,.3g}"
    unit = f" {question.unit}" if question.unit else style.points
    return (
        f"{question.name}: at least {found.forged:,} of {reports:,} reports cannot be "
        f"honest, and alone can shift an estimate by up to {shift}{unit}"
    )
