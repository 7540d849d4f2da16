"""Rounds as they were last estimated: a round whose counts are the same is not estimated again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from deniable.server.results.change import round_before
from deniable.server.results.document import Round
from deniable.server.store import PublishedSurvey, RoundTally

MOST_ROWS = 50_000  # about 25 MB
ROWS_BESIDE = 10  # what a round takes beside its rows, counted in rows

Kept = Mapping[int, RoundTally]
T = TypeVar("T")
Make = Callable[[PublishedSurvey, int, Kept, datetime], Round]


class Memory(Generic[T]):
    """What was asked for last, as long as it has few rows in all; safe from several threads."""

    def __init__(self, rows: Callable[[T], int]) -> None:
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._count, self._rows = rows, 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes, or made when it was asked for by the same key."""
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = make()
        with self._lock:
            if key not in self._known:
                self._known[key] = made
                self._rows += self._count(made)
            while self._rows > MOST_ROWS:
                self._rows -= self._count(self._known.popitem(last=False)[1])
        return made


class Remembered:
    """The rounds asked for last."""

    def __init__(self) -> None:
        self._memory = Memory(_rows)

    def round(
        self,
        make: Make,
        published: PublishedSurvey,
        number: int,
        kept: Kept,
        now: datetime,
    ) -> Round:
        """What `make` makes of these; it may use the counts of the round and of the one before, and
        of `now` only whether these are over."""
        key = _key(published, number, kept, now)
        return self._memory.get(key, lambda: make(published, number, kept, now))


def _key(published: PublishedSurvey, number: int, kept: Kept, now: datetime) -> Hashable:
    def state(each: int | None) -> Hashable:
        if each is None:
            return None
        over = published.closed or now >= published.survey.taken_until(each)
        tally = kept.get(each)
        return each, over, None if tally is None else (tally.reports, tally.cells.tobytes())

    return published.id, state(number), state(round_before(number, kept))


def _rows(made: Round) -> int:
    both = sum(len(each.rows) for each in made.cross or ())
    return ROWS_BESIDE + both + sum(len(rows) for rows in made.questions.values())
