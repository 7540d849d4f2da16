"""`deniable serve`: one granian worker behind a port, respawned when it dies."""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from deniable.server.http.auth import new_token
from deniable.server.process.announcing import Announcement, Ready
from deniable.server.process.lock import take_lock
from deniable.server.process.logs import logging_config
from deniable.server.process.port import claim_port
from deniable.server.process.settings import Settings
from deniable.server.process.worker import load
from deniable.server.store import Place, create_folder, create_store, is_begun
from deniable.server.store.sqlite.inspection import check_tables

FIRST_TOKEN = timedelta(days=365)
STOP_SECONDS = 10
HEADER_MILLISECONDS = 10_000  # to send a head, and to stay connected without a request
HEAD_BYTES = 2**15
MOST_CONNECTIONS = 2_048  # the others wait to be accepted
SPARE_HANDLES = 128  # for files, and for whatever else is open


def serve(place: Place, host: str, port: int, ready: Ready, settings: Settings) -> None:
    """Serve until a signal ends it. Refused, if the port or the folder is somebody else's."""
    new = isinstance(place, Path) and not place.exists()  # then nothing has served it before
    if not new:
        _prepare(place)
    chosen, claim = claim_port(host, port)
    with claim:
        if new:  # no folder is left by a start that fails
            _prepare(place)
        token = first_token(place)
        if settings.trust_clock:
            with create_store(place) as store:
                store.keep_day(datetime.now(UTC).date())
        announcement = Announcement(host, chosen, token, ready, multiprocessing.Event())
        server(place, settings, announcement)


def _prepare(data: Place) -> None:
    if not isinstance(data, Path):
        return
    create_folder(data)
    lock = take_lock(data)  # a former server of it is gone, and so is its hold on the port
    try:
        if is_begun(data):
            check_tables(data)
    finally:
        os.close(lock)


def first_token(place: Place) -> str | None:
    """Make the store if need be, and an operator's token if it has none. Leaves nothing open."""
    with create_store(place) as store:
        if any(token.role == "operator" for token in store.tokens()):
            return None
        token, now = new_token(), datetime.now(UTC)
        store.add_token(token, "operator", now, now + FIRST_TOKEN)
        return token


def most_connections() -> int:
    """As many as there are handles for: without one a connection could not be accepted, and trying
    would keep a core busy."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + SPARE_HANDLES
    if least != resource.RLIM_INFINITY and least < wanted:
        least = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
    return max(1, min(MOST_CONNECTIONS, least - SPARE_HANDLES))


def server(place: Place, settings: Settings, announcement: Announcement) -> None:
    """No thread is started here: the worker must find every lock free that it inherits."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    granian = Granian(
        target="deniable",
        address=announcement.host,
        port=announcement.port,
        interface=Interfaces.RSGI,
        workers=1,  # one writer: for several, start several servers on one PostgreSQL
        backpressure=most_connections(),
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=HEAD_BYTES
        ),
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=logging_config(as_json=settings.log_json),
        log_access=False,  # it would write addresses
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    )
    node = f"{socket.gethostname()}:{announcement.port}"
    load_it = partial(load, place, settings, os.getpid(), node, announcement)
    granian.serve(target_loader=load_it, wrap_loader=False)
