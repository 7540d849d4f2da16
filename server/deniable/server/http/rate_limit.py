"""Limits on the event loop's time that unauthenticated requests may take.

`Pace` limits the rate of responses. `WorkShare` limits the time for costly work while cheap
requests wait. Waiting uses no CPU time: a request that comes too early sleeps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

REQUESTS_PER_SECOND = 200.0
LISTS_PER_SECOND = 1_000.0  # lists are bytes from memory
BURST_REQUESTS = 20
PATIENCE_SECONDS = 1.0
REST_PER_WORK = 3.0  # seconds reserved for other requests after each second of costly work
MIN_REST_SECONDS = 0.001
MAX_COSTLY_WAITING = 64


class Pace:
    """Rate limit by evenly spaced turns.

    A request whose turn is more than a second away is refused after a second, so a client gains
    nothing by retrying sooner.
    """

    def __init__(
        self, seconds: Callable[[], float] = time.monotonic, per_second: float | None = None
    ) -> None:
        self._seconds, self._per_second = seconds, per_second or REQUESTS_PER_SECOND
        self._next = 0.0  # start of the next free turn

    async def has_turn(self) -> bool:
        """Wait for a turn; return False if it is too far away."""
        delay = self.delay()
        if delay > 0:
            await asyncio.sleep(min(delay, PATIENCE_SECONDS))
        return delay <= PATIENCE_SECONDS

    def delay(self) -> float:
        """Return the seconds until the next turn, and reserve it unless it is too far away."""
        now = self._seconds()
        due = max(self._next, now - BURST_REQUESTS / self._per_second)
        if due - now <= PATIENCE_SECONDS:
            self._next = due + 1 / self._per_second
        return due - now


class WorkShare:
    """Scheduler of costly work: one piece at a time, followed by time for cheap requests.

    After t seconds of work, the scheduler rests for up to 3 t. The rest ends early if no cheap
    request has arrived and none waits for the disk, so costly work hardly waits on an idle server.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self.cheap_requests = self.cheap_waiting = 0  # incremented by the front

    @property
    def is_full(self) -> bool:
        return self._waiting >= MAX_COSTLY_WAITING

    async def __aenter__(self) -> None:
        self._waiting += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._waiting -= 1
            raise
        self._begun = time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.rest()
        finally:
            self._waiting -= 1
            self._lock.release()

    async def rest(self) -> None:
        """Leave the loop to cheap requests, in proportion to the work since the last rest."""
        now = time.monotonic()
        end = now + REST_PER_WORK * (now - self._begun)
        while now < end:
            before = self.cheap_requests
            await asyncio.sleep(min(MIN_REST_SECONDS, end - now))
            if self.cheap_requests == before and not self.cheap_waiting:
                break
            now = time.monotonic()
        self._begun = time.monotonic()
