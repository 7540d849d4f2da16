"""What was asked for last, kept as long as it is small: the same counts are not estimated again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

MOST_ROWS = 50_000  # about 25 MB
ROWS_BESIDE = 10  # what else stands in each, counted in rows

T = TypeVar("T")


class Memory(Generic[T]):
    """What was asked for last, as long as it has few rows in all; safe from several threads."""

    def __init__(self, rows: Callable[[T], int]) -> None:
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._count, self._rows = rows, 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[Hashable], make: Callable[[list[int]], Iterable[T]]) -> list[T]:
        """For each key what was made when it was asked for; and for all others, together, what
        `make` makes of their places."""
        with self._lock:
            known = [self._known.get(key) for key in keys]
            for key, found in zip(keys, known, strict=True):
                if found is not None:
                    self._known.move_to_end(key)
        missing = [place for place, found in enumerate(known) if found is None]
        made = dict(zip(missing, make(missing), strict=True)) if missing else {}
        with self._lock:
            for place, each in made.items():
                rows = self._count(each)
                if rows <= MOST_ROWS and self._known.setdefault(keys[place], each) is each:
                    self._rows += rows
            while self._rows > MOST_ROWS:
                self._rows -= self._count(self._known.popitem(last=False)[1])
        return [made[place] if found is None else found for place, found in enumerate(known)]
