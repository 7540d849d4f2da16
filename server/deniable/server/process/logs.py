"""Log of the server, on standard error; standard output is for the addresses.

Nothing logs a request as such. A line that repeats, as for each of thousands of requests when
the disk is full, is written once a minute, with the number of lines left out since. JSON contains
no messages of exceptions, only where they were raised: these logs are shipped unread, and a message
might contain what must not leave the machine.
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

from deniable.server.http.messages import request_id

PAUSE_SECONDS = 60.0


class Seldom(logging.Filter):
    """Filter that passes one record a minute of each line of code that logs."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._said: dict[
            tuple[str, int], tuple[float, int]
        ] = {}  # bounded by the lines of code that log

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.pathname, record.lineno), self._seconds()
        last, left_out = self._said.get(line, (now - PAUSE_SECONDS, 0))
        if now - last < PAUSE_SECONDS:
            self._said[line] = last, left_out + 1
            return False
        self._said[line] = now, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} times before)", ()
        return True


class Lines(logging.Formatter):
    """Log format for people; a line logged during a request ends with the request's id."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # its name
        line = super().formatMessage(record)
        return f"{line} ({request_id()})" if request_id() else line


class JsonLines(logging.Formatter):
    """An object in each line."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {  # Any: JSON
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if request_id():
            said["request"] = request_id()
        if record.exc_info and record.exc_info[0]:
            said["error"] = record.exc_info[0].__name__
            frames = extract_tb(record.exc_info[2])
            said["at"] = [f"{Path(each.filename).name}:{each.lineno}" for each in frames]
        return json.dumps(said)


def logging_config(*, as_json: bool) -> dict[str, Any]:  # Any: as logging.config has it
    console = {
        "class": "logging.StreamHandler",
        "stream": "ext://sys.stderr",
        "formatter": "json" if as_json else "line",
        "filters": ["seldom"],
    }
    return {
        "formatters": {
            "line": {"()": Lines, "fmt": "deniable serve: %(levelname)s: %(message)s"},
            "json": {"()": JsonLines},
        },
        "filters": {"seldom": {"()": Seldom}},
        "handlers": {"console": console},
        "loggers": {
            "_granian": {"handlers": ["console"], "propagate": False},
            "deniable": {"handlers": ["console"], "level": "INFO", "propagate": False},
        },
    }
