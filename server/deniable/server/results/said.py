"""What counts say of a question, remembered: a round's rows need it, and changes to the next."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import numpy as np

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import Array, Counted, Interval, Statements
from deniable.server.results.counts import Counts, alike, together
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.shared.survey.kinds.base import Question

T = TypeVar("T")

_STATEMENTS = Memory[Statements](lambda found: ROWS_BESIDE + len(found.estimate))
_LIMITS = Memory[Array](
    lambda ends: ROWS_BESIDE + ends.shape[-1] // 5
)  # two numbers and not eleven


def said(
    question: Question, rounds: Sequence[Counts], confidence: float = CONFIDENCE
) -> list[Statements]:
    """Of each round, as `statements` says it."""
    return _told(
        _STATEMENTS, question, rounds, confidence, lambda some: some.statements(confidence).rounds()
    )


def limits(
    question: Question,
    rounds: Sequence[Counts],
    confidence: float,
    about: Literal["like", "these"],
) -> Interval:
    """These alone, in a row for each round."""

    def of_some(some: Counted) -> Iterable[Array]:
        found = some.like(confidence) if about == "like" else some.these(confidence)
        return (ends.copy() for ends in np.stack(found, axis=1))

    ends = _told(_LIMITS, question, rounds, (confidence, about), of_some)
    low, high = np.stack(ends, axis=1)
    return low, high


def _told(
    memory: Memory[T],
    question: Question,
    rounds: Sequence[Counts],
    what: Hashable,
    of_some: Callable[[Counted], Iterable[T]],
) -> list[T]:
    """Mechanisms are equal to themselves alone, and so are questions."""
    keys = [(question, each.cells.tobytes(), each.reports, each.looks, what) for each in rounds]

    def make(missing: list[int]) -> Iterator[T]:
        found: dict[int, T] = {}
        for places in alike(missing, lambda place: rounds[place].looks, question.mechanism.cells):
            some = together(question, [rounds[place] for place in places])
            found |= zip(places, of_some(some), strict=True)
        return (found[place] for place in missing)

    return memory.get(keys, make)
