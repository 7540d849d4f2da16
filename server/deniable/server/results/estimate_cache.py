"""Cache of estimates, and the functions that fill it from counts.

Estimating is slow, and the same counts are needed again and again: for a round's rows, for the
change to the next round, for a trend, and by the next request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.estimators import counted
from deniable.server.estimation.statements import Array, Counted, Interval, Statements
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MAX_CACHED_ROWS = 200_000  # about 20 MB
ROWS_PER_ENTRY = 10  # what an entry takes besides its numbers, counted in rows
MAX_CELLS_PER_BATCH = 2**17  # estimating them takes about 20 MB
OPEN_ROUND_FACTOR = 4  # intervals for repeated looks take this many times as much

T = TypeVar("T")


class EstimateCache:
    """The application's only cache of results; safe from several threads.

    Size: MAX_CACHED_ROWS rows in all, where a row is one label with its numbers. The entries used
    least recently are dropped first; one that is larger than the whole cache is not kept.

    Invalidation: none is needed. A key holds everything that an entry depends on (the question or
    the survey, the counts, the kind of interval), so a round with new reports has a new key.
    """

    def __init__(self, max_rows: int = MAX_CACHED_ROWS) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()  # Any: what T is
        self._rows, self._max_rows = 0.0, max_rows
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(
        self,
        keys: Sequence[Hashable],
        make: Callable[[list[int]], Iterable[T]],
        rows: Callable[[T], float],
    ) -> list[T]:
        """Return the entry of each key. `make` receives the indexes of those that are missing."""
        with self._lock:
            entries = [self._entries.get(key) for key in keys]
            for key, entry in zip(keys, entries, strict=True):
                if entry is not None:
                    self._entries.move_to_end(key)
        missing = [index for index, entry in enumerate(entries) if entry is None]
        for index, made in zip(missing, make(missing) if missing else (), strict=True):
            size = ROWS_PER_ENTRY + rows(made)
            entries[index] = made, size
            self._keep(keys[index], made, size)
        return [entry[0] for entry in entries if entry is not None]

    def _keep(self, key: Hashable, made: object, size: float) -> None:
        with self._lock:
            if size > self._max_rows or key in self._entries:
                return
            self._entries[key] = made, size
            self._rows += size
            while self._rows > self._max_rows:
                self._rows -= self._entries.popitem(last=False)[1][1]


@dataclass(frozen=True, eq=False)
class Counts:
    """One question's counts in one round."""

    cells: npt.NDArray[np.int64]
    reports: int
    looks: bool = False  # whether intervals must hold for repeated looks
    enough: bool = True  # whether there are enough reports for an estimate

    @classmethod
    def of(
        cls, survey: Survey, question: Question, tally: RoundTally | None, looks: bool = False
    ) -> Counts:
        if tally is None:
            return cls(np.zeros(question.mechanism.cells, np.int64), 0, looks, enough=False)
        reports, cells = tally.of(survey, question)
        return cls(cells, reports, looks, reports >= survey.minimum_reports)

    @cached_property
    def key(self) -> Hashable:
        return blake2b(self.cells.tobytes(), digest_size=32).digest(), self.reports, self.looks


def stack(rounds: Sequence[Counts]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the cells, one row per round, and the numbers of reports."""
    cells = np.stack([counts.cells for counts in rounds])
    return cells, np.array([counts.reports for counts in rounds])


def batches(
    indexes: Iterable[int], is_open: Callable[[int], bool], cells: int
) -> Iterator[list[int]]:
    """Split rounds into batches that are estimated together.

    The rounds of a batch are all open or all closed. A batch is small enough for memory if each
    round has this many cells.
    """
    by_state: dict[bool, list[int]] = {}
    for index in indexes:
        by_state.setdefault(is_open(index), []).append(index)
    for looks, members in by_state.items():
        size = max(1, MAX_CELLS_PER_BATCH // (cells * (OPEN_ROUND_FACTOR if looks else 1)))
        yield from (members[first : first + size] for first in range(0, len(members), size))


def per_round(
    cache: EstimateCache,
    what: Hashable,
    question: Question,
    rounds: Sequence[Counts],
    make: Callable[[Sequence[Counts]], Iterable[T]],
    rows: Callable[[T], float],
    cells: int | None = None,
) -> list[T]:
    """Return what `make` gives for each round, from the cache where possible.

    `make` receives batches of rounds; `what` distinguishes it from other functions of the same
    counts.
    """

    def make_missing(missing: list[int]) -> Iterator[T]:
        made: dict[int, T] = {}
        size = question.mechanism.cells if cells is None else cells
        for batch in batches(missing, lambda index: rounds[index].looks, size):
            made |= zip(batch, make([rounds[index] for index in batch]), strict=True)
        return (made[index] for index in missing)

    keys = [(what, question, counts.key) for counts in rounds]  # a question equals only itself
    return cache.get(keys, make_missing, rows)


def statements(
    cache: EstimateCache,
    question: Question,
    rounds: Sequence[Counts],
    confidence: float = CONFIDENCE,
) -> list[Statements]:
    """Return the estimates and intervals of each round."""
    return per_round(
        cache,
        ("statements", confidence),
        question,
        rounds,
        lambda batch: _counted(question, batch).statements(confidence).rounds(),
        lambda made: len(made.estimate),
    )


def limits(
    cache: EstimateCache,
    question: Question,
    rounds: Sequence[Counts],
    confidence: float,
    about: Literal["like", "these"],
) -> Interval:
    """Return only the limits, about the population or about exactly the respondents.

    Each array has one row per round.
    """

    def make(batch: Sequence[Counts]) -> Iterable[Array]:
        every = _counted(question, batch)
        ends = every.like(confidence) if about == "like" else every.these(confidence)
        return (pair.copy() for pair in np.stack(ends, axis=1))

    ends = per_round(
        cache, (about, confidence), question, rounds, make, lambda made: made.shape[-1] / 5
    )
    low, high = np.stack(ends, axis=1)
    return low, high


def _counted(question: Question, batch: Sequence[Counts]) -> Counted:
    return counted(question, *stack(batch), batch[0].looks)
