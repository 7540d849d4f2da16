"""Waiting for another thread or process, without any claim about its speed."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
PATIENCE = 60.0  # allows for a machine that is overloaded eightfold; waits are rarely this long


def eventually(claim: Callable[[], Value], what: str = "", patience: float = PATIENCE) -> Value:
    """Return the value of the claim once it is true; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := claim()):
        assert time.monotonic() < deadline, f"after {patience:g} s, not true: {what or claim}"
        time.sleep(0.01)
    return found
