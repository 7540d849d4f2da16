"""`deniable serve`: one granian worker behind a port, respawned when it dies."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.http.auth import new_token
from deniable.server.process.lock import take_lock
from deniable.server.process.port import claim_port
from deniable.server.process.seldom import Seldom
from deniable.server.process.worker import load
from deniable.server.store import Place, create_folder, create_store, migrate

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

FIRST_TOKEN = timedelta(days=365)
# Requests that wait for one commit together, and slow bodies that the server can bear: it gives a
# thread to each while it comes.
BLOCKING_THREADS = 512
STOP_SECONDS = 10
HEADER_MILLISECONDS = 10_000
PAUSE_SECONDS = 0.05
# To standard error: standard output is for the address. Nothing here logs a request.
LOGGING = {
    "formatters": {"line": {"format": "deniable serve: %(levelname)s: %(message)s"}},
    "filters": {"seldom": {"()": Seldom}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "filters": ["seldom"],
            "stream": "ext://sys.stderr",
            "formatter": "line",
        }
    },
    "loggers": {
        "_granian": {"handlers": ["console"], "propagate": False},
        "deniable": {"handlers": ["console"], "level": "INFO", "propagate": False},
    },
}

Load = Callable[[Place, int, str], "WSGIApplication"]
Ready = Callable[[str, "str | None"], None]  # the address, and the first start's token


def serve(
    place: Place,
    host: str,
    port: int,
    ready: Ready,
    *,
    trust_clock: bool = False,
    loader: Load = load,
) -> None:
    """Serve until a signal ends it. Refused, if the port or the folder is somebody else's."""
    if isinstance(place, Path):
        _prepare(place)
    chosen, claim = claim_port(host, port)
    with claim:
        token = first_token(place)
        if trust_clock:
            with create_store(place) as store:
                store.keep_day(datetime.now(UTC).date())
        announce = threading.Thread(
            target=_announce,
            args=(host, chosen, partial(ready, _url(host, chosen), token)),
            daemon=True,
        )
        announce.start()
        server(place, host, chosen, loader)


def _prepare(data: Path) -> None:
    create_folder(data)
    lock = take_lock(data)  # a former server of it is gone, and so is its hold on the port
    migrate(data)
    os.close(lock)


def first_token(place: Place) -> str | None:
    """Make the store if need be, and an operator's token if it has none. Leaves nothing open."""
    with create_store(place) as store:
        if any(token.role == "operator" for token in store.tokens()):
            return None
        token, now = new_token(), datetime.now(UTC)
        store.add_token(token, "operator", now, now + FIRST_TOKEN)
        return token


def server(place: Place, host: str, port: int, loader: Load) -> None:
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    granian = Granian(
        target="deniable",
        address=host,
        port=port,
        interface=Interfaces.WSGI,
        workers=1,  # one writer: for several, start several servers on one PostgreSQL
        blocking_threads=BLOCKING_THREADS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_MILLISECONDS),
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        log_access=False,  # it would write addresses
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    )
    node = f"{socket.gethostname()}:{port}"
    granian.serve(target_loader=partial(loader, place, os.getpid(), node), wrap_loader=False)


def _announce(host: str, port: int, ready: Callable[[], None]) -> None:
    """Once the worker answers. Plain sockets: this thread holds no lock when the worker forks."""
    while not _answers(host, port):
        time.sleep(PAUSE_SECONDS)
    ready()


def _answers(host: str, port: int) -> bool:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # every address is this one too
    try:
        with socket.create_connection((target, port), timeout=2) as connection:
            connection.sendall(
                b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            return connection.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
