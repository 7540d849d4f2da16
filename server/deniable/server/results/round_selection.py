"""Selection of the rounds that a response shows: the newest of those asked for, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from deniable.server.results.document import RoundFacts
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.server.surveys.clock import State, state_of
from deniable.shared.survey.document import Survey

MAX_ROUNDS = 400  # in one response: more than a year of days
MAX_ROWS = 50_000  # in one response
MAX_CELLS = 2**21  # read for one response: 16 MB
ROWS_OF_A_TEXT = 100  # found in a round, at a guess
EARLY = timedelta(days=1)  # reports of a round come from an hour before it
STILL_OPEN = (
    "this round still accepts reports: its intervals hold for repeated looks and narrow when the "
    "round ends"
)


@dataclass(frozen=True)
class RoundSelection:
    """The rounds from `first` to `last`; `left_out` earlier ones were asked for as well."""

    first: int
    last: int
    left_out: int = 0

    def stored_range(self, survey: Survey) -> tuple[int | None, int | None]:
        """Return the rounds to read from the store.

        The one before the first is among them: changes need it. Where a survey is small, all rounds
        are read, so that every request notices a tally that damage has moved to another round.
        """
        if survey.rounds <= rounds_per_response(survey):
            return None, None
        return self.first - 1, self.last

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def begun(self, survey: Survey, now: datetime) -> Iterator[int]:
        """Yield the rounds of this selection that have begun."""
        for number in range(self.first, self.last + 1):
            if survey.round_starts(number) > now:
                return
            yield number


def select_rounds(
    survey: Survey,
    now: datetime,
    first: int | None = None,
    last: int | None = None,
    max_rounds: int | None = None,
) -> RoundSelection:
    """Return the newest of the rounds from `first` to `last` that may have reports.

    Select at most `max_rounds`, or as many as fit into one response.
    """
    most = rounds_per_response(survey) if max_rounds is None else max_rounds
    begun = min(survey.last_round, survey.round_of((now + EARLY).date()))
    end = begun if last is None else min(begun, last)
    start = survey.first_round if first is None else max(survey.first_round, first)
    shown = max(start, end - most + 1)
    return RoundSelection(shown, end, shown - start)


def rounds_per_response(survey: Survey) -> int:
    """Return how many rounds fit into MAX_ROWS and MAX_CELLS; one where not even one does."""
    return max(1, min(MAX_ROUNDS, MAX_ROWS // rows_per_round(survey), rounds_in_memory(survey)))


def rounds_in_memory(survey: Survey) -> int:
    """Return how many rounds' tallies may be in memory together."""
    cells = sum(question.mechanism.cells for question in survey.questions)
    cells += sum(one.mechanism.cells * other.mechanism.cells for one, other in survey.crossed)
    return max(1, MAX_CELLS // cells)


def rows_per_round(survey: Survey) -> int:
    crossed = (len(one.answer_labels) * len(other.answer_labels) for one, other in survey.crossed)
    return sum(len(q.labels) or ROWS_OF_A_TEXT for q in survey.questions) + sum(crossed)


def rows_per_question(survey: Survey, max_rows: int) -> dict[str, int]:
    """Return how many rows of each question fit when one round alone is too long.

    The short questions are complete, and the long ones share the rest.
    """
    left, shares = max_rows, dict[str, int]()
    ascending = sorted(survey.questions, key=lambda question: len(question.labels))
    for index, question in enumerate(ascending):
        shares[question.name] = min(len(question.labels), left // (len(ascending) - index))
        left -= shares[question.name]
    return shares


def round_facts(
    published: PublishedSurvey, number: int, tally: RoundTally | None, now: datetime
) -> RoundFacts:
    survey, still_open = published.survey, is_open(published, number, now)
    return RoundFacts(
        round=number,
        first_day=survey.round_starts(number).date().isoformat(),
        last_day=(survey.round_ends(number) - timedelta(days=1)).date().isoformat(),
        open=still_open,
        reports=tally.reports if tally else 0,
        note=STILL_OPEN if still_open else None,
    )


def is_open(published: PublishedSurvey, number: int, now: datetime) -> bool:
    """Return whether the round still accepts reports."""
    return not published.closed and now < published.survey.taken_until(number)


def state_at(published: PublishedSurvey, now: datetime) -> State:
    survey = published.survey
    return state_of(published.closed, survey.calendar, survey.opens, survey.closes, now)
