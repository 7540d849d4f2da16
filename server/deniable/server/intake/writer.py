"""The writer: one thread that commits many uploads in one transaction, then acknowledges them.

Group commit: while one transaction is written to disk, the next uploads gather, so up to 1,024
requests share the cost of a sync. Clients that were answered together tend to send their next
requests in quick succession. Each group therefore waits until it has as many requests as the last
group, but no longer than a commit takes: with several nodes, commits take longer, and each node
gets fewer requests at a time.

An upload is acknowledged only when it is on disk. If that is uncertain, the answer is
`Unavailable`, and the client retries.

Under load, a group is only synced to the redo file at first. It reaches the tables together with
later groups, after a moment without requests or after a tenth of a second.

A failing disk (StoreLost) ends the writer: the result of a failed write is unknown until the next
start reads the file again, so nothing more is acknowledged.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from queue import SimpleQueue
from typing import Literal, NamedTuple

from deniable.server.intake.commit import Outcome, commit, recover
from deniable.server.intake.upkeep import PAUSE_SECONDS, Upkeep
from deniable.server.store import Store, StoreLost, Upload
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import DeniableError, StoreUnusable

MAX_REQUESTS = 1_024  # in one transaction
MAX_UPLOADS = 16_384  # in one transaction, not counting its last request
MAX_WAITING = 4_096  # requests in the queue
MAX_WAITING_BYTES = 64 * 2**20
GATHER_SECONDS = 0.0005  # wait for as many requests as the last group had, or as commits take
MAX_GATHER_SECONDS = 0.02
COMMITS_AVERAGED = 8

log = logging.getLogger("deniable.server")


class Unavailable(DeniableError):
    """Raised if nothing was counted and the same request may succeed later."""


Settled = list[Outcome] | Unavailable  # outcome of each upload, or why nothing was counted
Settle = Callable[[Settled], None]


class _Request(NamedTuple):
    uploads: Sequence[Upload]
    size: int
    settle: Settle


class Writer:
    """Writer thread, which runs from `start` to `stop`. Any thread may call the other methods."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock | None = None) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock or Clock()
        self._upkeep = Upkeep(store, catalogue, self._clock)
        self._ready = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._waiting_bytes = 0
        self._wanted = 1  # number of requests that wakes the thread
        self._last = 1  # number of requests in the last group
        self._commit_seconds = 0.0  # average of the last commits
        self._state: Literal["new", "running", "stopping", "ended"] = "new"
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self.observe_commit: Callable[[float], None] = lambda _seconds: None

    def start(self) -> None:
        self._state = "running"
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting uploads, flush the counters, and end the thread."""
        with self._ready:
            if self._state == "running":
                self._state = "stopping"
            self._ready.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def running(self) -> bool:
        return self._state == "running"

    @property
    def ended(self) -> bool:
        """True after the thread has stopped or the disk has failed."""
        return self._state == "ended"

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the disk."""
        return len(self._waiting)

    def write(self, uploads: Sequence[Upload]) -> list[Outcome]:
        """Wait until uploads are on disk, and return their outcomes, or raise Unavailable."""
        settled = SimpleQueue[Settled]()
        self.submit(uploads, settled.put)
        outcome = settled.get()
        if isinstance(outcome, Unavailable):
            raise outcome
        return outcome

    def submit(self, uploads: Sequence[Upload], settle: Settle) -> None:
        """Queue uploads; the writer's thread calls `settle`. A full queue raises Unavailable."""
        request = _Request(uploads, sum([upload.size for upload in uploads]), settle)
        with self._ready:
            if not self.running:
                raise Unavailable(
                    "the server is not accepting reports; send the same body again later"
                )
            full = self._waiting_bytes + request.size > MAX_WAITING_BYTES
            if full or len(self._waiting) >= MAX_WAITING:
                raise Unavailable("the server is overloaded; send the same body again later")
            self._waiting.append(request)
            self._waiting_bytes += request.size
            if len(self._waiting) >= self._wanted:
                self._ready.notify()

    def clock_fault(self) -> str | None:
        """Return why the clock is not trusted, so that no report can be accepted, or None."""
        return self._upkeep.calendar.clock_fault()

    def count(self, outcomes: Mapping[tuple[int, str], int]) -> None:
        """Add numbers of reports by (survey sequence, outcome); the next flush stores them."""
        self._upkeep.count(outcomes)

    # The thread

    def _run(self) -> None:
        try:
            patience = 0.0  # first, without a wait, count what a killed server left
            while (group := self._next_group(patience)) is not None:
                crowded = patience == PAUSE_SECONDS or len(group) > 1 or bool(self._waiting)
                later = bool(group) and self._commit(group, later=crowded)
                patience = self._upkeep.do_what_is_due(later=later)
        except StoreLost as error:
            log.critical("%s: reports are refused until the next start", error)
        finally:
            self._end()

    def _next_group(self, patience: float) -> list[_Request] | None:
        """Return the waiting requests, up to the limits, or None when the writer stops.

        The group is empty if no request arrives within `patience` seconds.
        """
        with self._ready:
            if not self._waiting and self._state == "running":
                self._ready.wait(patience)
            if 0 < len(self._waiting) < self._last and self._state == "running":
                self._wanted = self._last
                self._ready.wait(max(GATHER_SECONDS, min(self._commit_seconds, MAX_GATHER_SECONDS)))
                self._wanted = 1
            group: list[_Request] = []
            uploads = 0
            while self._waiting and len(group) < MAX_REQUESTS and uploads < MAX_UPLOADS:
                group.append(self._waiting.popleft())
                uploads += len(group[-1].uploads)
            self._waiting_bytes -= sum(request.size for request in group)
            self._last = len(group) or self._last
            return group if group or self._state == "running" else None

    def _commit(self, group: list[_Request], *, later: bool = False) -> bool:
        """Commit a group, and return whether it must still reach the tables."""
        begin = self._clock.seconds()
        uploads = [upload for request in group for upload in request.uploads]
        later = later and not any(upload.batch for upload in uploads)  # the redo file has none
        try:
            recover(self._store, self._catalogue, serves=True)
            with self._store.transaction(later=later) as transaction:
                settled = commit(transaction, uploads)
        except StoreLost:
            self._refuse(group)
            raise
        except StoreUnusable as error:
            log.error("%s; clients will send a group of %d uploads again", error, len(uploads))
            self._refuse(group)
            return False
        except Exception:  # nothing was counted, so every client may retry
            log.exception("a group of %d uploads was not written", len(uploads))
            self._refuse(group)
            return False
        seconds = self._clock.seconds() - begin
        self._commit_seconds += (seconds - self._commit_seconds) / COMMITS_AVERAGED
        self.observe_commit(seconds)
        self._upkeep.note_committed(uploads)
        outcomes = iter(settled)
        for request in group:
            request.settle(list(islice(outcomes, len(request.uploads))))
        pairs = zip(uploads, settled, strict=True)  # the redo file holds no invitations either
        return later and not any(up.invitation and end == "accepted" for up, end in pairs)

    def _refuse(self, group: Iterable[_Request]) -> None:
        error = "the reports could not be written to disk; send the same body again later"
        for request in group:
            request.settle(Unavailable(error))

    def _end(self) -> None:
        """Refuse the waiting requests, which are not on disk, and accept no further requests."""
        with self._ready:
            self._state = "ended"
            self._refuse(self._waiting)
            self._waiting.clear()
        self._upkeep.end()
