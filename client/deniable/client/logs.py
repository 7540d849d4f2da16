"""The log `deniable.client`: why nothing was fetched or sent, for those who run the app.

The first failure of a kind in an hour is a warning, the others are information. What is said is
made of error codes and statuses, and of nothing that a server has said: no answer, no report, no id
of an envelope or a person can be in it, and no record depends on an answer.
"""

from __future__ import annotations

import atexit
import logging
import time

WARNING_SECONDS = 3600.0

_log = logging.getLogger("deniable.client")
_log.addHandler(logging.NullHandler())  # where it goes is the app's to say
_warned: dict[str, float] = {}
_ended = False


def failed(kind: str, message: str) -> None:
    """`kind` is one of a few words, so that no failure can warn without an end."""
    if _ended:
        return
    now = time.monotonic()
    known = kind in _warned and now - _warned[kind] < WARNING_SECONDS
    if not known:
        _warned[kind] = now
    _log.log(logging.INFO if known else logging.WARNING, "%s", message)


@atexit.register
def _end() -> None:
    """Before `logging` closes its handlers, as it was imported first: a thread that is still
    sending would have them print tracebacks."""
    global _ended
    _ended = True
