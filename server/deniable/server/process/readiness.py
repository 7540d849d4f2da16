"""Whether the server is ready: one look at the store for all who ask meanwhile and a second after.

A look takes the writer's lock, and waits where somebody else has it: if everybody had one of their
own, reports would wait for those who ask. Who has waited for a second is told that it takes longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

FRESH_SECONDS = 1.0
PATIENCE_SECONDS = 1.0
SLOW = "the store cannot be written at once; somebody else may be writing, or the disk is slow"


class Readiness:
    """For one event loop. `look` says why reports cannot be taken, or None."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], str | None]) -> None:
        self._loop, self._look = loop, look
        self._thread = ThreadPoolExecutor(1, "readiness")
        self._looking: asyncio.Future[str | None] | None = None
        self._fresh_until = 0.0

    async def reason(self) -> str | None:
        looking = self._looking
        if looking is None or (looking.done() and self._loop.time() >= self._fresh_until):
            looking = self._looking = self._loop.run_in_executor(self._thread, self._found)
        done, _ = await asyncio.wait([looking], timeout=PATIENCE_SECONDS)
        return looking.result() if done else SLOW

    def _found(self) -> str | None:
        reason = self._look()
        self._fresh_until = self._loop.time() + FRESH_SECONDS
        return reason
