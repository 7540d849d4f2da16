"""Cache of estimates, and the functions that fill it from counts.

Estimating is slow, and the same counts are used repeatedly: for a round's rows, for the change to
the next round, for a trend, and by the next request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import (
    Array,
    Cells,
    Estimator,
    Interval,
    Reading,
    RoundSize,
    Statements,
)
from deniable.server.planning.display_gate import at_worst, is_enough
from deniable.server.store import RoundTally
from deniable.server.store.label_counts import packed_labels
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MAX_CACHED_ROWS = 200_000  # these take about 20 MB
ROWS_PER_ENTRY = 10  # overhead of an entry, counted in rows
MAX_CELLS_PER_BATCH = 2**17  # estimating this number of cells takes about 20 MB
ONE_LOOK = Reading()
ANY_TIME_FACTOR = 4  # intervals for every look take four times as much memory

T = TypeVar("T")
Manner = tuple[Reading, int]  # how a round is read, and rounds per person


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
            for batch in batches(missing, lambda index: (rounds[index].manner,), cells):
                made |= zip(batch, make([rounds[index] for index in batch]), strict=True)
            return (made[index] for index in missing)

        if not together:
            return self.get([(key, counts.key) for counts in rounds], make_missing, rows)
        digest = blake2b(b"".join(counts.cells.tobytes() for counts in rounds)).digest()
        about = key, digest, *((made.reports, made.sizes, made.reading) for made in rounds)
        every = [*range(len(rounds))]
        return self.get([about], lambda _: [[*make_missing(every)]], lambda m: sum(map(rows, m)))[0]

    def statements(
        self, question: Question, rounds: Sequence[Counts], values: int = 1
    ) -> list[Statements]:
        """Return the estimates and intervals of each round; `values` is passed to the estimator."""

        def make(batch: Sequence[Counts]) -> Iterator[Statements]:
            confidence, respondents = batch[0].reading.confidence, batch[0].respondents
            return _estimator(question, batch).statements(confidence, values, respondents).rounds()

        key, cells = ("statements", values, question), question.mechanism.cells
        together = values > 1
        return self.per_round(key, cells, rounds, make, lambda made: len(made.estimate), together)

    def limits(
        self,
        question: Question,
        rounds: Sequence[Counts],
        about: Literal["like", "these"],
    ) -> Interval:
        """Return limits for the population or for the respondents, one row per round."""

        def make(batch: Sequence[Counts]) -> Iterable[Array]:
            estimator = _estimator(question, batch)
            limits = estimator.like if about == "like" else estimator.these
            return (p.copy() for p in np.stack(limits(batch[0].reading.confidence), axis=1))

        key, cells = (about, question), question.mechanism.cells
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
    """Counts of one question in one round, or of all rounds of a period together."""

    cells: Cells
    reports: int
    reading: Reading = ONE_LOOK
    enough: bool = True  # whether there are enough reports to show an estimate
    sizes: tuple[RoundSize, ...] = ()  # of each round, if there are several
    earlier: Counts | None = None  # of an earlier final round, whose distribution weighs this one's
    respondents: bool = False  # whether all intervals are about exactly the respondents

    @classmethod
    def of(
        cls,
        survey: Survey,
        question: Question,
        tally: RoundTally | None,
        reading: Reading = ONE_LOOK,
        members: Sequence[RoundTally] = (),
        values: int = 1,
    ) -> Counts:
        """Count a tally; in several rounds, it is the sum of the `members`."""
        if tally is None:
            return cls(np.zeros(question.mechanism.cells, np.int64), 0, reading, enough=False)
        reports, cells = tally.of(survey, question)
        counted = [RoundSize(m.of(survey, question)[0], m.reports) for m in members]
        sizes = round_sizes(counted)
        enough = reports >= survey.minimum_reports
        if enough and survey.show_when is not None:
            enough = is_enough(survey, at_worst(question, reading, values, sizes), reports)
        return cls(cells, reports, reading, enough, sizes, respondents=survey.follows is not None)

    @cached_property
    def key(self) -> Hashable:
        digest = blake2b(self.cells.tobytes(), digest_size=32).digest()
        earlier = self.earlier and self.earlier.key
        return digest, self.reports, self.sizes, self.respondents, self.reading, earlier

    @property
    def manner(self) -> Manner:
        return self.reading, max(1, len(self.sizes))


def round_sizes(counted: Iterable[RoundSize]) -> tuple[RoundSize, ...]:
    """Return the sizes of the rounds with reports, if there are several."""
    sizes = tuple(size for size in counted if size.reports)
    return sizes if len(sizes) > 1 else ()


@dataclass(frozen=True)
class Pool:
    """Reports of one round, or of all rounds of a period."""

    rounds: range
    members: tuple[RoundTally, ...]  # one per span; none if there are no reports
    reading: Reading

    @cached_property
    def tally(self) -> RoundTally | None:
        return sum(self.members[1:], self.members[0]) if self.members else None

    @property
    def reports(self) -> int:
        return self.tally.reports if self.tally else 0

    @cached_property
    def _counts(self) -> dict[str, Counts]:
        return {}

    def counts(self, survey: Survey, question: Question) -> Counts:
        """Return the counts of a question, always the same object: its key is computed once."""
        if question.name not in self._counts:
            counted = Counts.of(survey, question, self.tally, self.reading, self.members)
            self._counts[question.name] = counted
        return self._counts[question.name]

    def weighed(self, survey: Survey, question: Question, earlier: Pool | None) -> Counts:
        """Return the counts with those of an earlier round, if neither can change any more."""
        counts, readings = self.counts(survey, question), [self.reading]
        if earlier is None or self.shares_reports(survey, earlier):
            return counts
        readings.append(earlier.reading)
        if any(reading.any_time or reading.covers != "all" for reading in readings):
            return counts
        return replace(counts, earlier=earlier.counts(survey, question))

    @cached_property
    def key(self) -> Hashable:
        """Everything that the estimates depend on."""
        digest = blake2b()
        for tally in self.members:
            digest.update(tally.cells.tobytes())
            digest.update(packed_labels(tally.labels) if tally.labels else b"")
        counted = tuple((tally.round, tally.reports) for tally in self.members)
        return self.rounds.start, self.rounds.stop, self.reading, counted, digest.digest()

    def shares_reports(self, survey: Survey, other: Pool) -> bool:
        """Return whether both contain the same latched reports."""
        spans, others = (
            {survey.span_of(tally.round)[0] for tally in pool.members} for pool in (self, other)
        )
        return not spans.isdisjoint(others)


def stack(rounds: Sequence[Counts]) -> tuple[Cells, Cells]:
    """Return the cells and the number of reports, one row per round."""
    cells = np.stack([counts.cells for counts in rounds])
    return cells, np.array([counts.reports for counts in rounds])


def batches(
    indexes: Iterable[int], manner: Callable[[int], tuple[Manner, ...]], cells: int
) -> Iterator[list[int]]:
    """Split rounds into batches that fit into memory, each estimated in the same manner."""
    by_manner: dict[tuple[Manner, ...], list[int]] = {}
    for index in indexes:
        by_manner.setdefault(manner(index), []).append(index)
    for kinds, members in by_manner.items():
        factor = ANY_TIME_FACTOR if any(kind.any_time for kind, _ in kinds) else 1
        size = max(1, MAX_CELLS_PER_BATCH // (cells * factor))
        yield from (members[first : first + size] for first in range(0, len(members), size))


def where_enough(
    rounds: Sequence[Counts], make: Callable[[list[Counts]], Iterable[T]]
) -> list[T | None]:
    """Return the results of `make` for rounds with enough reports, and None for the others."""
    made = iter(make([counts for counts in rounds if counts.enough]))
    return [next(made) if counts.enough else None for counts in rounds]


def _estimator(question: Question, batch: Sequence[Counts]) -> Estimator:
    reading, rounds = batch[0].manner
    sizes = np.array([counts.sizes for counts in batch])
    parts = (sizes[..., 0], sizes[..., 1]) if rounds > 1 else ()
    return ESTIMATORS[question.estimation](question, *stack(batch), reading.any_time, *parts)
