"""How often something may be asked for that anyone may ask for, so that nothing else has to wait.

Waiting costs nothing here: a request that is early sleeps. One that would sleep longer than a
second is refused, and that after a second, so that a connection gains nothing by asking again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

A_SECOND = 200.0
AT_ONCE = 20
PATIENCE_SECONDS = 1.0


class Pace:
    """For one event loop."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._next = 0.0  # when the one after all that were let through is on time

    async def turn(self) -> bool:
        """Wait for it; whether it has come."""
        rest = self.rest()
        if rest > 0:
            await asyncio.sleep(min(rest, PATIENCE_SECONDS))
        return rest <= PATIENCE_SECONDS

    def rest(self) -> float:
        """In how many seconds the next one is on time; it is that one's then, unless refused."""
        now = self._seconds()
        due = max(self._next, now - AT_ONCE / A_SECOND)
        if due - now <= PATIENCE_SECONDS:
            self._next = due + 1 / A_SECOND
        return due - now
