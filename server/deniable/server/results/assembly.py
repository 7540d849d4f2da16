"""From a survey and its tallies to its results.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import UNSET

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.questions import METHODS, estimates
from deniable.server.results.document import (
    About,
    QuestionResult,
    Results,
    Round,
    RoundFacts,
    Row,
    State,
)
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.shuffled import shuffled
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question

NOT_YET_FINAL = (
    "reports of this round are still taken: its intervals are not valid for repeated looks"
)
NOTES = (
    "Estimates and intervals are about the people who reported, not about those who did not.",
    f"Each interval by itself holds the truth in {CONFIDENCE:.0%} of cases, at one look.",
    "Estimates are unbiased and never clipped: `consistent` is the nearest that is possible.",
    "`leverage` is how many honest answers one forged report can be worth.",
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


def survey_results(
    published: PublishedSurvey,
    tallies: Iterable[RoundTally],
    now: datetime,
    round: int | None = None,  # noqa: A002 - the protocol's word
) -> Results:
    """Every round that has begun or has reports, or the one that is asked for."""
    survey = published.survey
    kept = {tally.round: tally for tally in tallies}
    numbers = _numbers(survey, kept, now)
    if round is not None:
        numbers = [_known(round, numbers, survey)]
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
        notes=notes(survey),
        rounds=tuple(_round(published, number, kept.get(number), now) for number in numbers),
    )


def rounds_so_far(
    published: PublishedSurvey, tallies: Sequence[RoundTally], now: datetime
) -> list[RoundFacts]:
    """The same rounds without their estimates."""
    kept = {tally.round: tally for tally in tallies}
    numbers = _numbers(published.survey, kept, now)
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
        method=METHODS[question.statistic],
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
    return (*NOTES, *one, *kept)


def _numbers(survey: Survey, kept: Mapping[int, RoundTally], now: datetime) -> list[int]:
    return sorted(kept.keys() | set(_begun(survey, now)))


def _begun(survey: Survey, now: datetime) -> Iterator[int]:
    for number in range(survey.first_round, survey.last_round + 1):
        if survey.round_starts(number) > now:
            return
        yield number


def _known(number: int, numbers: Sequence[int], survey: Survey) -> int:
    if number in numbers:
        return number
    begun = f"its rounds so far are {numbers[0]} to {numbers[-1]}" if numbers else "none has begun"
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
        questions={q.name: _rows(survey, q, tally) for q in survey.questions},
        shuffled=shuffled(survey, facts.reports) or UNSET,
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
        return tuple(_row(estimate) for estimate in estimates(question, cells, reports))
    note = f"no estimate below {survey.minimum_reports:,} reports"
    return tuple(_unknown(label, reports, note) for label in question.labels)


def _row(estimate: Estimate) -> Row:
    return Row(
        label=estimate.label,
        estimate=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
        standard_error=estimate.standard_error,
        reports=estimate.reports,
        consistent=estimate.consistent,
        note=None,
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
