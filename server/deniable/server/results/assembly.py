"""From a survey and its tallies to its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.results.annotating import happened
from deniable.server.results.answers import about
from deniable.server.results.document import Results, RoundFacts
from deniable.server.results.notes import notes
from deniable.server.results.remembered import Remembered
from deniable.server.results.rounds import round_facts, rounds
from deniable.server.results.window import AHEAD, Window, window
from deniable.server.store import Annotation, PublishedSurvey, RoundTally
from deniable.server.surveys.clock import State, state_of
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey

_REMEMBERED = Remembered()


def survey_results(
    published: PublishedSurvey,
    tallies: Iterable[RoundTally],
    now: datetime,
    round: int | None = None,  # noqa: A002 - the protocol's word
    shown: Window | None = None,
    annotations: Sequence[Annotation] = (),
) -> Results:
    """Every round that has begun or has reports, those that are shown, or the one asked for."""
    survey = published.survey
    kept = {tally.round: tally for tally in tallies}
    numbers = _numbers(survey, kept, now, shown)
    if round is not None:
        numbers = [_known(round, numbers, survey, now)]
    return Results(
        survey=published.id,
        name=survey.name,
        title=survey.title,
        state=state_at(published, now),
        epsilon=survey.round_epsilon,
        lifetime_epsilon=survey.lifetime_epsilon,
        period=survey.period,
        minimum_reports=survey.minimum_reports,
        confidence=CONFIDENCE,
        about={question.name: about(question) for question in survey.questions},
        ask=1 if survey.asks_one else UNSET,
        repeat_rounds=survey.repeat_rounds if survey.repeats else UNSET,
        left_out=shown.left_out if shown and shown.left_out else UNSET,
        notes=notes(survey),
        annotations=happened(survey, annotations) or UNSET,
        rounds=tuple(_REMEMBERED.rounds(rounds, published, numbers, kept, now)),
    )


def rounds_so_far(
    published: PublishedSurvey,
    tallies: Sequence[RoundTally],
    now: datetime,
    shown: Window | None = None,
) -> list[RoundFacts]:
    """The same rounds without their estimates."""
    kept = {tally.round: tally for tally in tallies}
    numbers = _numbers(published.survey, kept, now, shown)
    return [round_facts(published, number, kept.get(number), now) for number in numbers]


def state_at(published: PublishedSurvey, now: datetime) -> State:
    survey = published.survey
    return state_of(published.closed, survey.calendar, survey.opens, survey.closes, now)


def _numbers(
    survey: Survey, kept: Mapping[int, RoundTally], now: datetime, shown: Window | None
) -> list[int]:
    within = shown or Window(survey.first_round, survey.last_round)
    inside = {number for number in kept if number in within}
    return sorted(inside | set(_begun(survey, now, within)))


def _begun(survey: Survey, now: datetime, within: Window) -> Iterator[int]:
    for number in range(within.first, within.last + 1):
        if survey.round_starts(number) > now:
            return
        yield number


def _known(number: int, numbers: Sequence[int], survey: Survey, now: datetime) -> int:
    if number in numbers:
        return number
    first, last = survey.first_round, window(survey, now - AHEAD).last
    begun = f"its rounds so far are {first} to {last}" if first <= last else "none has begun"
    raise Refused(f"survey {survey.name!r} has no round {number} yet; {begun}")
