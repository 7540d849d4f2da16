"""What was asked for last, kept as long as it is small: the same counts are not estimated again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
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
