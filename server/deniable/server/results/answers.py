"""Results of each question in each round: rows, distributions, cross tables.

Where a round has fewer reports than the survey's `minimum_reports`, its rows hold no estimate and
say so.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import product, repeat
from typing import Any

import numpy as np

from deniable.server.estimation import distribution as estimation
from deniable.server.estimation.crosstab import Joint, Pair, joint
from deniable.server.estimation.estimate import Estimate
from deniable.server.estimation.estimators import estimates, estimator
from deniable.server.estimation.statements import Statements
from deniable.server.estimation.text_estimates import FALSE_DISCOVERY
from deniable.server.results.document import (
    About,
    Crossed,
    Distribution,
    Floor,
    Point,
    Quantile,
    QuestionResult,
    Row,
    WholeVector,
)
from deniable.server.results.estimate_cache import (
    Counts,
    EstimateCache,
    batches,
    per_round,
    statements,
)
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

TIMES = " × "
NOTHING_FOUND = "no answer is common enough to be found"
COUNTS_PER_PAIR = 4  # both answers, either one, neither
ROWS_PER_POINT, ROWS_PER_TEXT = 3, 4  # what objects take of the cache

Answer = tuple[tuple[Row, ...], float | None, int]  # the rows, the floor, rows left out
Tallies = Sequence[RoundTally | None]


def about(cache: EstimateCache, question: Question) -> About:
    """Return the facts of a question that are the same in every round."""
    return cache.get([("about", question)], lambda _: [_about(question)], lambda _: 1)[0]


def _about(question: Question) -> About:
    return About(
        kind=question.kind,
        epsilon=str(question.epsilon),
        mechanism=question.mechanism.name,
        leverage=question.mechanism.leverage,
        method=estimator(question).method,
        statistic=question.statistic,
        unit=question.unit,
        range=question.range,
        **question.facts(),
    )


def question_rounds(
    cache: EstimateCache,
    survey: Survey,
    question: Question,
    rounds: Sequence[Counts],
    max_rows: int | None = None,
) -> list[QuestionResult]:
    """Return one question's result in each round, with at most `max_rows` rows each."""
    facts, enough = about(cache, question), [counts for counts in rounds if counts.enough]
    if question.labels:
        known = _labelled(cache, question, enough, max_rows)
    else:
        known = _found(cache, question, enough)
    return [
        _result(survey, question, facts, counts, next(known) if counts.enough else None)
        for counts in rounds
    ]


def floors(survey: Survey, tally: RoundTally | None) -> dict[str, Floor]:
    """Return the floor of each text question of a round that has enough reports."""
    asked = [question for question in survey.questions if not question.labels]
    reports = {question: tally.of(survey, question)[0] for question in asked if tally}
    return {
        question.name: _floor(share, count)
        for question, count in reports.items()
        if count >= survey.minimum_reports
        and (share := question.mechanism.floor(count)) is not None
    }


# Rows


def _result(
    survey: Survey, question: Question, facts: About, counts: Counts, answer: Answer | None
) -> QuestionResult:
    if answer is None:
        rows = _without_estimate(question.labels or ("",), counts.reports, _too_few(survey))
        return QuestionResult(question.name, facts, rows, None)
    rows, floor, left_out = answer
    return QuestionResult(question.name, facts, rows, floor, _whole(question, counts), left_out)


def _labelled(
    cache: EstimateCache, question: Question, rounds: Sequence[Counts], max_rows: int | None
) -> Iterator[Answer]:
    found = statements(cache, question, rounds)
    for made, counts in zip(found, rounds, strict=True):
        floor = None if math.isnan(made.floor) else float(made.floor)
        rows = map(Row, *_columns(question.labels, made, counts.reports, max_rows))
        listed = tuple(rows)
        yield listed, floor, len(question.labels) - len(listed)


def _columns(
    labels: Sequence[str], made: Statements, reports: int, max_rows: int | None
) -> Iterator[Any]:  # Any: a column of any type
    """Yield the columns of the rows, in the order of a row's fields.

    Beyond `max_rows` the labels with the lowest estimates are left out.
    """
    arrays: tuple[Any, ...] = (
        *(made.estimate, *made.like, *made.these, *made.every),
        *(made.standard_error, made.consistent),
    )
    if max_rows is not None and len(labels) > max_rows:
        kept = np.sort(np.argsort(-made.estimate, kind="stable")[:max_rows])
        labels, arrays = [labels[index] for index in kept], tuple(array[kept] for array in arrays)
    *numbers, standard_error, consistent = (array.tolist() for array in arrays)
    yield labels
    yield from numbers
    yield from (standard_error, repeat(reports), consistent, repeat(None))


def _found(cache: EstimateCache, question: Question, rounds: Sequence[Counts]) -> Iterator[Answer]:
    """Return the texts that stand out. They have no labels beforehand."""
    listed = per_round(
        cache,
        "texts",
        question,
        rounds,
        lambda batch: [estimates(question, counts.cells, counts.reports) for counts in batch],
        lambda made: ROWS_PER_TEXT * len(made),
    )
    for texts, counts in zip(listed, rounds, strict=True):
        rows = tuple(map(_text_row, texts))
        yield rows or _without_estimate(("",), counts.reports, NOTHING_FOUND), None, 0


def _text_row(text: Estimate) -> Row:
    """The interval allows for the selection.

    It holds for exactly these respondents as well, for whom less is random; not all of a question's
    intervals hold jointly.
    """
    low, high, error = text.low, text.high, text.standard_error
    ends = low, high, low, high, None, None
    return Row(text.label, text.estimate, *ends, error, text.reports, text.consistent, text.note)


