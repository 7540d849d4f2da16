"""Forks: what a forked child must not inherit, remade before it is used.

A lock that another thread held at the fork stays locked in the child forever, threads do not come
along, and an open SQLite connection must not be carried over at all. `os.fork` tells us; a fork
made in C (uWSGI) does not, so what is watched also compares process numbers when it is used.
gevent's patch is like a fork: a lock that was made before it stops all greenlets of the process.
"""

from __future__ import annotations

import os
import threading
from weakref import ref


class ForkAware:
    """Something with locks or threads of its own. Call `same_process` first in each method."""

    def __init__(self) -> None:
        """Whatever was inherited is remade first: what is new may share its files."""
        for each in _all_watched():
            each.same_process()
        self._remake()
        _watched.add(ref(self, _watched.discard))

    def same_process(self) -> None:
        if self._made_in != _here():
            self._remake()

    def before_fork(self) -> None:
        """Come to rest, so that the child finds nothing half done."""

    def after_fork(self) -> None:
        """In the parent: go on."""

    def remake(self) -> None:
        """New locks, no threads; called on creation and in each forked child."""
        raise NotImplementedError

    def _remake(self) -> None:
        self._made_in = _here()
        self.remake()


def _here() -> tuple[int, object]:
    """The process, and the kind of lock that its threads have."""
    return os.getpid(), threading.Lock


# Weak references, as of a WeakSet; but a copy is made in one step, whatever other threads add.
_watched: set[ref[ForkAware]] = set()


def _all_watched() -> list[ForkAware]:
    return [each for reference in _watched.copy() if (each := reference()) is not None]


def _before() -> None:
    for each in _all_watched():
        each.before_fork()


def _after_in_parent() -> None:
    for each in _all_watched():
        each.after_fork()


def _after_in_child() -> None:
    for each in _all_watched():
        each._remake()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
