"""Survey page: the rounds of a survey, and each question in one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from flask import request

from deniable.server.http.context import parts
from deniable.server.pages.question_view import (
    CrossedView,
    PageContext,
    QuestionView,
    crossed_view,
)
from deniable.server.results import Results, Round, SurveyEstimates, select_rounds, stored_estimates
from deniable.server.results.annotations import events_by_round
from deniable.server.results.document import RoundFacts
from deniable.server.results.notes import shuffle_sentences
from deniable.server.results.round_selection import (
    MAX_ROWS,
    RoundSelection,
    rounds_in_memory,
    rounds_per_response,
)
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import lifetime_promise, round_promise
from deniable.shared.survey.phrases import repeated

MAX_LINKS = 6  # in the row of rounds; the others are folded
MAX_LISTED = 200  # with those folded; earlier rounds are on pages of their own

_NUMBER = re.compile("[0-9]{1,9}")

OUTCOMES = {
    "accepted": "accepted",
    "duplicates": "sent again, and counted once",
    "early": "rejected: more than an hour before their round",
    "late": "rejected: after their round and its grace period",
    "closed": "rejected: the survey was closed",
    "bad-payload": "rejected: not what this survey asks for",
    "too-many": "rejected: more in one envelope than the sender may send",
    "unknown-survey": "rejected: for a survey that is not published here",
}


@dataclass(frozen=True)
class RoundLink:
    number: int
    name: str
    reports: int
    current: bool


@dataclass(frozen=True)
class SurveyPage:
    """A view of the survey's results; it estimates nothing."""

    context: PageContext
    asked: str | None  # the round that the address names

    @property
    def estimates(self) -> SurveyEstimates:
        return self.context.estimates

    @property
    def published(self) -> PublishedSurvey:
        return self.estimates.published

    @property
    def results(self) -> Results:
        return self.estimates.header

    @property
    def period(self) -> Round | None:
        return self.context.period

    @cached_property
    def promises(self) -> tuple[str, str, list[str]]:
        """Privacy promises: of one round, of the whole survey, and those changed by repetition."""
        survey = self.estimates.survey
        return (
            round_promise(survey.round_billionths, survey.repeat_rounds),
            lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds),
            list(repeated(survey)),
        )

    @cached_property
    def questions(self) -> Sequence[QuestionView]:
        return [
            QuestionView(question, self.context) for question in self.estimates.survey.questions
        ]

    @property
    def crossed(self) -> Sequence[CrossedView]:
        tables = (self.period.cross or ()) if self.period else ()
        return [crossed_view(self.estimates.survey, table) for table in tables]

    @property
    def shuffled(self) -> Sequence[str]:
        """Sentences about the privacy that the relay's shuffle adds."""
        found = (self.period.shuffled or ()) if self.period else ()
        return list(shuffle_sentences(found, self.results.epsilon))

    @property
    def in_javascript(self) -> bool:
        survey = self.estimates.survey
        return not survey.repeats and all(question.in_javascript for question in survey.questions)

    # Links to rounds

    @property
    def fits_in_a_file(self) -> bool:
        """Return whether one response may hold all rounds."""
        return self.estimates.survey.rounds <= rounds_per_response(self.estimates.survey)

    @cached_property
    def rounds(self) -> Sequence[RoundLink]:
        """The rounds of this page, the newest first."""
        return [self._link(facts) for facts in reversed(self.estimates.facts.values())]

    @property
    def first_rounds(self) -> Sequence[RoundLink]:
        """The newest, and the one that is shown."""
        folded = (link for link in self.earlier_rounds if link.current)
        return [*self.rounds[:MAX_LINKS], *folded]

    @property
    def earlier_rounds(self) -> Sequence[RoundLink]:
        return self.rounds[MAX_LINKS:]

    @property
    def before(self) -> int | None:
        """The newest round that is not on this page, if there is one."""
        selection = self.estimates.selection
        return selection.first - 1 if selection.left_out else None

    def _link(self, facts: RoundFacts) -> RoundLink:
        name = self.estimates.survey.round_title(facts.round)
        current = self.period is not None and facts.round == self.period.round
        return RoundLink(facts.round, name, facts.reports, current)


def read_page(identifier: str) -> SurveyPage:
    """Read the page that this request asks for. Refused if there is no such survey or round."""
    here, asked = parts(), request.args.get("round")
    published, now = here.catalogue.find(identifier), here.clock.now()
    estimates = stored_estimates(
        here.store,
        published,
        now,
        select_listed(published, now, asked),
        here.estimates,
        MAX_ROWS,
    )
    number = _chosen([*estimates.facts.values()], published.survey.minimum_reports, asked)
    (period,) = (None,) if number is None else estimates.estimated([number])
    events = events_by_round(estimates.header.annotations or ())
    return SurveyPage(PageContext(estimates, period, events, here.known.of(published)), asked)


def outcome_rows(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the number of reports by outcome, described for people."""
    order = [*OUTCOMES, *sorted(counted.keys() - OUTCOMES.keys())]
    return [(OUTCOMES.get(code, code), counted[code]) for code in order if counted.get(code)]


def select_listed(published: PublishedSurvey, now: datetime, asked: str | None) -> RoundSelection:
    """Return the newest rounds, or those up to a few after the one that is asked for."""
    survey = published.survey
    most = min(MAX_LISTED, rounds_in_memory(survey))
    newest = select_rounds(survey, now, max_rounds=most)
    if asked is None or not _NUMBER.fullmatch(asked) or int(asked) in newest:
        return newest
    return select_rounds(survey, now, last=int(asked) + min(MAX_LINKS, most - 1), max_rounds=most)


def _chosen(rounds: Sequence[RoundFacts], minimum: int, asked: str | None) -> int | None:
    """Return the round that is asked for, or the newest with enough reports, or with any."""
    if asked is not None:
        for facts in rounds:
            if str(facts.round) == asked:
                return facts.round
        raise Refused("this survey has no such round, or it has not begun")
    enough = [facts for facts in rounds if facts.reports >= minimum]
    some = [facts for facts in rounds if facts.reports]
    best = enough[-1:] or some[-1:] or rounds[-1:]
    return best[0].round if best else None
