"""What a survey's page shows: its rounds, and of one of them each question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from flask import request

from deniable.server.http.context import parts
from deniable.server.pages.crossed_view import CrossedView, crossed_view
from deniable.server.pages.question_view import QuestionView
from deniable.server.pages.seen import Seen
from deniable.server.results import (
    RoundFacts,
    State,
    Window,
    crossings,
    round_fits,
    rounds_so_far,
    state_at,
    warning,
    window,
)
from deniable.server.results.annotating import by_round, happened
from deniable.server.results.document import Happened
from deniable.server.results.shuffled import sentences, shuffled
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import lifetime_promise, round_promise
from deniable.shared.survey.document import Survey
from deniable.shared.survey.phrases import repeated

MOST_ROUNDS = 6  # in the row of links; the others are behind it
MOST_LISTED = 200  # with those behind it; earlier ones are on pages of their own

_NUMBER = re.compile("[0-9]{1,9}")

OUTCOMES = {
    "accepted": "counted",
    "duplicates": "sent again, and counted once",
    "early": "refused: more than an hour before their round",
    "late": "refused: after their round and its grace",
    "closed": "refused: the survey was closed",
    "bad-payload": "refused: not what this survey asks for",
    "too-many": "refused: more in one envelope than the sender may send",
    "unknown-survey": "refused: for a survey that is not published here",
}


@dataclass(frozen=True)
class RoundLink:
    number: int
    name: str
    reports: int
    current: bool


@dataclass(frozen=True)
class SurveyPage:
    published: PublishedSurvey
    state: State
    promises: tuple[str, str]
    repeated: tuple[str, ...]
    period: RoundFacts | None  # the round that is shown
    period_name: str
    warning: str | None  # where reports of that round must be forged
    shuffled: Sequence[str]  # what its reports give away by a relay
    rounds: Sequence[RoundLink]  # the newest first
    before: int | None  # the newest of those that are not in the list, if there are any
    later: bool  # whether newer ones may not be in it
    seen: Seen
    questions: Sequence[QuestionView]
    annotations: Sequence[Happened]

    @cached_property
    def crossed(self) -> Sequence[CrossedView]:
        """Which no figure by itself needs."""
        survey, tally = self.seen.survey, self.seen.tally
        (found,) = crossings(survey, [tally], [self.seen.is_open(tally)])
        return [crossed_view(survey, each) for each in found]

    @property
    def in_javascript(self) -> bool:
        asked = self.published.survey
        return not asked.repeats and all(each.in_javascript for each in asked.questions)

    @property
    def first_rounds(self) -> Sequence[RoundLink]:
        """The newest, and the one that is shown."""
        newest, others = self.rounds[:MOST_ROUNDS], self.rounds[MOST_ROUNDS:]
        return [*newest, *(link for link in others if link.current)]

    @property
    def earlier_rounds(self) -> Sequence[RoundLink]:
        return self.rounds[MOST_ROUNDS:]


def read_page(identifier: str) -> SurveyPage:
    """By the address of this request; Refused if there is no such survey or round."""
    here = parts()
    published = here.catalogue.find(identifier)
    now, asked = here.clock.now(), request.args.get("round")
    shown = page_window(published.survey, now, asked)
    tallies = here.store.tallies(published.sequence, *shown.read(published.survey))
    annotations = happened(published.survey, here.store.annotations(published.sequence))
    known = here.known.of(published)
    return survey_page(published, tallies, now, asked, shown, annotations, known)


def survey_page(
    published: PublishedSurvey,
    tallies: Sequence[RoundTally],
    now: datetime,
    asked: str | None,
    shown: Window,
    annotations: Sequence[Happened],
    known: Mapping[tuple[str, int, str], float],
) -> SurveyPage:
    """`asked` is the round that the address names; Refused if there is none."""
    survey = published.survey
    rounds = rounds_so_far(published, tallies, now, shown)
    period = _chosen(rounds, survey.minimum_reports, asked)
    number = period.round if period else None
    tally = next((tally for tally in tallies if tally.round == number), None)
    open_rounds = frozenset(each.round for each in rounds if each.open)
    seen = Seen(published.id, survey, tallies, tally, open_rounds, by_round(annotations), known)
    return SurveyPage(
        published=published,
        annotations=annotations,
        state=state_at(published, now),
        promises=(
            round_promise(survey.round_billionths, survey.repeat_rounds),
            lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds),
        ),
        repeated=repeated(survey),
        period=period,
        period_name=survey.round_title(number) if number is not None else "",
        warning=warning(survey, tally, *round_fits(survey, [tally])),
        shuffled=tuple(
            sentences(shuffled(survey, tally.reports if tally else 0), survey.round_epsilon)
        ),
        rounds=[_link(survey, each, number) for each in reversed(rounds)],
        before=shown.first - 1 if shown.left_out else None,
        later=asked is not None,
        seen=seen,
        questions=[QuestionView(question, seen) for question in survey.questions],
    )


def page_window(survey: Survey, now: datetime, asked: str | None) -> Window:
    """The newest rounds; or those up to some way after the one that is asked for."""
    newest = window(survey, now, most=MOST_LISTED)
    if asked is None or not _NUMBER.fullmatch(asked) or int(asked) in newest:
        return newest
    return window(survey, now, last=int(asked) + MOST_ROUNDS, most=MOST_LISTED)


def outcome_rows(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Reports by what became of them, in words."""
    order = [*OUTCOMES, *sorted(counted.keys() - OUTCOMES.keys())]
    return [(OUTCOMES.get(code, code), counted[code]) for code in order if counted.get(code)]


def _chosen(rounds: Sequence[RoundFacts], minimum: int, asked: str | None) -> RoundFacts | None:
    """The round that is asked for, or the newest that says something."""
    if asked is not None:
        for period in rounds:
            if str(period.round) == asked:
                return period
        raise Refused("this survey has no such round, or it has not begun")
    enough = [period for period in rounds if period.reports >= minimum]
    some = [period for period in rounds if period.reports]
    return next(iter([*enough[-1:], *some[-1:], *rounds[-1:]]), None)


def _link(survey: Survey, period: RoundFacts, current: int | None) -> RoundLink:
    name = survey.round_title(period.round)
    return RoundLink(period.round, name, period.reports, period.round == current)
