"""Diagnostics: escaping of text from outside, and the log `deniable.client`.

The log tells those who run the app why nothing was fetched or sent. The first failure of a
kind in an hour is a warning; later ones are information. Messages contain only error codes and
statuses, and no text from a server. No record contains an answer, a report or an id, and none
depends on an answer.
"""

from __future__ import annotations

import atexit
import time
from functools import cache

WARNING_INTERVAL_SECONDS = 3600.0
LOG = "deniable.client"
MAX_SHOWN_CHARACTERS = 300  # before escaping

_warned: dict[str, float] = {}
_ended = False


def escaped(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """Return the text as one short line without control characters.

    It cannot move a cursor, colour a terminal, begin a new line or change the writing direction.
    """
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode()
        for sign in text[:limit]
    )
    return shown if len(text) <= limit else f"{shown}…"


def log_failure(kind: str, message: str) -> None:
    """Log a failure. `kind` is one of a few words, so the number of warnings is limited."""
    if _ended:
        return
    import logging

    now = time.monotonic()
    recent = kind in _warned and now - _warned[kind] < WARNING_INTERVAL_SECONDS
    if not recent:
        _warned[kind] = now
    logging.getLogger(LOG).log(logging.INFO if recent else logging.WARNING, "%s", message)


@cache
def prepare_log() -> None:
    """Load `logging`, before a thread starts that may log: its exit hook runs after `_end`."""
    import logging  # takes longer than a call that starts no thread

    logging.getLogger(LOG).addHandler(logging.NullHandler())  # the app decides where the log goes
    atexit.register(_end)


def _end() -> None:
    """Stop logging before `logging` closes its handlers, which would then print tracebacks."""
    global _ended
    _ended = True
