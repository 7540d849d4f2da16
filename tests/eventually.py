"""Waiting for something that another thread or process does, without a claim about its speed."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
PATIENCE = 60.0  # for a machine with eight times the work it can do; who waits is rarely kept


def eventually(claim: Callable[[], Value], what: str = "", patience: float = PATIENCE) -> Value:
    """Return the claim's value as soon as it is true; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := claim()):
        assert time.monotonic() < deadline, f"after {patience:g} s still not: {what or claim}"
        time.sleep(0.01)
    return found
