"""One line a minute: a full disk fails every request, and its log would fill it further."""

from __future__ import annotations

import logging
import time

PAUSE_SECONDS = 60.0


class Seldom(logging.Filter):
    """Each place in the code logs once in a while, and then says how often it was silent."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[tuple[str, int], float] = {}
        self._silent: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        if now < self._next.get(place, now):
            self._silent[place] = self._silent.get(place, 0) + 1
            return False
        self._next[place] = now + PAUSE_SECONDS
        if more := self._silent.pop(place, 0):
            record.msg, record.args = f"{record.getMessage()} ({more} times more before)", ()
        return True
