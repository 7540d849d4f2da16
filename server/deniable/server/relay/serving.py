"""`deniable relay`: one granian worker behind a port, respawned when it dies."""

from __future__ import annotations

import logging.config
import multiprocessing
import os
import sys
from functools import partial

from deniable.server.disk import PRIVATE_FOLDER
from deniable.server.process.announcing import Announcement, Ready
from deniable.server.process.ending import end_with
from deniable.server.process.lock import take_lock
from deniable.server.process.port import claim_port
from deniable.server.relay.forwarding import Forwarder
from deniable.server.relay.front import Front
from deniable.server.relay.holding import Holding
from deniable.server.relay.settings import Settings
from deniable.shared.errors import DeniableError

HEADER_MILLISECONDS = 10_000
HEAD_BYTES = 2**13
MOST_CONNECTIONS = 900  # fewer than a process may usually have files open
STOP_SECONDS = 10
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "deniable relay: %(levelname)s: %(message)s"}},
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


def relay(settings: Settings, host: str, port: int, ready: Ready) -> None:
    """Pass on until a signal ends it. Refused, if the port or the folder is somebody else's."""
    settings.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.close(take_lock(settings.folder))
    chosen, claim = claim_port(host, port)
    with claim:
        announcement = Announcement(host, chosen, None, ready, multiprocessing.Event())
        _serve(settings, announcement)


def load(settings: Settings, parent: int, announcement: Announcement) -> Front:
    """Called in the worker, after the fork: nothing is open before."""
    logging.config.dictConfig(LOGGING)
    try:
        take_lock(settings.folder)
        holding = Holding(settings.folder, settings.most_bytes)
    except (DeniableError, OSError) as error:
        print(f"deniable relay: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    forwarder = Forwarder(holding, settings)
    forwarder.start()
    end_with(parent, forwarder.has_ended)
    announcement.say_when_it_answers()
    return Front(holding)


def _serve(settings: Settings, announcement: Announcement) -> None:
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    granian = Granian(
        target="deniable",
        address=announcement.host,
        port=announcement.port,
        interface=Interfaces.RSGI,
        workers=1,
        backpressure=MOST_CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=HEAD_BYTES
        ),
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        log_access=False,  # it would write addresses
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    )
    load_it = partial(load, settings, os.getpid(), announcement)
    granian.serve(target_loader=load_it, wrap_loader=False)
