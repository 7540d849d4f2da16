"""`deniable serve`: one granian worker behind a port, respawned when it dies."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.http.auth import new_token
from deniable.server.process.announcing import Announcement, Ready
from deniable.server.process.lock import take_lock
from deniable.server.process.port import claim_port
from deniable.server.process.worker import load
from deniable.server.store import create_folder, create_store

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

FIRST_TOKEN = timedelta(days=365)
# Requests that wait for one commit together, and slow bodies that the server can bear: it gives a
# thread to each while it comes.
BLOCKING_THREADS = 512
STOP_SECONDS = 10
HEADER_MILLISECONDS = 10_000
# To standard error: standard output is for the address. Nothing here logs a request.
LOGGING = {
    "formatters": {"line": {"format": "deniable serve: %(levelname)s: %(message)s"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "stream": "ext://sys.stderr",
            "formatter": "line",
        }
    },
    "loggers": {
        "_granian": {"handlers": ["console"], "propagate": False},
        "deniable": {"handlers": ["console"], "level": "INFO", "propagate": False},
    },
}

Load = Callable[[Path, int, Announcement], "WSGIApplication"]


def serve(data: Path, host: str, port: int, ready: Ready, *, loader: Load = load) -> None:
    """Serve until a signal ends it. Refused, if the port or the folder is somebody else's."""
    create_folder(data)
    os.close(take_lock(data))  # a former server of it is gone, and so is its hold on the port
    chosen, claim = claim_port(host, port)
    with claim:
        token = first_token(data)
        announcement = Announcement(host, chosen, token, ready, multiprocessing.Event())
        server(data, announcement, loader)


def first_token(data: Path) -> str | None:
    """Make the store if need be, and an operator's token if it has none. Leaves nothing open."""
    with create_store(data) as store:
        if any(token.role == "operator" for token in store.tokens()):
            return None
        token, now = new_token(), datetime.now(UTC)
        store.add_token(token, "operator", now, now + FIRST_TOKEN)
        return token


def server(data: Path, announcement: Announcement, loader: Load) -> None:
    """No thread is started here: the worker must find every lock free that it inherits."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    granian = Granian(
        target="deniable",
        address=announcement.host,
        port=announcement.port,
        interface=Interfaces.WSGI,
        workers=1,  # one writer for one SQLite file
        blocking_threads=BLOCKING_THREADS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_MILLISECONDS),
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        log_access=False,  # it would write addresses
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    )
    load_it = partial(loader, data, os.getpid(), announcement)
    granian.serve(target_loader=load_it, wrap_loader=False)
