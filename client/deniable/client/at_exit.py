"""The end of the process: what was queued in it gets a last, short chance to be sent."""

from __future__ import annotations

import atexit
import os
import time
from typing import Protocol
from weakref import WeakKeyDictionary

LAST_CHANCE = 2.0  # seconds, for all clients together


class Flushing(Protocol):
    def flush(self, timeout: float) -> int: ...


_queued: WeakKeyDictionary[Flushing, int] = WeakKeyDictionary()


def flush_at_exit(client: Flushing) -> None:
    """Remember a client that queued something in this process; it may be collected before."""
    if not _queued:
        atexit.unregister(_leave)
        atexit.register(_leave)
    _queued[client] = os.getpid()


def stay(client: Flushing) -> None:
    """Closed by hand: nothing to do at the end."""
    _queued.pop(client, None)


def _leave() -> None:
    """A forked child leaves to its parent what the parent queued."""
    deadline = time.monotonic() + LAST_CHANCE
    for client, process in list(_queued.items()):
        if process == os.getpid() and (rest := deadline - time.monotonic()) > 0:
            client.flush(rest)
