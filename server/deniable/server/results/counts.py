"""A question's counts in rounds of a survey, and which of these are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimators import counted
from deniable.server.estimation.statements import Counted
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MOST_AT_ONCE = 2**17  # cells, whose estimates take about 20 MB while they are computed
WHILE_OPEN = 4  # times as much is taken by intervals that hold at every look


class Counts(NamedTuple):
    """In one round."""

    cells: npt.NDArray[np.int64]
    reports: int
    looks: bool = False  # whether its intervals are to hold at every look at once
    enough: bool = True  # for an estimate


def counts_of(survey: Survey, question: Question, tally: RoundTally | None, looks: bool) -> Counts:
    """`tally` is None where the round has no report."""
    if tally is None:
        return Counts(np.zeros(question.mechanism.cells, np.int64), 0, looks, enough=False)
    reports, cells = tally.of(survey, question)
    return Counts(cells, reports, looks, reports >= survey.minimum_reports)


def stacked(rounds: Sequence[Counts]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The cells, a row for each round, and the reports."""
    cells = np.stack([counts.cells for counts in rounds])
    return cells, np.array([counts.reports for counts in rounds])


def together(question: Question, rounds: Sequence[Counts]) -> Counted:
    """All of them open, or none."""
    return counted(question, *stacked(rounds), rounds[0].looks)


def alike(places: Iterable[int], is_open: Callable[[int], bool], cells: int) -> Iterator[list[int]]:
    """All of them open, or none; as many as are computed at once where each has so many cells."""
    kinds: dict[bool, list[int]] = {}
    for place in places:
        kinds.setdefault(is_open(place), []).append(place)
    for looks, some in kinds.items():
        most = max(1, MOST_AT_ONCE // (cells * (WHILE_OPEN if looks else 1)))
        yield from (some[first : first + most] for first in range(0, len(some), most))
