"""`deniable relay`: the process that takes sealed reports and forwards them in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from deniable.server.disk import PRIVATE_FOLDER
from deniable.server.process.addresses import Address, claim, take_lock
from deniable.server.process.parent_watchdog import watch_parent
from deniable.server.process.supervisor import Role, run_granian, supervise
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.server.relay.held_batches import Holding
from deniable.server.relay.relay_front import RelayFront
from deniable.shared.errors import DeniableError

HEAD_BYTES = 2**13
MAX_CONNECTIONS = 900  # fewer than a process may usually have files open
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


def relay(settings: Settings, host: str, port: int, ready: Callable[[Address], None]) -> None:
    """Relay until a signal ends it. Refused, if the port or the folder is already taken."""
    settings.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.close(take_lock(settings.folder))
    address, address_claim = claim(host, port)
    with address_claim:
        role = Role("relay", address, partial(_serve, settings, address))
        supervise([role], partial(ready, address))


def load(settings: Settings, parent: int) -> RelayFront:
    """Return the application; called in the worker: nothing is open before."""
    try:
        take_lock(settings.folder)
        holding = Holding(settings.folder, settings.max_bytes)
    except (DeniableError, OSError) as error:
        print(f"deniable relay: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    forwarder = Forwarder(holding, settings)
    forwarder.start()
    watch_parent(parent, forwarder.has_ended)
    return RelayFront(holding)


def _serve(settings: Settings, address: Address) -> None:
    run_granian(
        address,
        partial(load, settings),
        LOGGING,
        head_bytes=HEAD_BYTES,
        connections=MAX_CONNECTIONS,
    )
