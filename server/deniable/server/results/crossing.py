"""Two questions at once in the results: a row for each two answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from deniable.server.estimation.crossed import Joint, Pair, joint
from deniable.server.results.document import Crossed, Row
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Bit, Choice, Question

TIMES = " × "

_REMEMBERED = Memory[Joint](lambda found: ROWS_BESIDE + len(found.estimate))


def crossings(survey: Survey, tally: RoundTally | None, looks: bool) -> tuple[Crossed, ...]:
    """Every pair that the survey names; `tally` and `looks` are as for a question's result."""
    return tuple(_crossed(survey, pair, tally, looks) for pair in survey.crossed)


def _crossed(
    survey: Survey, pair: tuple[Question, Question], tally: RoundTally | None, looks: bool
) -> Crossed:
    first, second = pair
    labels = [TIMES.join(both) for both in product(first.answer_labels, second.answer_labels)]
    reports = tally.reports if tally else 0
    if tally is not None and reports >= survey.minimum_reports:
        rows = _known(labels, _said(survey, pair, tally, looks), reports)
    else:
        note = f"no estimate below {survey.minimum_reports:,} reports"
        rows = (_unknown(label, reports, note) for label in labels)
    return Crossed(questions=(first.name, second.name), rows=tuple(rows))


def _said(survey: Survey, pair: tuple[Question, Question], tally: RoundTally, looks: bool) -> Joint:
    """Once of the same counts. Questions are equal to themselves alone, as in `said.py`."""
    found = _counted(survey, pair, tally)
    counts = tuple(each.tobytes() for each in (found.one, found.other, found.both))
    key = pair, counts, found.reports, looks
    return _REMEMBERED.get(key, lambda: joint(found, looks=looks))


def _counted(survey: Survey, pair: tuple[Question, Question], tally: RoundTally) -> Pair:
    first, second = pair
    assert isinstance(first, Bit | Choice), "a survey crosses no others"
    assert isinstance(second, Bit | Choice), "a survey crosses no others"
    (reports, ours), (_, theirs) = (tally.of(survey, question) for question in pair)
    designs = first.mechanism, second.mechanism
    return Pair.of(designs, (ours, theirs), tally.crossed(survey, pair), reports)


def _known(labels: list[str], found: Joint, reports: int) -> Iterator[Row]:
    """In the order of a row's fields; about these very people nothing is said."""
    columns = (found.estimate, *found.like, *found.every, found.standard_error, found.consistent)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for label, (estimate, low, high, low_all, high_all, error, nearest) in zip(
        labels, numbers, strict=True
    ):
        intervals = (low, high, None, None, low_all, high_all)
        yield Row(label, estimate, *intervals, error, reports, nearest, None)


def _unknown(label: str, reports: int, note: str) -> Row:
    return Row(label, None, None, None, None, None, None, None, None, reports, None, note)
