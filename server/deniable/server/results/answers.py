"""What rounds say of one question: its rows, and what stands beside them.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import repeat

from deniable.server.estimation.estimate import Estimate
from deniable.server.estimation.estimators import estimates, estimator
from deniable.server.estimation.statements import Statements
from deniable.server.estimation.texts import FALSE_DISCOVERY
from deniable.server.results.counts import Counts
from deniable.server.results.document import About, Floor, QuestionResult, Row, WholeVector
from deniable.server.results.said import said
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

NOTHING_FOUND = "no text stands out"

Answer = tuple[tuple[Row, ...], float | None]  # the rows, and the floor


def question_results(
    survey: Survey, question: Question, rounds: Sequence[Counts]
) -> list[QuestionResult]:
    """One question in each of these rounds."""
    facts, answers = about(question), _answers(survey, question, rounds)
    return [
        QuestionResult(question.name, facts, rows, floor, _whole(question, counts))
        for (rows, floor), counts in zip(answers, rounds, strict=True)
    ]


def about(question: Question) -> About:
    return About(
        kind=question.kind,
        epsilon=str(question.epsilon),
        mechanism=question.mechanism.name,
        leverage=question.mechanism.leverage,
        method=estimator(question).method,
        statistic=question.statistic,
        unit=question.unit,
        range=question.range,
        **question.facts(),
    )


def floors(survey: Survey, tally: RoundTally | None) -> dict[str, Floor]:
    """Of each text question of a round that has enough reports."""
    asked = [question for question in survey.questions if not question.labels]
    counted = {question: tally.of(survey, question)[0] for question in asked if tally}
    return {
        question.name: _floor(share, reports)
        for question, reports in counted.items()
        if reports >= survey.minimum_reports
        and (share := question.mechanism.floor(reports)) is not None
    }


def _floor(share: float, reports: int) -> Floor:
    return Floor(share=share, people=math.ceil(share * reports), false_discovery=FALSE_DISCOVERY)


def _answers(survey: Survey, question: Question, rounds: Sequence[Counts]) -> list[Answer]:
    known = [counts for counts in rounds if counts.enough]
    found = _said(question, known) if question.labels else _listed(question, known)
    return [
        next(found)
        if counts.enough
        else (_nothing(question, counts.reports, too_few(survey)), None)
        for counts in rounds
    ]


def _said(question: Question, rounds: Sequence[Counts]) -> Iterator[Answer]:
    for found, counts in zip(said(question, rounds), rounds, strict=True):
        floor = None if math.isnan(found.floor) else float(found.floor)
        yield tuple(_known_rows(question.labels, found, counts.reports)), floor


def _listed(question: Question, rounds: Sequence[Counts]) -> Iterator[Answer]:
    for counts in rounds:
        listed = tuple(map(_found_row, estimates(question, counts.cells, counts.reports)))
        yield listed or _nothing(question, counts.reports, NOTHING_FOUND), None


def _nothing(question: Question, reports: int, note: str) -> tuple[Row, ...]:
    return without_estimate(question.labels or ("",), reports, note)


def too_few(survey: Survey) -> str:
    return f"no estimate below {survey.minimum_reports:,} reports"


def without_estimate(labels: Sequence[str], reports: int, note: str) -> tuple[Row, ...]:
    return tuple(_unknown(label, reports, note) for label in labels)


def _whole(question: Question, counts: Counts) -> WholeVector | None:
    """None where it is no vector, or has no estimate."""
    if not counts.enough:
        return None
    found = estimator(question).whole(question, counts.cells, counts.reports)
    return None if found is None else WholeVector(length=found.length, error=found.error)


def _known_rows(labels: Sequence[str], found: Statements, reports: int) -> Iterator[Row]:
    """In the order of a row's fields."""
    low, high, low_these, high_these, low_all, high_all = (
        end.tolist() for each in (found.like, found.these, found.every) for end in each
    )
    return map(
        Row,
        labels,
        found.estimate.tolist(),
        low, high, low_these, high_these, low_all, high_all,
        found.standard_error.tolist(),
        repeat(reports),
        found.consistent.tolist(),
        repeat(None),
    )  # fmt: skip


def _found_row(estimate: Estimate) -> Row:
    """Of a text that was found. Its interval is wide enough for that choice, and about these people
    as well, for whom less is drawn; not all of them hold at once."""
    return Row(
        label=estimate.label,
        estimate=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
        low_these=estimate.low,
        high_these=estimate.high,
        low_all=None,
        high_all=None,
        standard_error=estimate.standard_error,
        reports=estimate.reports,
        consistent=estimate.consistent,
        note=estimate.note,
    )


def _unknown(label: str, reports: int, note: str) -> Row:
    return Row(
        label=label,
        estimate=None,
        low=None,
        high=None,
        low_these=None,
        high_these=None,
        low_all=None,
        high_all=None,
        standard_error=None,
        reports=reports,
        consistent=None,
        note=note,
    )
