"""Cache of estimates, and the functions that fill it from counts.

Estimating is slow, and the same counts are used repeatedly: for a round's rows, for the change to
the next round, for a trend, and by the next request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Array,
    Cells,
    Estimator,
    Interval,
    Statements,
)
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MAX_CACHED_ROWS = 200_000  # these take about 20 MB
ROWS_PER_ENTRY = 10  # overhead of an entry, counted in rows
MAX_CELLS_PER_BATCH = 2**17  # estimating this number of cells takes about 20 MB
OPEN_ROUND_FACTOR = 4  # intervals for repeated looks take four times as much memory

T = TypeVar("T")


class EstimateCache:
    """Thread-safe cache of results; the application has one.

    It holds up to MAX_CACHED_ROWS rows, each a label with its numbers, and drops the least recently
    used entries first. Entries never become invalid: a key contains everything that its entry
    depends on (question or survey, counts, kind of interval).
    """

    def __init__(self, max_rows: int = MAX_CACHED_ROWS) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()  # Any: the type T
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
        """Return the entry of each key. `make` receives the indexes of missing entries."""
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

    def per_round(
        self,
        key: Hashable,
        cells: int,
        rounds: Sequence[Counts],
        make: Callable[[Sequence[Counts]], Iterable[T]],
        rows: Callable[[T], float],
        together: bool = False,
    ) -> list[T]:
        """Return the result of `make` for each round, from the cache where possible.

        `make` receives batches of rounds with `cells` counts each; `key` identifies `make` and the
        question. If `together`, all rounds are one entry of the cache.
        """

        def make_missing(missing: list[int]) -> Iterator[T]:
            made: dict[int, T] = {}
            for batch in batches(missing, lambda index: rounds[index].looks, cells):
                made |= zip(batch, make([rounds[index] for index in batch]), strict=True)
            return (made[index] for index in missing)

        if not together:
            return self.get([(key, counts.key) for counts in rounds], make_missing, rows)
        digest = blake2b(b"".join(counts.cells.tobytes() for counts in rounds)).digest()
        about = key, digest, *((counts.reports, counts.looks) for counts in rounds)
        every = [*range(len(rounds))]
        return self.get([about], lambda _: [[*make_missing(every)]], lambda m: sum(map(rows, m)))[0]

    def statements(
        self,
        question: Question,
        rounds: Sequence[Counts],
        confidence: float = CONFIDENCE,
        values: int = 1,
    ) -> list[Statements]:
        """Return the estimates and intervals of each round; `values` is passed to the estimator."""
        return self.per_round(
            ("statements", confidence, values, question),
            question.mechanism.cells,
            rounds,
            lambda batch: _estimator(question, batch).statements(confidence, values).rounds(),
            lambda made: len(made.estimate),
            together=values > 1,
        )

    def limits(
        self,
        question: Question,
        rounds: Sequence[Counts],
        confidence: float,
        about: Literal["like", "these"],
    ) -> Interval:
        """Return the limits for the population or for the respondents, one row per round."""

        def make(batch: Sequence[Counts]) -> Iterable[Array]:
            estimator = _estimator(question, batch)
            limits = estimator.like if about == "like" else estimator.these
            return (pair.copy() for pair in np.stack(limits(confidence), axis=1))

        key, cells = (about, confidence, question), question.mechanism.cells
        ends = self.per_round(key, cells, rounds, make, lambda made: made.shape[-1] / 5)
        low, high = np.stack(ends, axis=1)
        return low, high

    def groups(self, question: Question, rounds: Sequence[Counts], confidence: float) -> Array:
        """Return what `disjoint` needs from each of several groups of people."""

        def make(batch: Sequence[Counts]) -> Iterable[Array]:
            return (made.copy() for made in _estimator(question, batch).group(confidence))

        key, cells = ("group", confidence, question), question.mechanism.cells
        made: list[Array] = self.per_round(key, cells, rounds, make, lambda row: row.shape[-1] / 3)
        return np.stack(made)

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
    """Counts of one question in one round."""

    cells: Cells
    reports: int
    looks: bool = False  # whether intervals must hold for repeated looks
    enough: bool = True  # whether there are enough reports to show an estimate

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


def is_open(published: PublishedSurvey, number: int, now: datetime) -> bool:
    """Return whether the round still accepts reports."""
    return not published.closed and now < published.survey.taken_until(number)


def stack(rounds: Sequence[Counts]) -> tuple[Cells, Cells]:
    """Return the cells and the number of reports, one row per round."""
    cells = np.stack([counts.cells for counts in rounds])
    return cells, np.array([counts.reports for counts in rounds])


def batches(
    indexes: Iterable[int], looks: Callable[[int], bool], cells: int
) -> Iterator[list[int]]:
    """Split rounds into batches that fit into memory, each all open or all closed."""
    by_state: dict[bool, list[int]] = {}
    for index in indexes:
        by_state.setdefault(looks(index), []).append(index)
    for are_open, members in by_state.items():
        size = max(1, MAX_CELLS_PER_BATCH // (cells * (OPEN_ROUND_FACTOR if are_open else 1)))
        yield from (members[first : first + size] for first in range(0, len(members), size))


def where_enough(
    rounds: Sequence[Counts], make: Callable[[list[Counts]], Iterable[T]]
) -> list[T | None]:
    """Return the results of `make` for rounds with enough reports, and None for the others."""
    made = iter(make([counts for counts in rounds if counts.enough]))
    return [next(made) if counts.enough else None for counts in rounds]


def _estimator(question: Question, batch: Sequence[Counts]) -> Estimator:
    return ESTIMATORS[question.estimation](question, *stack(batch), batch[0].looks)
