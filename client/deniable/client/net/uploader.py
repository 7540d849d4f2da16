"""The uploader: a background thread that sends waiting envelopes, alone or in batches.

The thread starts when there is something to send and ends when nothing is left. While a draft waits
for the end of its round, the thread looks once an hour. Failures are retried with exponential
backoff and full jitter [1]: after n failures in a row the pause is uniform between 0 and a limit
that doubles with n, so that devices that fail together do not return together. A pause that the
server asks for is a minimum, which no flush shortens. Random time is added to it, up to its own
length or a minute; otherwise the server could recognize a device by the time of its return.

Each envelope waits for a random moment, which a flush overrides, and is sent a few times only
(state/outbox.py). Retries send the same bytes, and the server deduplicates them by id. No
transaction is open during an exchange.

[1] Brooker 2015, "Exponential backoff and jitter", AWS Architecture Blog.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from weakref import WeakKeyDictionary

from deniable.client.diagnostics import escaped, log_failure, prepare_log
from deniable.client.fork_safety import ForkAware
from deniable.client.net.batches import RESERVED_TIMES, Batches
from deniable.client.net.delivery import DeliveryResult, delivery_result
from deniable.client.net.transport import Transport, Unreachable
from deniable.client.policy import Settings
from deniable.client.signal_safety import LockWait
from deniable.client.state import Transaction, outbox
from deniable.client.state.drafts import freeze
from deniable.client.state.outbox import QueuedEnvelope, uniform
from deniable.client.state.store import UNUSABLE, State

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 3600.0
MIN_SPREAD_SECONDS = 60.0
MIN_REST_SECONDS = 0.01  # the thread rests at least this long before it checks again
MAX_REST_SECONDS = 3600.0  # the monotonic clock may stand still while a machine sleeps
MAX_DOUBLINGS = 20  # reaches every limit without overflow
GATHER_SECONDS = 1.0  # between looks at the outbox, where reports of many people wait
STEP_SECONDS = 10.0  # longest wait for a database, in the thread
EXIT_SECONDS = 2.0  # time for all clients together when the process ends


class Backoff:
    """Pause after failures, with exponential backoff."""

    def __init__(
        self,
        first: float,
        longest: float,
        monotonic: Callable[[], float],
        uniform: Callable[[float, float], float] = uniform,
    ) -> None:
        self._first, self._longest = first, longest
        self._monotonic, self._uniform = monotonic, uniform
        self.reset()

    def reset(self) -> None:
        """End the pause after a success, and count the next failure as the first."""
        self._failures, self._not_before, self.until = 0, 0.0, 0.0

    def fail(self, requested: float = 0.0) -> None:
        """Count a failure, with the seconds that the server asked for."""
        now = self._monotonic()
        limit = min(self._longest, self._first * 2.0 ** min(self._failures, MAX_DOUBLINGS))
        self._failures += 1
        if requested:
            requested += self._uniform(0, max(requested, MIN_SPREAD_SECONDS))
        self._not_before = now + requested
        self.until = now + max(requested, self._uniform(0, limit))

    def hurry(self) -> None:
        """End the pause, except for the time that the server asked for."""
        self.until = self._not_before

    @property
    def rest(self) -> float:
        """Seconds left of the pause; 0 or less when it is over."""
        return self.until - self._monotonic()


class Uploader(ForkAware):
    """Background thread that sends the envelopes of all people to one server."""

    def __init__(
        self,
        settings: Settings,
        state: State,
        transport: Transport,
        relay: Transport | None,
        batches: Batches | None = None,
    ) -> None:
        """Prepare to send sealed envelopes through `relay`, or all in `batches`, if given.

        If batches are sent or the state is shared, the thread gathers reports for a while.
        """
        self._state, self._transport, self._relay = state, transport, relay
        self._batches = batches
        self._gather = GATHER_SECONDS if batches or state.is_shared else 0.0
        self._server, self._now = settings.server, settings.now
        self._monotonic = settings.monotonic
        self._send_within, self.send_seconds = settings.send_within, settings.timeout
        super().__init__()

    def remake(self) -> None:
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = self._stopping = False
        self._events = self._flushes = self._hurries = 0
        self._hurried = 0  # envelopes up to this number are sent without waiting for their moment
        self._exhausted = -1  # no envelope up to this number can be sent now
        self._due = 0.0  # on the monotonic clock; nothing is sent earlier
        self._rescheduled = False
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, self._monotonic)

    def report_queued(self) -> None:
        """Send a report that was queued in this process, at the latest when the process ends."""
        self.wake()
        _send_at_exit(self)

    def wake(self) -> None:
        """Start sending. This does not cut short the pause after a failure."""
        self.same_process()
        with self._change:
            self._woken = True
            self._due = min(self._due, self._monotonic() + self._gather)
            self._start()

    def flush(self, timeout: float, ending: bool = False) -> int:
        """Send waiting envelopes, unless the server asked for a pause. Return the number left.

        Where machines share the state, these are the envelopes that this process has queued.
        """
        self.same_process()
        deadline = self._monotonic() + min(timeout, threading.TIMEOUT_MAX / 2)
        self._state.write_postponed()
        with self._state.transaction(durable=False) as db:
            some = self._state.is_shared or (ending and self._batches is not None)
            own = self._hurry_some(db, ending) if some else []
            newest = 0 if some else outbox.newest(db)
        self._hurry(newest, bool(own or newest))
        try:
            return self._wait(newest, own, deadline)
        finally:
            with self._change:
                self._flushes -= 1
                self._hurried = self._hurried if self._flushes else 0

    def stop(self, timeout: float) -> None:
        """End the thread after the current envelope. It starts again when it is needed."""
        _queued_in.pop(self, None)
        self.same_process()
        with self._change:
            thread, self._stopping = self._thread, self._thread is not None
            self._change.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _hurry_some(self, db: Transaction, ending: bool) -> list[int]:
        """Make envelopes due: those of this process, or the oldest of a folder. Return the numbers.

        At the end of a process with batches, only those of one survey and round: in two bodies that
        arrive together, the server could link one person's surveys. The rest waits for its moment.
        """
        now, server = self._now(), self._server
        is_shared = self._state.is_shared
        queued = [*self._state.queued] if is_shared else outbox.oldest(db, server, now)
        rows = outbox.still_waiting(db, server, queued)
        if ending and self._batches:
            rows = [row for row in rows if row[1:] == rows[0][1:]]
        numbers = [number for number, *_ in rows]
        outbox.hurry(db, numbers, now)
        return numbers

    def _wait(self, newest: int, own: list[int], deadline: float) -> int:
        """Wait until the envelopes are sent, or until none of them can be sent in time.

        Another process may be sending them, and this one does if that one ends.
        """
        while True:
            with self._change:
                seen = self._events
            with self._state.read() as db:
                left = outbox.waiting(db, self._server, newest) if newest else 0
                left += len(outbox.still_waiting(db, self._server, own))
                longest = RESERVED_TIMES * self.send_seconds
                busy = outbox.are_being_sent(db, self._server, own, self._now(), longest)
            with self._change:
                rest = deadline - self._monotonic()
                idle = self._thread is None or self._backoff.until > deadline
                ended = (self._exhausted >= newest and not busy) or idle
                # after an event, `left` may be out of date: a read waits for no writer
                if left == 0 or rest <= 0 or (ended and self._events == seen):
                    return left
                while self._events == seen and self._change.wait(deadline - self._monotonic()):
                    pass

    def _hurry(self, newest: int, wake: bool) -> None:
        """Send envelopes up to this number without waiting for their moment, during a flush."""
        with self._change:
            self._flushes, self._hurried = self._flushes + 1, max(self._hurried, newest)
            self._exhausted, self._hurries = -1, self._hurries + 1
            if wake:
                self._woken, self._due = True, 0.0
                self._backoff.hurry()
                self._start()

    # The thread

    def _start(self) -> None:
        """Start the thread, under the lock. At the end of the interpreter, no thread can start."""
        self._stopping = False
        if self._thread is None:
            prepare_log()  # which ends after `_exit_hook`
            run = Context().run  # without the lock wait of the call that starts it
            thread = threading.Thread(
                target=run, args=(self._run,), name="deniable-uploader", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                return
            self._thread = thread
        self._change.notify_all()

    def _run(self) -> None:
        try:
            with suppress(*UNUSABLE):  # not even a pause can be drawn; the next wake tries again
                while self._is_time():
                    if self._state.is_shared:
                        self._note(LockWait(STEP_SECONDS).share(self._send_one))
                    else:
                        self._note(self._send_one())
        finally:
            if self._batches:
                self._batches.close()
            self._forget_thread()

    def _forget_thread(self) -> None:
        """Let the next wake start a thread, and no flush wait for this one."""
        with self._change:
            if self._thread is threading.current_thread():
                self._thread, self._stopping = None, False
            self._events += 1
            self._change.notify_all()

    def _is_time(self) -> bool:
        """Wait until it is time to send; return False when nothing is left to do."""
        with self._change:
            while not self._stopping:
                rest = max(self._backoff.rest, self._due - self._monotonic())
                if rest <= 0:
                    break
                self._change.wait(rest)
            if self._stopping or not self._woken:
                self._thread, self._stopping = None, False  # under this lock: a wake restarts it
                return False
            self._woken = False
            return True

    def _note(self, result: DeliveryResult | float | None) -> None:
        """Record the result of sending, or the number of seconds until the next envelope is due."""
        with self._change:
            self._events += 1
            pause = 0.0 if self._flushes else self._gather
            if isinstance(result, float):  # unless an envelope came in the meantime
                rest = min(result, pause) if self._woken else max(result, pause)
                self._due = self._monotonic() + rest
            elif self._batches and not self._batches.is_full:
                self._due = self._monotonic() + pause
            self._woken = self._woken or result is not None
            if isinstance(result, DeliveryResult) and result.settled is None:
                self._backoff.fail(result.pause)
                self._rescheduled = False
            elif not isinstance(result, float):
                self._backoff.reset()
            self._change.notify_all()

    # One envelope

    def _send_one(self) -> DeliveryResult | float | None:
        """Send one envelope. If none can be sent, return the seconds until one is due, or None."""
        try:
            self._state.write_postponed()
            taken = self._take()
            if isinstance(taken, list):
                return self._send_batch(taken)
            if not isinstance(taken, QueuedEnvelope):
                return taken
            result = self._send(taken)
            _log(result)
            if result.settled is not None:
                with self._state.transaction(durable=False) as db:
                    outbox.finish(db, taken, result.settled, result.detail)
            elif self._state.is_shared or not result.reached:
                with self._state.transaction(durable=False) as db:
                    outbox.release(db, [taken], result.reached)
            return result
        except UNUSABLE:
            log_failure("state", "the state on disk cannot be used, so nothing is sent")
            return DeliveryResult(None, "the state cannot be used")

    def _send_batch(self, taken: list[QueuedEnvelope]) -> DeliveryResult:
        """Send a batch. Return the result of a report that must be sent again, if there is any."""
        assert self._batches is not None, "it has taken them"
        results = self._batches.send(taken)
        for result in results:
            _log(result)
        return min(results, key=lambda result: result.settled is not None)

    def _take(self) -> list[QueuedEnvelope] | QueuedEnvelope | float | None:
        """Return an envelope or a batch, after counting its try; a first try is counted on disk.

        A draft is frozen in the same transaction, and its slot is zeroed right after it.
        """
        now, hurried, hurries = self._now(), self._hurried, self._hurries
        limits = self._server, now, hurried, self._send_within
        with self._state.transaction(durable=False) as db:
            outbox.delete_expired(db, now)
            outbox.send_again(db, self._server, now)
            tries, rest = None, None
            if not self._state.consents.obstacle(db):
                if not self._rescheduled:
                    outbox.reschedule(db, self._server, now, self._send_within, hurried)
                    self._rescheduled = True
                tries = 0 if self._batches else outbox.fewest_tries(db, *limits)
                rest = outbox.seconds_until_due(db, self._server, now)
        taken = None
        if tries is not None and self._batches:
            with self._state.transaction() as db:
                if batch := self._batches.take(db, *limits):
                    return batch
        elif tries is not None:
            with self._state.transaction(durable=tries == 0) as db:
                reserved = RESERVED_TIMES * self.send_seconds if self._state.is_shared else 0.0
                taken = outbox.take(db, *limits, tries, reserved)
                if taken is not None and taken.slot is not None:
                    return freeze(db, self._state.drafts, taken) or MIN_REST_SECONDS
        if taken is not None:
            return taken
        if hurries == self._hurries:  # or a flush has begun, and waits for a later look
            self._exhausted = hurried
        return None if rest is None else min(max(rest, MIN_REST_SECONDS), MAX_REST_SECONDS)

    def _send(self, envelope: QueuedEnvelope) -> DeliveryResult:
        from deniable.shared.envelope import CONTENT_TYPE
        from deniable.shared.sealed_envelope import MAGIC, SEALED_TYPE

        sealed = envelope.packed.startswith(MAGIC)
        carrier = self._relay if sealed and self._relay else self._transport
        kind = SEALED_TYPE if sealed else CONTENT_TYPE
        try:
            return delivery_result(
                carrier.request("POST", "/v1/envelopes", envelope.packed, kind, self.send_seconds)
            )
        except Unreachable as error:
            return DeliveryResult(None, escaped(str(error)), 0.0, error.sent, error.kind)


def _log(result: DeliveryResult) -> None:
    """Log a failure without any text from the server, which could repeat the report."""
    if result.settled == "refused":
        log_failure("refusal", "the server refused a report; `deniable sent` shows why")
    elif result.settled is None:
        log_failure(result.kind, f"a report was not sent, and will be tried again: {result.detail}")


# When the process ends, the reports that it queued get a last, short try

_queued_in: WeakKeyDictionary[Uploader, int] = WeakKeyDictionary()  # the process that queued


def _send_at_exit(uploader: Uploader) -> None:
    if not _queued_in:
        atexit.unregister(_exit_hook)
        atexit.register(_exit_hook)
    _queued_in[uploader] = os.getpid()


def _exit_hook(monotonic: Callable[[], float] = time.monotonic) -> None:
    """Flush every uploader of this process. A forked child does not send its parent's reports."""
    deadline = monotonic() + EXIT_SECONDS
    for uploader, process in list(_queued_in.items()):
        if process == os.getpid() and (rest := deadline - monotonic()) > 0:
            with suppress(*UNUSABLE):
                uploader.flush(rest, ending=True)
