"""From a survey and its tallies to its results.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import TypeGuard

from msgspec import UNSET

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.questions import METHODS, estimates
from deniable.server.estimation.statements import Statements
from deniable.server.estimation.texts import FALSE_DISCOVERY
from deniable.server.estimation.vectors import whole
from deniable.server.results.annotating import happened
from deniable.server.results.change import change
from deniable.server.results.crossing import crossings
from deniable.server.results.distributions import round_distributions
from deniable.server.results.document import (
    About,
    Floor,
    QuestionResult,
    Results,
    Round,
    RoundFacts,
    Row,
    WholeVector,
)
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.remembered import Remembered
from deniable.server.results.said import said
from deniable.server.results.shuffled import shuffled
from deniable.server.results.window import AHEAD, Window, window
from deniable.server.store import Annotation, PublishedSurvey, RoundTally
from deniable.server.surveys.state import State, state_of
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question, Text, Vector

STILL_OPEN = (
    "reports of this round are still taken: its intervals are valid for repeated looks, and get "
    "narrower when it ends"
)
NOTES = (
    "Estimates and intervals are about the people who reported, not about those who did not.",
    (
        f"Each interval by itself holds the truth in {CONFIDENCE:.0%} of cases: at one look once "
        "its round is closed, and at all looks together while it is open."
    ),
    (
        "`low` to `high` is about people like these, drawn at random; `low_these` to `high_these` "
        "about these very people, for whom only the noise is drawn."
    ),
    (
        f"All of a question's intervals from `low_all` to `high_all` hold at once in "
        f"{CONFIDENCE:.0%} of cases: take these for the highest of a list. What is below `floor` "
        "is not told from 0."
    ),
    (
        "A `change` since an earlier round holds however many people are in both; its `low_these` "
        "and `high_these` are about these very people."
    ),
    "Estimates are unbiased and never clipped: `consistent` is the nearest that is possible.",
    "`leverage` is how many honest answers one forged report can be worth.",
)
NOTHING_FOUND = "no text stands out"
TEXTS = (
    (
        "Of a text question those answers are listed that stand out, as people wrote them: "
        "`floors` says from how many people on a text is found."
    ),
    (
        "Unlike others, its intervals and the probabilities of what is listed are for one look, "
        "also while a round is open."
    ),
    (
        "The probability that any text is listed which nobody reported is at most "
        f"{FALSE_DISCOVERY:.0%} at one look at a round, if no report is forged; its `note` has "
        "its p-value."
    ),
)
VECTORS = (
    (
        "How often a vector's intervals hold, at one look and at all looks, is measured and not "
        "proved."
    ),
)
ONE_OF = (
    (
        "Each install was asked one of the {0} questions, drawn at random: the estimates of a "
        "question come from those who were asked it, and are about all who reported."
    ),
    ("`low_these` and `high_these` are about those who were asked the question, and no others."),
    (
        "A forger chooses the question: against all who reported, of whom one in {0} answered it, "
        "a forged report weighs {0} times its `leverage`."
    ),
)

CROSSED = (
    "`cross` says how many hold two answers at once: from the same reports, so it adds no ε.",
)
LATCHED = (
    (
        "Each install sends one report for {0} rounds at a time: it says what was answered first "
        "among them, and a change shows in the next {0} at the earliest."
    ),
    (
        "Such rounds share their noise: they are not independent, so neither average them nor "
        "judge a difference between them by their intervals."
    ),
)


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
        rounds=tuple(_REMEMBERED.round(_round, published, number, kept, now) for number in numbers),
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
    return [_facts(published, number, kept.get(number), now) for number in numbers]


def question_result(
    survey: Survey, question: Question, tally: RoundTally | None, looks: bool
) -> QuestionResult:
    """One question in one round; `tally` is None where the round has no report, and `looks` says
    that it is open."""
    rows, floor = _answer(survey, question, tally, looks)
    whole_vector = _whole(survey, question, tally)
    return QuestionResult(question.name, about(question), rows, floor, whole_vector)


def state_at(published: PublishedSurvey, now: datetime) -> State:
    survey = published.survey
    return state_of(published.closed, survey.calendar, survey.opens, survey.closes, now)


def is_open(published: PublishedSurvey, number: int, now: datetime) -> bool:
    """Whether reports of this round are still taken."""
    return not published.closed and now < published.survey.taken_until(number)


def about(question: Question) -> About:
    fields = question.fields()
    return About(
        kind=question.kind,
        epsilon=str(question.epsilon),
        mechanism=question.mechanism.name,
        leverage=question.mechanism.leverage,
        method=METHODS[question.kind],
        statistic=question.statistic,
        unit=question.unit,
        range=question.range,
        low=fields.get("low", UNSET),
        high=fields.get("high", UNSET),
        options=len(fields["options"]) if "options" in fields else UNSET,
        dimension=fields.get("dimension", UNSET),
        gain=question.mechanism.gain if isinstance(question, Vector) else UNSET,
    )


def notes(survey: Survey) -> tuple[str, ...]:
    """How its results are read."""
    one = (note.format(len(survey.questions)) for note in ONE_OF if survey.asks_one)
    kept = (note.format(survey.repeat_rounds) for note in LATCHED if survey.repeats)
    texts = TEXTS if any(map(_is_text, survey.questions)) else ()
    vectors = VECTORS if any(isinstance(q, Vector) for q in survey.questions) else ()
    return (*NOTES, *texts, *vectors, *one, *kept, *(CROSSED if survey.cross else ()))


def floors(survey: Survey, tally: RoundTally | None) -> dict[str, Floor]:
    """Of each text question of a round that has enough reports."""
    asked = [question for question in survey.questions if _is_text(question)]
    counted = {question: tally.of(survey, question)[0] for question in asked if tally}
    return {
        question.name: _floor(question.mechanism.floor(reports), reports)
        for question, reports in counted.items()
        if reports >= survey.minimum_reports
    }


def _floor(share: float, reports: int) -> Floor:
    return Floor(share=share, people=math.ceil(share * reports), false_discovery=FALSE_DISCOVERY)


def _is_text(question: Question) -> TypeGuard[Text]:
    """Whether what its estimates are of is found in the reports."""
    return isinstance(question, Text)


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


def _round(
    published: PublishedSurvey, number: int, kept: Mapping[int, RoundTally], now: datetime
) -> Round:
    tally, survey = kept.get(number), published.survey
    facts = _facts(published, number, tally, now)
    fits = round_fits(survey, tally)
    answers = {q.name: _answer(survey, q, tally, facts.open) for q in survey.questions}
    return Round(
        round=facts.round,
        first_day=facts.first_day,
        last_day=facts.last_day,
        open=facts.open,
        reports=facts.reports,
        note=facts.note,
        warning=warning(survey, tally, fits),
        fit=fits,
        floor={name: floor for name, (_, floor) in answers.items()},
        questions={name: rows for name, (rows, _) in answers.items()},
        distributions=round_distributions(survey, tally, facts.open) or UNSET,
        cross=crossings(survey, tally, facts.open) or UNSET,
        change=change(survey, number, kept, lambda each: is_open(published, each, now)),
        shuffled=shuffled(survey, facts.reports) or UNSET,
        vectors=_wholes(survey, tally) or UNSET,
        floors=floors(survey, tally) or UNSET,
    )


def _facts(
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


def _answer(
    survey: Survey, question: Question, tally: RoundTally | None, looks: bool
) -> tuple[tuple[Row, ...], float | None]:
    """The rows of a question, and its floor."""
    reports, cells = tally.of(survey, question) if tally else (0, None)
    if cells is not None and reports >= survey.minimum_reports:
        if isinstance(question, Text):
            listed = tuple(map(_found_row, estimates(question, cells, reports)))
            return listed or (_unknown("", reports, NOTHING_FOUND),), None
        found = said(question, cells, reports, looks=looks)
        return tuple(_known_rows(question.labels, found, reports)), found.floor
    note = f"no estimate below {survey.minimum_reports:,} reports"
    return tuple(_unknown(label, reports, note) for label in question.labels or ("",)), None


def _wholes(survey: Survey, tally: RoundTally | None) -> dict[str, WholeVector]:
    found = ((question.name, _whole(survey, question, tally)) for question in survey.questions)
    return {name: vector for name, vector in found if vector}


def _whole(survey: Survey, question: Question, tally: RoundTally | None) -> WholeVector | None:
    """None where it is no vector, or has no estimate."""
    if not isinstance(question, Vector) or tally is None:
        return None
    reports, cells = tally.of(survey, question)
    if reports < max(2, survey.minimum_reports):
        return None
    found = whole(cells, reports, question.mechanism)
    return WholeVector(length=found.length, error=found.error)


def _known_rows(labels: Sequence[str], found: Statements, reports: int) -> Iterator[Row]:
    """In the order of a row's fields."""
    intervals = (end for each in (found.like, found.these, found.every) for end in each)
    columns = (found.estimate, *intervals, found.standard_error)
    return map(
        Row,
        labels,
        *(column.tolist() for column in columns),
        repeat(reports),
        found.consistent.tolist(),
        repeat(None),
    )


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
