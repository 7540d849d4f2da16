"""Ending early: what was started is stopped, and what was written is deleted, whichever signal it
is that ends the demo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# As Ctrl-C; a closed terminal sends SIGHUP, which Windows does not have.
ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the block; those that come while it cleans up
    change nothing."""
    before = {each: signal.signal(each, _interrupt) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(TypeError):  # one that was not set by Python
                signal.signal(each, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
