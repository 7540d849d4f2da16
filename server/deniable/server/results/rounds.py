"""Rounds of a survey with all that their counts say, estimated together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import UNSET

from deniable.server.results.answers import floors, question_results
from deniable.server.results.change import changes, round_before
from deniable.server.results.counts import counts_of
from deniable.server.results.crossing import crossings
from deniable.server.results.distributions import question_distributions
from deniable.server.results.document import (
    Change,
    Crossed,
    Distribution,
    Fit,
    QuestionResult,
    Round,
    RoundFacts,
)
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.shuffled import shuffled
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import Survey

STILL_OPEN = (
    "reports of this round are still taken: its intervals are valid for repeated looks, and get "
    "narrower when it ends"
)


def rounds(
    published: PublishedSurvey,
    numbers: Sequence[int],
    kept: Mapping[int, RoundTally],
    now: datetime,
) -> list[Round]:
    """Each is the same whatever others are asked for beside it."""
    survey, tallies = published.survey, [kept.get(number) for number in numbers]
    before = _before(numbers, kept)
    facts = {
        number: round_facts(published, number, kept.get(number), now)
        for number in {*numbers, *before.values()}
    }
    counts = {
        question.name: {
            number: counts_of(survey, question, kept.get(number), each.open)
            for number, each in facts.items()
        }
        for question in survey.questions
    }
    asked = [
        (question, [counts[question.name][number] for number in numbers])
        for question in survey.questions
    ]
    answers = [
        question_results(survey, *each) for each in asked
    ]  # before changes, which need the same
    columns = zip(
        round_fits(survey, tallies),
        zip(*answers, strict=True),
        zip(*(question_distributions(*each) for each in asked), strict=True),
        crossings(survey, tallies, [facts[number].open for number in numbers]),
        map(changes(survey, before, counts).get, numbers),
        strict=True,
    )
    return [
        _round(survey, facts[number], tally, _Told(*told))
        for number, tally, told in zip(numbers, tallies, columns, strict=True)
    ]


class _Told(NamedTuple):
    """Of one round, in the order of the survey's questions."""

    fits: dict[str, Fit]
    answers: tuple[QuestionResult, ...]
    distributions: tuple[Distribution | None, ...]
    cross: tuple[Crossed, ...]
    change: Change | None


def _round(survey: Survey, facts: RoundFacts, tally: RoundTally | None, told: _Told) -> Round:
    names = [each.name for each in told.answers]
    curves = zip(names, told.distributions, strict=True)
    return Round(
        round=facts.round,
        first_day=facts.first_day,
        last_day=facts.last_day,
        open=facts.open,
        reports=facts.reports,
        note=facts.note,
        warning=warning(survey, tally, told.fits),
        fit=told.fits,
        floor={each.name: each.floor for each in told.answers},
        questions={each.name: each.rows for each in told.answers},
        distributions={name: curve for name, curve in curves if curve} or UNSET,
        cross=told.cross or UNSET,
        change=told.change,
        shuffled=shuffled(survey, facts.reports) or UNSET,
        vectors={each.name: each.whole for each in told.answers if each.whole} or UNSET,
        floors=floors(survey, tally) or UNSET,
    )


def _before(numbers: Sequence[int], kept: Mapping[int, RoundTally]) -> dict[int, int]:
    """Of each round with reports the last earlier one that has some, if there is one."""
    ascending = sorted(kept)
    found = {number: round_before(number, ascending) for number in numbers if number in kept}
    return {number: before for number, before in found.items() if before is not None}


def round_facts(
    published: PublishedSurvey, number: int, tally: RoundTally | None, now: datetime
) -> RoundFacts:
    survey = published.survey
    still_open = is_open(published, number, now)
    return RoundFacts(
        round=number,
        first_day=survey.round_starts(number).date().isoformat(),
        last_day=(survey.round_ends(number) - timedelta(days=1)).date().isoformat(),
        open=still_open,
        reports=tally.reports if tally else 0,
        note=STILL_OPEN if still_open else None,
    )


def is_open(published: PublishedSurvey, number: int, now: datetime) -> bool:
    """Whether reports of this round are still taken."""
    return not published.closed and now < published.survey.taken_until(number)
