"""Progress on standard error: a bar with the time left on a terminal where rich is installed, plain
lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress(name: str, total: int, unit: str = "cells") -> Iterator[Callable[[int], None]]:
    """Gives a function to call with how many cells are finished."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        with _bar(name, total) as finished:
            yield finished
    else:
        yield _Lines(name, total, unit)


@contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


class _Lines:
    """The first line, the last, and one every few seconds."""

    def __init__(self, name: str, total: int, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._begun, self._begun_with = time.monotonic(), 0
        self._next = self._begun

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if self._next == self._begun:
            self._begun_with = done
        if now >= self._next or done == self._total:
            print(
                f"{self._name}: {done} of {self._total} {self._unit}{self._left(now, done)}",
                file=sys.stderr,
            )
            self._next = now + SECONDS_BETWEEN_LINES

    def _left(self, now: float, done: int) -> str:
        if done == self._begun_with or done == self._total:
            return ""
        seconds = (now - self._begun) / (done - self._begun_with) * (self._total - done)
        return f", about {seconds:.0f} s left"
