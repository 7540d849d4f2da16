"""Differences between two rounds of a survey, or between two surveys, with intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.differences import Side, differences, halved, side
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.results.answers import about
from deniable.server.results.document import Change, Comparison, Difference
from deniable.server.results.estimate_cache import (
    Counts,
    EstimateCache,
    batches,
    limits,
    statements,
)
from deniable.server.results.round_selection import is_open
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

SHARED_NOISE = "both rounds contain the same reports, so their difference has no interval"

Rows = tuple[Difference, ...]
PublishedTallies = tuple[PublishedSurvey, Sequence[RoundTally]]


def changes(
    cache: EstimateCache,
    survey: Survey,
    before: Mapping[int, int],
    counts: Callable[[Question, int], Counts],
) -> dict[int, Change]:
    """Return the change of each round since the one before it; `before` maps one to the other."""
    shared = {number for number, since in before.items() if since in survey.span_of(number)}
    pairs = [pair for pair in before.items() if pair[0] not in shared]
    made: dict[int, dict[str, Rows]] = {number: {} for number in before}
    for question in survey.questions:
        now, then = ([counts(question, pair[end]) for pair in pairs] for end in (0, 1))
        rows_by_pair = compared(cache, question, now, question, then)
        for (number, _), rows in zip(pairs, rows_by_pair, strict=True):
            if rows:
                made[number][question.name] = rows
    return {
        number: Change(
            since=since, note=SHARED_NOISE if number in shared else None, questions=made[number]
        )
        for number, since in before.items()
    }


def round_before(number: int, ascending: Sequence[int]) -> int | None:
    """Return the last of these rounds that is earlier than `number`."""
    index = bisect_left(ascending, number)
    return ascending[index - 1] if index else None


def compared(
    cache: EstimateCache,
    question: Question,
    now: Sequence[Counts],
    other: Question,
    then: Sequence[Counts],
) -> list[Rows]:
    """Return the differences of the labels that both questions have, for each pair of rounds.

    Empty where one of the two rounds has no estimate.
    """
    made: list[Rows] = [()] * len(now)
    theirs = set(other.labels)
    labels = [label for label in question.labels if label in theirs]
    if not labels:  # a text has none beforehand
        return made
    enough = [index for index, counts in enumerate(now) if counts.enough and then[index].enough]

    def looks(index: int) -> bool:
        return now[index].looks or then[index].looks

    for batch in batches(enough, looks, question.mechanism.cells):
        later, earlier = (
            _side(cache, asked, [rounds[index] for index in batch], labels, looks(batch[0]))
            for asked, rounds in ((question, now), (other, then))
        )
        found = differences(later, earlier)
        columns = np.stack((found.estimate, *found.like, *found.these), axis=-1)
        made_rows = (tuple(_rows(labels, numbers)) for numbers in columns)
        for index, rows in zip(batch, made_rows, strict=True):
            made[index] = rows
    return made


def comparison(
    this: PublishedTallies,
    other: PublishedTallies,
    now: datetime,
    number: int | None = None,
    cache: EstimateCache | None = None,
) -> Comparison:
    """Compare the newest round of each survey that has enough reports, or round `number` of both.

    Refused where nothing is comparable.
    """
    cache = cache or EstimateCache()
    (published, _), (against, _) = this, other
    sides = tuple((each[0], _round(each, number)) for each in (this, other))
    first, second = (tally for _, tally in sides)
    if published.id == against.id:
        _refuse_shared(published, first.round, second.round)
    theirs = {question.name: question for question in against.survey.questions}
    made = {
        question.name: _compared_surveys(cache, (question, theirs[question.name]), sides, now)
        for question in published.survey.questions
        if question.name in theirs
    }
    known = {name: rows for name, rows in made.items() if rows}
    if not known:
        raise Refused(
            f"{published.name} and {against.name} have no estimates in common: a comparison needs "
            "a question of the same name, kind and unit, and enough reports in both surveys"
        )
    asked = [question for question in published.survey.questions if question.name in known]
    return Comparison(
        survey=published.id,
        name=published.name,
        round=first.round,
        against=against.id,
        against_name=against.name,
        against_round=second.round,
        confidence=CONFIDENCE,
        about={question.name: about(cache, question) for question in asked},
        questions=known,
    )


def _side(
    cache: EstimateCache,
    question: Question,
    rounds: Sequence[Counts],
    labels: Sequence[str],
    looks: bool,
) -> Side:
    half = halved(CONFIDENCE)
    like = limits(cache, question, rounds, half, "like")
    these = limits(cache, question, rounds, half, "these") if looks else None
    made = side(statements(cache, question, rounds), like, these)
    if len(labels) == len(question.labels):
        return made
    indexes = {label: index for index, label in enumerate(question.labels)}
    return made.of([indexes[label] for label in labels])


def _rows(labels: Sequence[str], numbers: npt.NDArray[np.float64]) -> Iterator[Difference]:
    for label, (estimate, low, high, low_these, high_these) in zip(
        labels, numbers.tolist(), strict=True
    ):
        yield Difference(
            label=label,
            estimate=estimate,
            low=low,
            high=high,
            low_these=low_these,
            high_these=high_these,
        )


def _compared_surveys(
    cache: EstimateCache,
    questions: tuple[Question, Question],
    sides: Sequence[tuple[PublishedSurvey, RoundTally]],
    now: datetime,
) -> Rows:
    """Return nothing where the two questions are of different kinds."""
    question, other = questions
    if (question.kind, question.unit) != (other.kind, other.unit):
        return ()
    ours, theirs = (
        Counts.of(published.survey, asked, tally, is_open(published, tally.round, now))
        for asked, (published, tally) in zip(questions, sides, strict=True)
    )
    (rows,) = compared(cache, question, [ours], other, [theirs])
    return rows


def _round(side: PublishedTallies, number: int | None) -> RoundTally:
    published, tallies = side
    minimum = published.survey.minimum_reports
    fitting = [
        tally
        for tally in tallies
        if (tally.reports >= minimum if number is None else tally.round == number)
    ]
    if not fitting:
        which = "with enough reports" if number is None else f"{number} with reports"
        raise Refused(f"survey {published.name!r} has no round {which} to compare")
    return max(fitting, key=lambda tally: tally.round)


def _refuse_shared(published: PublishedSurvey, first: int, second: int) -> None:
    if first == second:
        raise Refused("a round cannot be compared with itself: name two surveys")
    if second in published.survey.span_of(first):
        raise Refused(SHARED_NOISE)
