"""Bodies as they arrive, bounded in time, in length, and all together in bytes.

A body that takes too long is given up. Where all that is held takes too much memory, so is the one
that has been arriving for longest: who sends slowly on purpose is at the front of that line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import Protocol

from deniable.server.http.messages import HttpError
from deniable.shared.envelope import MAX_BODY_BYTES

SECONDS = 10.0
SWEEP_SECONDS = 0.5
SMALL_BYTES = 4_096  # less than what a connection takes by itself
MOST_BYTES = 64 * 2**20  # of all bodies that arrive or are being answered
SHORT = "the body ended before its length; nothing was counted"
SLOW = f"the body did not arrive within {SECONDS:g} seconds; nothing was counted"
CROWDED = "too many bodies arrive at once; nothing was counted; send the same body again later"


class Stream(Protocol):
    """A body that arrives: in parts, or all at once when it is there."""

    def __call__(self) -> Awaitable[bytes]: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...


@dataclass(eq=False, slots=True)
class _Arrival:
    task: asyncio.Task[object]
    begun: float
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: HttpError | None = None

    def end(self, reason: HttpError) -> None:
        self.ended = reason
        self.task.cancel()


class Bodies:
    """For one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._arriving: dict[_Arrival, None] = {}  # the oldest first
        self._held = 0
        loop.call_later(SWEEP_SECONDS, self._sweep)

    async def read(self, stream: Stream, declared: int) -> bytes:
        """The body, which is held until it is released; of a longer one than may come its
        beginning, which is longer than may come too. `declared`: how long it says it is, or -1."""
        task = asyncio.current_task()
        assert task is not None
        arrival = _Arrival(task, self._loop.time())
        self._arriving[arrival] = None
        try:
            if 0 <= declared <= SMALL_BYTES:
                self._take(arrival, await _whole(stream))
            else:
                async for part in stream:
                    self._take(arrival, part)
                    if arrival.size > MAX_BODY_BYTES:
                        break
        except BaseException as error:
            self._held -= arrival.size
            if arrival.ended is None or not isinstance(error, asyncio.CancelledError):
                raise
            arrival.task.uncancel()
            raise arrival.ended from None
        finally:
            del self._arriving[arrival]
        return arrival.parts[0] if len(arrival.parts) == 1 else b"".join(arrival.parts)

    def release(self, body: bytes) -> None:
        """It has been answered."""
        self._held -= len(body)

    def _take(self, arrival: _Arrival, part: bytes) -> None:
        arrival.parts.append(part)
        arrival.size += len(part)
        self._held += len(part)
        if self._held > MOST_BYTES:
            oldest = next(each for each in self._arriving if each.ended is None)
            if oldest is arrival:
                raise HttpError(503, CROWDED)
            oldest.end(HttpError(503, CROWDED))

    def _sweep(self) -> None:
        late = self._loop.time() - SECONDS
        for arrival in self._arriving:
            if arrival.begun > late:
                break
            if arrival.ended is None:
                arrival.end(HttpError(408, SLOW))
        self._loop.call_later(SWEEP_SECONDS, self._sweep)


async def _whole(stream: Stream) -> bytes:
    try:
        return await stream()
    except RuntimeError:  # its connection has ended
        raise HttpError(400, SHORT) from None
