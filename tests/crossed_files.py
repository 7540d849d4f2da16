"""Tracing of the product files that one piece of work passes through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

PARTS = tuple(f"/{part}/deniable/{part}/" for part in ("client", "server", "shared", "simulations"))


@contextmanager
def traced() -> Iterator[set[str]]:
    """Collect the files whose functions this thread calls; importing a module is not a call."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code.co_name != "<module>" and any(part in code.co_filename for part in PARTS):
                files.add(code.co_filename)

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


def short(files: set[str]) -> str:
    """Return the files for a failure message, one per line, without their common prefix."""
    names = (file.split("/deniable/", 1)[-1] for file in files)
    return "\n".join(sorted(names))
