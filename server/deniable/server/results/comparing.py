"""One survey's estimates against another's, where both ask the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.results.answers import about
from deniable.server.results.change import SHARED_NOISE, Rows, compared
from deniable.server.results.counts import counts_of
from deniable.server.results.document import Comparison
from deniable.server.results.rounds import is_open
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.survey.kinds.base import Question

Kept = tuple[PublishedSurvey, Sequence[RoundTally]]


def comparison(this: Kept, other: Kept, now: datetime, number: int | None = None) -> Comparison:
    """Of each one's newest round that has enough reports, or of this round in both. Refused where
    nothing is comparable."""
    (published, _), (against, _) = this, other
    first, second = (_round(each, number) for each in (this, other))
    if published.id == against.id:
        _refuse_shared(published, first.round, second.round)
    sides = (published, first), (against, second)
    theirs = {question.name: question for question in against.survey.questions}
    found = {
        question.name: _differences((question, theirs[question.name]), sides, now)
        for question in published.survey.questions
        if question.name in theirs
    }
    known = {name: rows for name, rows in found.items() if rows}
    if not known:
        raise Refused(
            f"{published.name} and {against.name} have no estimate to compare: that takes a "
            "question of the same name, kind and unit, and enough reports in both"
        )
    return Comparison(
        survey=published.id,
        name=published.name,
        round=first.round,
        against=against.id,
        against_name=against.name,
        against_round=second.round,
        confidence=CONFIDENCE,
        about={q.name: about(q) for q in published.survey.questions if q.name in known},
        questions=known,
    )


def _differences(
    asked: tuple[Question, Question],
    sides: tuple[tuple[PublishedSurvey, RoundTally], tuple[PublishedSurvey, RoundTally]],
    now: datetime,
) -> Rows:
    """Nothing where the two are not of one kind."""
    question, other = asked
    if (question.kind, question.unit) != (other.kind, other.unit):
        return ()
    ours, theirs = (
        counts_of(published.survey, each, tally, is_open(published, tally.round, now))
        for each, (published, tally) in zip(asked, sides, strict=True)
    )
    (rows,) = compared(question, [ours], other, [theirs])
    return rows


def _round(kept: Kept, number: int | None) -> RoundTally:
    published, tallies = kept
    least = published.survey.minimum_reports
    fitting = [
        tally
        for tally in tallies
        if (tally.reports >= least if number is None else tally.round == number)
    ]
    if not fitting:
        which = "with enough reports" if number is None else f"{number} with reports"
        raise Refused(f"survey {published.name!r} has no round {which} to compare")
    return max(fitting, key=lambda tally: tally.round)


def _refuse_shared(published: PublishedSurvey, first: int, second: int) -> None:
    if first == second:
        raise Refused("a round is not compared with itself: name two surveys")
    if second in published.survey.span_of(first):
        raise Refused(SHARED_NOISE)
