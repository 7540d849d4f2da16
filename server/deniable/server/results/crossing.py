"""Two questions at once in the results: a row for each two answers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product

import numpy as np

from deniable.server.estimation.crossed import Joint, Pair, joint
from deniable.server.results.answers import too_few, without_estimate
from deniable.server.results.counts import alike
from deniable.server.results.document import Crossed, Row
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question, ShareQuestion

TIMES = " × "
QUARTERS = 4  # counts of two answers: of both, of either, of neither

Tallies = Sequence[RoundTally | None]

_REMEMBERED = Memory[tuple[Row, ...]](lambda rows: ROWS_BESIDE + len(rows))


def crossings(survey: Survey, tallies: Tallies, looks: Sequence[bool]) -> list[tuple[Crossed, ...]]:
    """Every pair that the survey names, in each of these rounds; `looks` says which are open."""
    found = [_crossed(survey, pair, tallies, looks) for pair in survey.crossed]
    return [tuple(rounds[place] for rounds in found) for place in range(len(tallies))]


def _crossed(
    survey: Survey, pair: tuple[Question, Question], tallies: Tallies, looks: Sequence[bool]
) -> list[Crossed]:
    first, second = pair
    labels = [TIMES.join(both) for both in product(first.answer_labels, second.answer_labels)]
    kept = {
        place: tally
        for place, tally in enumerate(tallies)
        if tally is not None and tally.reports >= survey.minimum_reports
    }
    rows: dict[int, tuple[Row, ...]] = {}
    cells = QUARTERS * first.mechanism.cells * second.mechanism.cells
    for places in alike(kept, looks.__getitem__, cells):
        some = [kept[place] for place in places]
        rows |= zip(places, _said(survey, pair, labels, some, looks[places[0]]), strict=True)
    for place, tally in enumerate(tallies):
        if place not in kept:
            reports = tally.reports if tally else 0
            rows[place] = without_estimate(labels, reports, too_few(survey))
    names = first.name, second.name
    return [Crossed(questions=names, rows=rows[place]) for place in range(len(tallies))]


def _said(
    survey: Survey,
    pair: tuple[Question, Question],
    labels: Sequence[str],
    tallies: Sequence[RoundTally],
    looks: bool,
) -> list[tuple[Row, ...]]:
    """Once of the same counts. Questions are equal to themselves alone, as in `said.py`."""

    def made(places: list[int]) -> Iterator[tuple[Row, ...]]:
        some = [tallies[place] for place in places]
        found = joint(_counted(survey, pair, some), looks=looks)
        return _known(labels, found, [tally.reports for tally in some])

    return _REMEMBERED.get([_key(survey, pair, tally, looks) for tally in tallies], made)


def _key(
    survey: Survey, pair: tuple[Question, Question], tally: RoundTally, looks: bool
) -> tuple[Hashable, ...]:
    (_, ours), (_, theirs) = (tally.of(survey, question) for question in pair)
    counts = tuple(each.tobytes() for each in (ours, theirs, tally.crossed(survey, pair)))
    return pair, counts, tally.reports, looks


def _counted(
    survey: Survey, pair: tuple[Question, Question], tallies: Sequence[RoundTally]
) -> Pair:
    first, second = pair
    assert isinstance(first, ShareQuestion), "a survey crosses no others"
    assert isinstance(second, ShareQuestion), "a survey crosses no others"
    ours, theirs = (
        np.stack([tally.of(survey, question)[1] for tally in tallies]) for question in pair
    )
    both = np.stack([tally.crossed(survey, pair) for tally in tallies])
    reports = np.array([tally.reports for tally in tallies])
    return Pair.of((first.mechanism, second.mechanism), (ours, theirs), both, reports)


def _known(
    labels: Sequence[str], found: Joint, reports: Sequence[int]
) -> Iterator[tuple[Row, ...]]:
    """Of each round, in the order of a row's fields; about these very people nothing is said."""
    columns = (found.estimate, *found.like, *found.every, found.standard_error, found.consistent)
    for number, rows in zip(reports, np.stack(columns, axis=-1).tolist(), strict=True):
        yield tuple(
            Row(label, middle, low, high, None, None, low_all, high_all, error, number, near, None)
            for label, (middle, low, high, low_all, high_all, error, near) in zip(
                labels, rows, strict=True
            )
        )
