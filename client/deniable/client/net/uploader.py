"""The uploader: one background thread that sends what waits for its own server, of all people, one
envelope in each request.

It starts when there is something to send and ends when there is nothing left, so a fork, an exit
or a quiet day finds no idle thread. Failures are retried with exponential backoff and full jitter,
never before the server's Retry-After. Each envelope waits for a random moment of its own, which a
flush overrides, and is sent a few times only (state/sending.py). It is the same bytes on every
retry, so sending is idempotent: the server deduplicates by id. The network never holds the
database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from deniable.client.consent import Consents
from deniable.client.escaping import escaped
from deniable.client.forking import ForkAware
from deniable.client.logs import failed
from deniable.client.net.backoff import Backoff
from deniable.client.net.delivery import DeliveryResult, delivery_result
from deniable.client.net.transport import Transport, Unreachable
from deniable.client.state import outbox, sending
from deniable.client.state.connection import State
from deniable.client.state.outbox import QueuedEnvelope
from deniable.shared.errors import StoreUnusable

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 3600.0


class Uploader(ForkAware):
    def __init__(
        self,
        state: State,
        server: str,
        transport: Transport,
        consents: Consents,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        timeout: float,
        send_within: float,
        relay: Transport | None = None,  # for sealed envelopes, which then take no other way
    ) -> None:
        self._relay = relay
        self._send_within, self.send_seconds = send_within, timeout
        self._state, self._server, self._transport, self._now = state, server, transport, now
        self._consents, self._monotonic = consents, monotonic
        super().__init__()

    def remake(self) -> None:
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = self._stopping = False
        self._events = self._flushes = self._fence = 0
        self._due = 0.0  # on the monotonic clock: before it nothing is to be sent
        self._scattered = False
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, self._monotonic)

    def wake(self) -> None:
        """There is something to send. After a failure, the pause goes on."""
        self.same_process()
        with self._change:
            self._woken, self._due = True, 0.0
            self._start()

    def flush(self, timeout: float) -> int:
        """Send what waits now, at once unless the server asked for a pause; returns what's left."""
        self.same_process()
        deadline = self._monotonic() + min(timeout, threading.TIMEOUT_MAX / 2)
        with self._state.transaction(durable=False) as db:
            fence = outbox.newest(db)
        self._hurry(fence)
        try:
            return self._wait(fence, deadline)
        finally:
            with self._change:
                self._flushes -= 1
                self._fence = self._fence if self._flushes else 0

    def _wait(self, fence: int, deadline: float) -> int:
        while True:
            with self._change:
                seen = self._events
            left = self._left(fence)
            with self._change:
                rest = deadline - self._monotonic()
                idle = self._thread is None or max(self._backoff.until, self._due) > deadline
                if left == 0 or rest <= 0 or (idle and self._events == seen):
                    return left
                while self._events == seen and self._change.wait(deadline - self._monotonic()):
                    pass

    def stop(self, timeout: float) -> None:
        """End the thread after the envelope in hand. It starts again when it is needed."""
        self.same_process()
        with self._change:
            thread, self._stopping = self._thread, self._thread is not None
            self._change.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    # The thread

    def _start(self) -> None:
        """Under the lock. At the interpreter's end no thread starts: the outbox is on disk."""
        self._stopping = False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="deniable-uploader", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return
            self._thread = thread
        self._change.notify_all()

    def _hurry(self, fence: int) -> None:
        """All up to the fence may be sent at once, for as long as a flush waits."""
        with self._change:
            self._flushes, self._fence = self._flushes + 1, max(self._fence, fence)
            if fence:
                self._woken, self._due = True, 0.0
                self._backoff.hurry()
                self._start()

    def _run(self) -> None:
        try:
            while self._turn():
                self._note(self._send_one())
        finally:
            self._ended()

    def _ended(self) -> None:
        """However it ended, the next wake starts a thread, and no flush waits for this one."""
        with self._change:
            if self._thread is threading.current_thread():
                self._thread, self._stopping = None, False
            self._events += 1
            self._change.notify_all()

    def _turn(self) -> bool:
        """Wait until it is time to send; False when there is nothing more to do."""
        with self._change:
            while not self._stopping and (rest := self._rest()) > 0:
                self._change.wait(rest)
            if self._stopping or not self._woken:
                self._thread, self._stopping = None, False
                self._events += 1
                self._change.notify_all()
                return False
            self._woken = False
            return True

    def _rest(self) -> float:
        return max(self._backoff.rest, self._due - self._monotonic())

    def _note(self, result: DeliveryResult | float | None) -> None:
        with self._change:
            self._events += 1
            if isinstance(result, float):  # unless something came meanwhile
                self._due = 0.0 if self._woken else self._monotonic() + result
            self._woken = self._woken or result is not None
            if isinstance(result, DeliveryResult) and result.settled is None:
                self._backoff.fail(result.pause)
                self._scattered = False
            elif not isinstance(result, float):
                self._backoff.reset()
            self._change.notify_all()

    # One envelope

    def _send_one(self) -> DeliveryResult | float | None:
        """What became of one envelope; or in how many seconds the next one is due; or None."""
        try:
            taken = self._take()
            if not isinstance(taken, QueuedEnvelope):
                return taken
            result = self._send(taken)
            _log(result)
            if result.settled is not None:
                with self._state.transaction(durable=False) as db:
                    outbox.finish(db, taken, result.settled, result.detail)
            elif not result.reached:
                with self._state.transaction(durable=False) as db:
                    sending.untake(db, taken)
            return result
        except StoreUnusable:
            failed("state", "the state on disk cannot be used, so nothing is sent")
            return DeliveryResult(None, "the state cannot be used")

    def _take(self) -> QueuedEnvelope | float | None:
        now, fence = self._now(), self._fence
        with self._state.transaction(durable=False) as db:
            outbox.delete_expired(db, now)
            if self._consents.obstacle(db):
                return None
            if not self._scattered:
                sending.scatter(db, self._server, now, self._send_within, fence)
                self._scattered = True
            taken = sending.take(db, self._server, now, fence, self._send_within)
            return taken or sending.rest(db, self._server, now)

    def _send(self, first: QueuedEnvelope) -> DeliveryResult:
        from deniable.shared.envelope import CONTENT_TYPE
        from deniable.shared.sealed_envelope import MAGIC, SEALED_TYPE

        sealed = first.packed.startswith(MAGIC)
        carrier = self._relay if sealed and self._relay else self._transport
        kind = SEALED_TYPE if sealed else CONTENT_TYPE
        try:
            return delivery_result(
                carrier.request("POST", "/v1/envelopes", first.packed, kind, self.send_seconds)
            )
        except Unreachable as error:
            return DeliveryResult(None, escaped(str(error)), 0.0, error.sent, error.kind)

    def _left(self, fence: int) -> int:
        with self._state.transaction(durable=False) as db:
            return outbox.waiting(db, self._server, fence)


def _log(result: DeliveryResult) -> None:
    """Not what a server calls its refusal: it could repeat the report, or name the device."""
    if result.settled == "refused":
        failed("refusal", "the server refused a report; `deniable sent` shows why")
    elif result.settled is None:
        failed(result.kind, f"a report was not sent, and is tried again later: {result.detail}")
