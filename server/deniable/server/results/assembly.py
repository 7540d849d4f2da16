"""From a survey and its tallies to its results.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

from msgspec import UNSET

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.questions import METHODS, estimates
from deniable.server.estimation.texts import FALSE_DISCOVERY
from deniable.server.results.document import (
    About,
    Floor,
    QuestionResult,
    Results,
    Round,
    RoundFacts,
    Row,
    State,
)
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.remembered import Remembered
from deniable.server.results.window import AHEAD, Window, window
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question, Text

NOT_YET_FINAL = (
    "reports of this round are still taken: its intervals are not valid for repeated looks"
)
NOTES = (
    "Estimates and intervals are about the people who reported, not about those who did not.",
    f"Each interval by itself holds the truth in {CONFIDENCE:.0%} of cases, at one look.",
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
        "The probability that any text is listed which nobody reported is at most "
        f"{FALSE_DISCOVERY:.0%} in a round, if no report is forged; its `note` has its p-value."
    ),
)
ONE_OF = (
    (
        "Each install was asked one of the {0} questions, drawn at random: the estimates of a "
        "question come from those who were asked it, and are about all who reported."
    ),
    (
        "A forger chooses the question: against all who reported, of whom one in {0} answered it, "
        "a forged report weighs {0} times its `leverage`."
    ),
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
        rounds=tuple(
            _REMEMBERED.round(_round, published, number, kept.get(number), now)
            for number in numbers
        ),
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


def question_result(survey: Survey, question: Question, tally: RoundTally | None) -> QuestionResult:
    """One question in one round; `tally` is None where the round has no report."""
    return QuestionResult(question.name, about(question), _rows(survey, question, tally))


def state_at(published: PublishedSurvey, now: datetime) -> State:
    """Waiting for its first day, open, or closed: by the operator, or because its days are over."""
    survey = published.survey
    if published.closed or now >= survey.round_ends(survey.last_round):
        return "closed"
    return "open" if now >= survey.round_starts(survey.first_round) else "waiting"


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
    )


def notes(survey: Survey) -> tuple[str, ...]:
    """How its results are read."""
    one = (note.format(len(survey.questions)) for note in ONE_OF if survey.asks_one)
    kept = (note.format(survey.repeat_rounds) for note in LATCHED if survey.repeats)
    texts = TEXTS if any(map(_is_open, survey.questions)) else ()
    return (*NOTES, *texts, *one, *kept)


def floors(survey: Survey, tally: RoundTally | None) -> dict[str, Floor]:
    """Of each text question of a round that has enough reports."""
    asked = [question for question in survey.questions if _is_open(question)]
    counted = {question: tally.of(survey, question)[0] for question in asked if tally}
    return {
        question.name: _floor(question.mechanism.floor(reports), reports)
        for question, reports in counted.items()
        if reports >= survey.minimum_reports
    }


def _floor(share: float, reports: int) -> Floor:
    return Floor(share=share, people=math.ceil(share * reports), false_discovery=FALSE_DISCOVERY)


def _is_open(question: Question) -> TypeGuard[Text]:
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
    published: PublishedSurvey, number: int, tally: RoundTally | None, now: datetime
) -> Round:
    facts, survey = _facts(published, number, tally, now), published.survey
    fits = round_fits(survey, tally)
    return Round(
        round=facts.round,
        first_day=facts.first_day,
        last_day=facts.last_day,
        open=facts.open,
        reports=facts.reports,
        note=facts.note,
        warning=warning(survey, tally, fits),
        fit=fits,
        floors=floors(survey, tally) or UNSET,
        questions={q.name: _rows(survey, q, tally) for q in survey.questions},
    )


def _facts(
    published: PublishedSurvey, number: int, tally: RoundTally | None, now: datetime
) -> RoundFacts:
    survey = published.survey
    is_open = not published.closed and now < survey.taken_until(number)
    return RoundFacts(
        round=number,
        first_day=survey.round_starts(number).date().isoformat(),
        last_day=(survey.round_ends(number) - timedelta(days=1)).date().isoformat(),
        open=is_open,
        reports=tally.reports if tally else 0,
        note=NOT_YET_FINAL if is_open else None,
    )


def _rows(survey: Survey, question: Question, tally: RoundTally | None) -> tuple[Row, ...]:
    reports, cells = tally.of(survey, question) if tally else (0, None)
    if cells is not None and reports >= survey.minimum_reports:
        found = estimates(question, cells, reports)
        return tuple(map(_row, found)) or (_unknown("", reports, NOTHING_FOUND),)
    note = f"no estimate below {survey.minimum_reports:,} reports"
    return tuple(_unknown(label, reports, note) for label in question.labels or ("",))


def _row(estimate: Estimate) -> Row:
    return Row(
        label=estimate.label,
        estimate=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
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
        standard_error=None,
        reports=reports,
        consistent=None,
        note=note,
    )
