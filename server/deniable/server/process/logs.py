"""Log of a server or relay, on standard error; standard output is for the addresses.

Requests are not logged. A line that repeats, for example for each request while the disk is full,
is written once a minute, with the number of omitted lines. JSON logs show where an exception was
raised, but not its message: no one reads these logs before they are sent to other machines, and a
message might contain data that must not leave this one.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb
from typing import Any

from deniable.server.http.messages import REQUEST_ID
from deniable.shared.errors import quantity

PAUSE_SECONDS = 60.0


class Seldom(logging.Filter):
    """Filter that passes one record per minute for each logging call in the code."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        # Keyed by logging call, so bounded: time of the last passed record, records left out since.
        self._passed: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.pathname, record.lineno), self._seconds()
        last, left_out = self._passed.get(line, (now - PAUSE_SECONDS, 0))
        if now - last < PAUSE_SECONDS:
            self._passed[line] = last, left_out + 1
            return False
        self._passed[line] = now, 0
        if left_out:
            record.msg, record.args = (
                f"{record.getMessage()} (repeated {quantity(left_out, 'time')})",
                (),
            )
        return True


class Lines(logging.Formatter):
    """Log format for people. Lines logged during a request end with its id."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # its name
        line = super().formatMessage(record)
        return f"{line} ({request})" if (request := REQUEST_ID.get()) else line


class JsonLines(logging.Formatter):
    """Log format with one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        logged: dict[str, Any] = {  # Any: JSON
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if request := REQUEST_ID.get():
            logged["request"] = request
        if record.exc_info and record.exc_info[0]:
            logged["error"] = record.exc_info[0].__name__
            frames = extract_tb(record.exc_info[2])
            logged["at"] = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
        return json.dumps(logged)


def logging_config(verb: str, *, as_json: bool = False) -> dict[str, Any]:  # Any: logging.config's
    console = {
        "class": "logging.StreamHandler",
        "stream": "ext://sys.stderr",
        "formatter": "json" if as_json else "line",
        "filters": ["seldom"],
    }
    return {
        "formatters": {
            "line": {"()": Lines, "fmt": f"deniable {verb}: %(levelname)s: %(message)s"},
            "json": {"()": JsonLines},
        },
        "filters": {"seldom": {"()": Seldom}},
        "handlers": {"console": console},
        "loggers": {
            "_granian": {"handlers": ["console"], "propagate": False},
            "deniable": {"handlers": ["console"], "level": "INFO", "propagate": False},
        },
    }
