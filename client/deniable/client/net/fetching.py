"""Fetching the server's list: in a thread of its own, one fetch at a time, and rarely in vain.

Whatever the network does, the caller waits two seconds at most. The fetch itself may take longer,
and its list is kept for the next call. One that has outlived its deadline is forgotten: what it
still brings is not used, and the next fetch starts anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from deniable.client.escaping import escaped
from deniable.client.forking import ForkAware
from deniable.client.logs import failed
from deniable.client.net.transport import Reply, Transport, Unreachable
from deniable.shared.errors import StoreUnusable

FETCH_SECONDS = 2.0  # that a caller waits
LIST_TIMES = 2.0  # of the timeout of other exchanges: a list is longer than a reply
LONGEST_PAUSE = 300.0


class Fetching(ForkAware):
    """`keep` reads a reply and puts it on disk, or raises Unreachable if there is no list in it."""

    def __init__(
        self,
        transport: Transport,
        keep: Callable[[Reply], None],
        monotonic: Callable[[], float],
        timeout: float,
    ) -> None:
        self.list_seconds = LIST_TIMES * timeout  # until the whole list has come, on a slow line
        self._transport, self._keep, self._monotonic = transport, keep, monotonic
        super().__init__()

    def remake(self) -> None:
        self._lock = threading.Lock()
        self._flight: _Flight | None = None
        self.ended_well = self._in_vain = 0  # fetches, in this process
        self.failure = ""  # why the last one brought nothing
        self._pause_until = 0.0

    def fetch(self, seen: int, wait: float | None = None) -> bool:
        """Whether there is a list on disk that is newer than so many fetches that ended well."""
        self.same_process()
        _load_libraries()
        with self._lock:
            if self.ended_well > seen:
                return True  # by another thread, meanwhile
            if self._monotonic() < self._pause_until:
                return False
            flight = self._flight
            if flight is None or flight.done.is_set() or self._monotonic() >= flight.until:
                flight = self._flight = self._started()
        if not flight.done.wait(FETCH_SECONDS if wait is None else wait):
            self.failure = "it has not come yet, and is still waited for in the background"
        return flight.well

    def pace(self, helped: bool) -> None:
        """Exponential backoff of what asks in vain: at once, then after 2, 4, 8 ... seconds."""
        self.same_process()
        with self._lock:
            self._in_vain = 0 if helped else self._in_vain + 1
            pause = (
                min(LONGEST_PAUSE, 2.0 ** min(self._in_vain - 1, 20)) if self._in_vain > 1 else 0
            )
            if self._monotonic() >= self._pause_until:
                self._pause_until = self._monotonic() + pause

    def _started(self) -> _Flight:
        flight = _Flight(self._monotonic() + self.list_seconds)
        try:
            threading.Thread(
                target=self._fly, args=(flight,), name="deniable-surveys", daemon=True
            ).start()
        except RuntimeError:  # the interpreter is ending
            flight.done.set()
        return flight

    def _fly(self, flight: _Flight) -> None:
        try:
            reply = self._transport.request("GET", "/v1/surveys", None, None, self.list_seconds)
            with self._lock:
                forgotten = self._flight is not flight
            if forgotten:
                return
            self._keep(reply)
            with self._lock:
                self.ended_well += 1
            flight.well = True
        except Unreachable as error:
            self.failure = escaped(str(error))
            failed(error.kind, f"the list of surveys could not be fetched: {self.failure}")
        except StoreUnusable:
            self.failure = "the state on disk cannot be used"
            failed("state", self.failure)
        finally:
            flight.done.set()


class _Flight:
    """One fetch under way, which several threads may wait for."""

    def __init__(self, until: float) -> None:
        self.until, self.done, self.well = until, threading.Event(), False


def _load_libraries() -> None:
    """In the caller's time, once: the two seconds after it are for the network alone."""
    import certifi  # noqa: F401
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401

    from deniable.client.net import exchange  # noqa: F401
