"""Signal safety: calls that an exception raised by a signal handler cannot break off halfway.

Python runs signal handlers on the main thread, between any two instructions. A handler that raises
(Ctrl-C, Celery's soft time limit) could leave a lock taken and a transaction open. So a call from
the main thread runs on a thread of its own, and the main thread waits for it in one system call.
An interrupted caller gets the exception immediately, and the call completes in its thread.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from typing import Generic, ParamSpec, TypeVar

START_SECONDS = 1.0  # a thread that has not begun by then never may, for lack of memory
LOCK_WAIT_SECONDS = 0.25  # of one call, because it may run within a request to the app

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class LockWait:
    """Remaining time that one call may wait for locks and databases, in all its transactions."""

    def __init__(self, seconds: float | None = None) -> None:
        self.rest = LOCK_WAIT_SECONDS if seconds is None else seconds

    def spend_since(self, begin: float) -> None:
        self.rest = max(0.0, self.rest - (time.monotonic() - begin))

    def share(self, call: Callable[[], Result]) -> Result:
        """Run a call whose transactions, and calls, share this wait."""
        context = copy_context()
        context.run(_lock_wait.set, self)
        return context.run(call)


_lock_wait = ContextVar[LockWait | None]("deniable_lock_wait", default=None)


def lock_wait_of_call() -> LockWait:
    """Return the wait of the public call that runs here; outside of one, a new wait."""
    return _lock_wait.get() or LockWait()


class GivenAnswers:
    """Answers of one call. A tracker that shows a traceback's variables shows no answer."""

    __slots__ = ("values",)

    def __init__(self, answers: Mapping[str, object]) -> None:
        self.values = dict(answers)

    def clear(self, error: BaseException) -> None:
        """Erase the answers, and the frames that could hold a part of them, from an exception."""
        self.values.clear()
        error.__traceback__ = error.__context__ = error.__cause__ = None


def signal_safe(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run each call from the main thread on a thread of its own. Other threads get no signals."""

    @wraps(method)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        work = _Work(partial(method, *args, **kwargs))
        if threading.get_ident() == threading.main_thread().ident:
            work.run_apart()
        else:
            work.run()
        return work.result()

    return call


class _Work(Generic[Result]):
    """One call, run once: by its thread, or by the caller if that thread cannot start."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call, self._lock_wait = call, lock_wait_of_call()
        self._claim, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._value = self._lock_wait.share(self._call)
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error
        finally:
            self._done.release()

    def run_apart(self) -> None:
        """Run on another thread. `threading.Thread` takes locks that an exception could leave."""
        try:
            _thread.start_new_thread(self.run, ())
        except RuntimeError:  # too many threads, or the interpreter is ending
            self.run()
        while not self._done.acquire(timeout=START_SECONDS):
            self.run()  # does nothing once the thread has begun

    def result(self) -> Result:
        error = self.__dict__.pop("_error", None)
        if error is not None:
            raise error
        return self._value