def _without_estimate(labels: Sequence[str], reports: int, note: str) -> tuple[Row, ...]:
    unknown = repeat(None)
    return tuple(map(Row, labels, *[unknown] * 8, repeat(reports), unknown, repeat(note)))


def _too_few(survey: Survey) -> str:
    return f"no estimate below {survey.minimum_reports:,} reports"


def _floor(share: float, reports: int) -> Floor:
    return Floor(share=share, people=math.ceil(share * reports), false_discovery=FALSE_DISCOVERY)


def _whole(question: Question, counts: Counts) -> WholeVector | None:
    made = estimator(question).whole(question, counts.cells, counts.reports)
    return None if made is None else WholeVector(length=made.length, error=made.error)


# Distributions of numbers


def distribution_rounds(
    cache: EstimateCache, question: Question, rounds: Sequence[Counts]
) -> list[Distribution | None]:
    """Return the distribution of a number in each round; None where reports are too few."""
    table = estimator(question).table(question)
    if table is None:
        return [None] * len(rounds)

    def make(batch: Sequence[Counts]) -> list[Distribution | None]:
        cells = np.array([counts.cells for counts in batch], np.float64)
        made = estimation.distributions(table, cells, looks=batch[0].looks)
        return [_in_units(question, each) if each else None for each in made]

    enough = [counts for counts in rounds if counts.enough]
    parts = table.cells * estimation.MAX_PARTS
    known = iter(per_round(cache, "distribution", question, enough, make, _points, parts))
    return [next(known) if counts.enough else None for counts in rounds]


def _points(made: Distribution | None) -> int:
    return ROWS_PER_POINT * len(made.points) if made else 0


def _in_units(question: Question, made: estimation.Distribution) -> Distribution:
    low, span = float(question.range[0]), question.span
    columns = (
        *(made.share, *made.share_interval, made.share_consistent),
        *(made.below, *made.below_interval, made.below_consistent),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Distribution(
        points=tuple(
            Point(low + span * (number / made.parts), *row) for number, row in enumerate(rows)
        ),
        quantiles=tuple(
            Quantile(each.level, *(low + span * at for at in (each.estimate, each.low, each.high)))
            for each in made.quantiles
        ),
    )


# Cross tables


def crossed_rounds(
    cache: EstimateCache, survey: Survey, tallies: Tallies, looks: Sequence[bool]
) -> list[tuple[Crossed, ...]]:
    """Return every cross table of the survey in each round; `looks` is true for open rounds."""
    tables = [_crossed(cache, survey, pair, tallies, looks) for pair in survey.crossed]
    return [tuple(rounds[index] for rounds in tables) for index in range(len(tallies))]


def _crossed(
    cache: EstimateCache,
    survey: Survey,
    pair: tuple[Question, Question],
    tallies: Tallies,
    looks: Sequence[bool],
) -> list[Crossed]:
    first, second = pair
    labels = [TIMES.join(both) for both in product(first.answer_labels, second.answer_labels)]
    enough = {
        index: tally
        for index, tally in enumerate(tallies)
        if tally is not None and tally.reports >= survey.minimum_reports
    }
    cells = COUNTS_PER_PAIR * first.mechanism.cells * second.mechanism.cells
    rows: dict[int, tuple[Row, ...]] = {}
    for batch in batches(enough, looks.__getitem__, cells):
        members = [enough[index] for index in batch]
        made = _joint(cache, survey, pair, members, looks[batch[0]])
        for index, tally, each in zip(batch, members, made, strict=True):
            rows[index] = _crossed_rows(labels, each, tally.reports)
    for index in range(len(tallies)):
        if index not in enough:
            tally_or_none = tallies[index]
            reports = tally_or_none.reports if tally_or_none else 0
            rows[index] = _without_estimate(labels, reports, _too_few(survey))
    names = first.name, second.name
    return [Crossed(questions=names, rows=rows[index]) for index in range(len(tallies))]


def _joint(
    cache: EstimateCache,
    survey: Survey,
    pair: tuple[Question, Question],
    tallies: Sequence[RoundTally],
    looks: bool,
) -> list[np.ndarray[Any, Any]]:
    """Return a row's numbers for each pair of answers, per round, from the cache where possible."""

    def key(tally: RoundTally) -> Hashable:
        counts = (Counts.of(survey, question, tally, looks).key for question in pair)
        return "crossed", pair, *counts, tally.crossed(survey, pair).tobytes()

    def make(missing: list[int]) -> list[np.ndarray[Any, Any]]:
        made: Joint = joint(_pair(survey, pair, [tallies[index] for index in missing]), looks=looks)
        columns = made.estimate, *made.like, *made.every, made.standard_error, made.consistent
        return [each.copy() for each in np.stack(columns, axis=-1)]

    return cache.get([key(tally) for tally in tallies], make, len)


def _pair(survey: Survey, pair: tuple[Question, Question], tallies: Sequence[RoundTally]) -> Pair:
    first, second = (
        np.stack([tally.of(survey, question)[1] for tally in tallies]) for question in pair
    )
    both = np.stack([tally.crossed(survey, pair) for tally in tallies])
    reports = np.array([tally.reports for tally in tallies])
    designs: Any = tuple(question.mechanism for question in pair)  # a survey crosses no others
    return Pair.of(designs, (first, second), both, reports)


def _crossed_rows(
    labels: Sequence[str], made: np.ndarray[Any, Any], reports: int
) -> tuple[Row, ...]:
    """Cross tables have no interval for exactly the respondents."""
    return tuple(
        Row(label, middle, low, high, None, None, low_all, high_all, error, reports, near, None)
        for label, (middle, low, high, low_all, high_all, error, near) in zip(
            labels, made.tolist(), strict=True
        )
    )
