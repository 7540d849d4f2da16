"""Optional details of a round: distributions of numbers, and cross tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from deniable.server.estimation import distribution as estimation
from deniable.server.estimation.crosstab import PairCounts, joint, rates
from deniable.server.estimation.statements import Reading
from deniable.server.planning.display_gate import ExpectedCross, reports_needed
from deniable.server.results.answers import Tallies, too_few
from deniable.server.results.document import Crossed, Distribution, Point, Quantile, Rates, Row
from deniable.server.results.estimate_cache import Counts, EstimateCache, stack, where_enough
from deniable.server.store import RoundTally
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

TIMES = " × "
NO_ONE = "no one seems to have given the other answer"
COUNTS_PER_PAIR = 4  # reports that support both answers, only the first, only the second, neither
ROWS_PER_POINT = 3  # size of a point in the cache, in rows

Pair = tuple[Question, Question]


def distribution_rounds(
    cache: EstimateCache, question: Question, table: NumberTable, rounds: Sequence[Counts]
) -> list[Distribution | None]:
    """Return a number's distribution in each round, or None with too few reports."""

    def make(batch: Sequence[Counts]) -> list[Distribution | None]:
        cells = np.array([counts.cells for counts in batch], np.float64)
        confidence, any_time, _ = batch[0].reading
        earlier = [c.earlier.cells.astype(np.float64) if c.earlier else None for c in batch]
        made = estimation.distributions(table, cells, confidence, any_time, earlier)
        return [_in_units(question, estimated) if estimated else None for estimated in made]

    def rows(made: Distribution | None) -> int:
        return ROWS_PER_POINT * len(made.points) if made else 0

    key, cells = ("distribution", question), table.cells * estimation.MAX_PARTS
    return where_enough(rounds, lambda enough: cache.per_round(key, cells, enough, make, rows))


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
            Quantile(q.level, *(low + span * at for at in (q.estimate, q.low, q.high)))
            for q in made.quantiles
        ),
    )


# Cross tables


def crossed_rounds(
    cache: EstimateCache, survey: Survey, tallies: Tallies, readings: Sequence[Reading]
) -> list[tuple[Crossed, ...]]:
    """Return every cross table of the survey in each round."""
    tables = [_crossed(cache, survey, pair, tallies, readings) for pair in survey.crossed]
    return [tuple(rounds[index] for rounds in tables) for index in range(len(tallies))]


def _crossed(
    cache: EstimateCache,
    survey: Survey,
    pair: Pair,
    tallies: Tallies,
    readings: Sequence[Reading],
) -> list[Crossed]:
    first, second = pair
    labels = [TIMES.join(both) for both in product(first.answer_labels, second.answer_labels)]
    sizes = first.mechanism.cells, second.mechanism.cells
    designs: Any = tuple(question.mechanism for question in pair)  # Any: all are support designs

    def make(batch: Sequence[Counts]) -> list[tuple[np.ndarray[Any, Any], ...]]:
        cells, reports = stack(batch)
        one, other, both = np.split(cells, np.cumsum(sizes), axis=-1)
        crossed = PairCounts.of(designs, (one, other), both.reshape(-1, *sizes), reports)
        made = joint(crossed, batch[0].reading.confidence, batch[0].reading.any_time)
        columns = made.estimate, *made.like, *made.every, made.standard_error, made.consistent
        tables = (
            np.stack(columns, axis=-1),
            _rate_columns(crossed, first, batch[0].reading),
            _rate_columns(crossed.turned, second, batch[0].reading),
        )
        return [tuple(part.copy() for part in parts) for parts in zip(*tables, strict=True)]

    rounds = [
        _pair_counts(survey, pair, tally, reading)
        for tally, reading in zip(tallies, readings, strict=True)
    ]
    key, cells = ("crossed", pair), COUNTS_PER_PAIR * math.prod(sizes)
    known = where_enough(
        rounds,
        lambda enough: cache.per_round(key, cells, enough, make, lambda made: sum(map(len, made))),
    )
    return [
        Crossed(
            questions=(first.name, second.name),
            rows=_crossed_rows(labels, made[0], counts.reports),
            rates=(
                _rates(first, second, made[1], counts.reports),
                _rates(second, first, made[2], counts.reports),
            ),
        )
        if made
        else Crossed(
            questions=(first.name, second.name),
            rows=too_few(survey, ExpectedCross(*pair, counts.reading), labels, counts),
            rates=(),
        )
        for counts, made in zip(rounds, known, strict=True)
    ]


def _rate_columns(counts: PairCounts, question: Question, reading: Reading) -> np.ndarray[Any, Any]:
    """Return the rates of the first question's labels, within each answer to the second."""
    listed = len(question.labels) * counts.other.shape[-1]
    made = rates(counts, listed, reading.confidence, reading.any_time)
    columns = np.stack([made.estimate, *made.like, *made.every], axis=-1)
    by_answer = columns[:, question.first_label :].swapaxes(1, 2)
    return by_answer.reshape(len(columns), listed, columns.shape[-1])


def _rates(question: Question, within: Question, made: np.ndarray[Any, Any], reports: int) -> Rates:
    labels = [TIMES.join(both[::-1]) for both in product(within.answer_labels, question.labels)]
    rows = []
    for label, (rate, *ends) in zip(labels, made.tolist(), strict=True):
        low, high, low_all, high_all = ends
        known, note = (None, NO_ONE) if math.isnan(rate) else (rate, None)
        limits = low, high, None, None, low_all, high_all
        rows.append(Row(label, known, *limits, None, reports, known, note))
    return Rates(question=question.name, within=within.name, rows=tuple(rows))


def _pair_counts(survey: Survey, pair: Pair, tally: RoundTally | None, reading: Reading) -> Counts:
    """Return the cells of each question, and of both together."""
    if tally is None:
        return Counts(np.zeros(0, np.int64), 0, reading, enough=False)
    single = (tally.of(survey, question)[1] for question in pair)
    cells = np.concatenate([*single, tally.crossed(survey, pair).ravel()])
    needed = reports_needed(survey, ExpectedCross(*pair, reading))
    return Counts(cells, tally.reports, reading, tally.reports >= needed)


def _crossed_rows(
    labels: Sequence[str], made: np.ndarray[Any, Any], reports: int
) -> tuple[Row, ...]:
    return tuple(
        Row(label, middle, low, high, None, None, low_all, high_all, error, reports, near, None)
        for label, (middle, low, high, low_all, high_all, error, near) in zip(
            labels, made.tolist(), strict=True
        )
    )
