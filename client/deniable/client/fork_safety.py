"""Fork safety: locks and threads that a forked child must not inherit are replaced before use.

A lock that another thread held at the fork stays locked in the child forever, and the child has no
copies of the parent's other threads. `os.fork` calls our hooks; a fork made in C (uWSGI) does not,
so each method compares the process id as well. gevent's patch is handled like a fork: a lock made
before it would block all greenlets of the process.
"""

from __future__ import annotations

import os
import threading
from weakref import ref


class ForkAware:
    """Base of objects with locks or threads. Call `same_process` first in each method."""

    def __init__(self) -> None:
        """Replace inherited locks and threads first, because a new object may share their files."""
        for watched in _all_watched():
            watched.same_process()
        self._remake()
        _watched.add(ref(self, _watched.discard))

    def same_process(self) -> None:
        if self._made_in != (os.getpid(), threading.Lock):
            self._remake()

    def before_fork(self) -> None:
        """Finish the work in progress, so that the child inherits no partial work."""

    def after_fork(self) -> None:
        """Resume in the parent."""

    def remake(self) -> None:
        """Make new locks and forget threads; called on creation and in each forked child."""
        raise NotImplementedError

    def _remake(self) -> None:
        self._made_in = (os.getpid(), threading.Lock)  # the process, and its kind of lock
        self.remake()


# Unlike a WeakSet, this can be copied in one step, so that other threads may add objects.
_watched: set[ref[ForkAware]] = set()


def _all_watched() -> list[ForkAware]:
    return [watched for reference in _watched.copy() if (watched := reference()) is not None]


def _before() -> None:
    for watched in _all_watched():
        watched.before_fork()


def _after_in_parent() -> None:
    for watched in _all_watched():
        watched.after_fork()


def _after_in_child() -> None:
    for watched in _all_watched():
        watched._remake()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
