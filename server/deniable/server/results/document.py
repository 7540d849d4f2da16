"""The results of a survey as one document: what the JSON, the CSV, the pages and the command show.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say why. Whatever is not known is null, never not-a-number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.questions import METHODS, estimates
from deniable.server.store import Cells, PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Choice, Number, Question

Document = dict[str, Any]  # JSON: values of several types

NOT_YET_FINAL = (
    "reports of this round are still taken: its intervals are not valid for repeated looks"
)
NOTES = (
    "Estimates and intervals are about the people who reported, not about those who did not.",
    f"Each interval by itself holds the truth in {CONFIDENCE:.0%} of cases, at one look.",
    "Estimates are unbiased and never clipped: `consistent` is the nearest that is possible.",
    "`leverage` is how many honest answers one forged report can be worth.",
)


def survey_results(
    published: PublishedSurvey,
    tallies: Sequence[RoundTally],
    now: datetime,
    round: int | None = None,  # noqa: A002 - the protocol's word
) -> Document:
    """Every round that has begun or has reports, or the one that is asked for."""
    survey = published.survey
    kept = {tally.round: tally for tally in tallies}
    numbers = sorted(kept.keys() | set(_begun(survey, now)))
    if round is not None:
        numbers = [_known(round, numbers, survey)]
    return {
        "survey": published.id,
        "name": survey.name,
        "title": survey.title,
        "state": state_at(published, now),
        "epsilon": survey.round_epsilon,
        "lifetime_epsilon": survey.lifetime_epsilon,
        "period": survey.period,
        "minimum_reports": survey.minimum_reports,
        "confidence": CONFIDENCE,
        "about": {question.name: question_facts(question) for question in survey.questions},
        "notes": list(NOTES),
        "rounds": [
            round_facts(published, number, kept.get(number), now)
            | {"questions": _questions(survey, kept.get(number))}
            for number in numbers
        ],
    }


def rounds_so_far(
    published: PublishedSurvey, tallies: Sequence[RoundTally], now: datetime
) -> list[Document]:
    """The same rounds without their estimates."""
    kept = {tally.round: tally for tally in tallies}
    numbers = sorted(kept.keys() | set(_begun(published.survey, now)))
    return [round_facts(published, number, kept.get(number), now) for number in numbers]


def question_rows(survey: Survey, question: Question, tally: RoundTally | None) -> list[Document]:
    """One question in one round."""
    reports = tally.reports if tally else 0
    if tally is not None and reports >= survey.minimum_reports:
        cells = _cells(survey, question, tally)
        return [_row(estimate) for estimate in estimates(question, cells, reports)]
    note = f"no estimate below {survey.minimum_reports:,} reports"
    unknown = dict.fromkeys(("estimate", "low", "high", "standard_error"))
    return [
        {"label": label, **unknown, "reports": reports, "consistent": None, "note": note}
        for label in question.labels
    ]


def _begun(survey: Survey, now: datetime) -> Iterator[int]:
    for number in range(survey.first_round, survey.last_round + 1):
        if survey.round_starts(number) > now:
            return
        yield number


def _known(number: int, numbers: list[int], survey: Survey) -> int:
    if number in numbers:
        return number
    begun = f"its rounds so far are {numbers[0]} to {numbers[-1]}" if numbers else "none has begun"
    raise Refused(f"survey {survey.name!r} has no round {number} yet; {begun}")


def state_at(published: PublishedSurvey, now: datetime) -> str:
    """Waiting for its first day, open, or closed: by the operator, or because its days are over."""
    survey = published.survey
    if published.closed or now >= survey.round_ends(survey.last_round):
        return "closed"
    return "open" if now >= survey.round_starts(survey.first_round) else "waiting"


def question_facts(question: Question) -> Document:
    facts: Document = {
        "kind": question.kind,
        "epsilon": str(question.epsilon),
        "mechanism": question.mechanism.name,
        "leverage": question.mechanism.leverage,
        "method": METHODS[question.statistic],
    }
    if isinstance(question, Number):
        facts |= {"low": question.low, "high": question.high}
    if isinstance(question, Choice):
        facts |= {"options": len(question.options)}
    return facts


def round_facts(
    published: PublishedSurvey, number: int, tally: RoundTally | None, now: datetime
) -> Document:
    survey = published.survey
    is_open = not published.closed and now < survey.taken_until(number)
    return {
        "round": number,
        "from": survey.round_starts(number).date().isoformat(),
        "until": (survey.round_ends(number) - timedelta(days=1)).date().isoformat(),
        "open": is_open,
        "reports": tally.reports if tally else 0,
        "note": NOT_YET_FINAL if is_open else None,
    }


def _questions(survey: Survey, tally: RoundTally | None) -> Document:
    return {q.name: question_rows(survey, q, tally) for q in survey.questions}


def _cells(survey: Survey, question: Question, tally: RoundTally) -> Cells:
    """A tally keeps the questions' cells one after another."""
    before = survey.questions[: survey.questions.index(question)]
    first = sum(other.mechanism.cells for other in before)
    return tally.cells[first : first + question.mechanism.cells]


def _row(estimate: Estimate) -> Document:
    return {
        "label": estimate.label,
        "estimate": estimate.estimate,
        "low": estimate.low,
        "high": estimate.high,
        "standard_error": estimate.standard_error,
        "reports": estimate.reports,
        "consistent": estimate.consistent,
        "note": None,
    }
