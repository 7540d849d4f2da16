"""`deniable serve`: intake for devices and the reader for people, at separate addresses.

Intake has the lock on the folder, the keys that open sealed reports, and the writer. The reader
opens the same store, as commands do; it has a memory limit and a lower CPU priority.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.http.intake_front import IntakeFront
from deniable.server.http.tokens import new_token
from deniable.server.http.uploads import AppTokens, Intake
from deniable.server.intake.limits import Limits
from deniable.server.intake.status import Metrics, StatusBoard
from deniable.server.intake.writer import Writer
from deniable.server.process.addresses import (
    Address,
    ServerAddresses,
    claim,
    record_addresses,
    take_lock,
)
from deniable.server.process.logs import logging_config
from deniable.server.process.supervisor import Role, run_granian, supervise, watch_parent
from deniable.server.store import Place, create_folder, create_store, is_begun, open_store
from deniable.server.store.sqlite.inspection import check_tables, record_loss
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import DeniableError, StoreUnusable
from deniable.shared.survey.keys import load_sealing_key, public_hex

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

FIRST_TOKEN = "first"  # noqa: S105 # name of the token that the first start shows
FIRST_TOKEN_LASTS = timedelta(days=365)
BEFORE_OTHERS = 100  # exit priority, with which a finalizer runs before all others
READER_THREADS = 16
READER_CONNECTIONS = 256
READER_HEAD_MILLISECONDS = 2_000  # short, so that idle connections soon make room for others
READER_NICENESS = 15
READER_MEMORY_BYTES = 512 * 2**20  # memory for the reader's data, in addition to its libraries
SLOW_LIBRARIES = ("scipy.optimize", "scipy.special", "scipy.stats")
IMPORT_DELAY_SECONDS = 3.0  # so that a command that only starts a server does not import them

# intake's address, the reader's address, the first token
Ready = Callable[[Address, Address, "str | None"], None]


@dataclass(frozen=True)
class Settings:
    """Settings of a server, passed to each of its processes."""

    limit: int | None = None  # hourly reports of a survey from one network neighbourhood
    proxies: tuple[str, ...] = ()  # addresses of proxies trusted to name senders and hosts
    sealing: tuple[str, ...] = ()  # files with the keys that open sealed reports
    relays: frozenset[str] = frozenset()  # public keys of relays whose batches count as shuffled
    base_path: str = ""  # path prefix of the pages, which a proxy strips
    device_url: str = ""  # URL for devices; default: the listening address
    public: bool = False  # whether each survey has a public page for respondents
    signing_key: Path | None = None  # file with the server's own key, to publish from the dashboard
    known: Path | None = None  # file with reference values, shown next to the estimates
    alerts: Path | None = None  # file with alert rules and the address of a webhook
    log_json: bool = False
    trust_clock: bool = False  # accept today's date, even after a long pause


def serve(
    place: Place,
    devices: tuple[str, int],
    people: tuple[str, int],
    ready: Ready,
    settings: Settings,
) -> None:
    """Serve until a signal arrives. Raise Refused if an address or the folder is in use."""
    is_new = isinstance(place, Path) and not place.exists()
    if not is_new:
        _prepare(place)
    with claim(*devices) as intake, claim(*people) as reader:
        if is_new:  # only now, so that a failed start leaves no folder behind
            _prepare(place)
        with create_store(place) as store:
            if settings.trust_clock:
                store.keep_day(datetime.now(UTC).date())
            if risk := store.failover_risk():
                print(f"deniable serve: warning: {risk}", file=sys.stderr, flush=True)
        board = StatusBoard()
        url = settings.device_url or intake.url
        serve_reader = partial(_serve_reader, place, settings, reader, board, url)
        roles = [
            Role("intake", intake, partial(_serve_intake, place, settings, intake, board)),
            Role("reader", reader, serve_reader, is_vital=False),
        ]

        def announce() -> None:
            if isinstance(place, Path):
                record_addresses(place, ServerAddresses(url, reader.url, intake.url))
            ready(intake, reader, _first_token(place))

        supervise(roles, announce)


def _first_token(place: Place) -> str | None:
    """Return a new operator token if the store has none.

    It is created only when it can be shown. After an interrupted start, the next start creates it.
    """
    try:
        with open_store(place) as store:
            if any(token.role == "operator" for token in store.tokens()):
                return None
            token, now = new_token(), datetime.now(UTC)
            store.add_token(token, "operator", now, now + FIRST_TOKEN_LASTS, FIRST_TOKEN)
            return token
    except StoreUnusable as error:  # the server already accepts reports
        print(f"no token was created; use deniable token create: {error}", file=sys.stderr)
        return None


def _serve_intake(place: Place, settings: Settings, address: Address, board: StatusBoard) -> None:
    load = partial(_load_intake, place, settings, address, board)
    logging = logging_config("serve", as_json=settings.log_json)
    run_granian(address, load, logging, connections=IntakeFront.max_connections)


def _load_intake(
    place: Place, settings: Settings, address: Address, board: StatusBoard, parent: int
) -> IntakeFront:
    """Return intake's application; called in the worker, before anything is open."""
    with _exit_on_error():
        if isinstance(place, Path):
            take_lock(place)
        store = open_store(place, f"{socket.gethostname()}:{address.port}")
    clock, catalogue = Clock(), Catalogue(store)
    writer = Writer(store, catalogue)
    writer.start()
    Finalize(None, writer.stop, exitpriority=BEFORE_OTHERS)
    # A worker also ends when its disk fails: the next worker reads the file again.
    watch_parent(parent, lambda: writer.ended, writer.stop)
    sealing_keys = [load_sealing_key(file) for file in settings.sealing]  # the keys are in no store
    intake = Intake(
        store=store,
        catalogue=catalogue,
        writer=writer,
        clock=clock,
        metrics=Metrics(writer),
        app_tokens=AppTokens(clock, store),
        limits=None if settings.limit is None else Limits(settings.limit),
        sealing={public_hex(key): key for key in sealing_keys},
        relays=settings.relays,
    )
    front = IntakeFront(intake, settings.proxies, public_pages=settings.public)
    board.keep_writing(lambda: front.status(time.monotonic()))
    gc.freeze()  # keep loaded modules out of garbage collections, which would delay requests
    return front


def _serve_reader(
    place: Place, settings: Settings, address: Address, board: StatusBoard, device_url: str
) -> None:
    os.nice(READER_NICENESS)
    run_granian(
        address,
        partial(_load_reader, place, settings, board, device_url),
        logging_config("serve", as_json=settings.log_json),
        interface="wsgi",
        connections=READER_CONNECTIONS,
        head_milliseconds=READER_HEAD_MILLISECONDS,
        threads=READER_THREADS,
    )


def _load_reader(
    place: Place, settings: Settings, board: StatusBoard, device_url: str, parent: int
) -> WSGIApplication:
    """Return the reader's application; called in the worker, before anything is open."""
    from deniable.server.alerts.monitor import Monitor
    from deniable.server.alerts.rules import read_alerts
    from deniable.server.app import create_app
    from deniable.server.http.context import Parts
    from deniable.server.http.middleware import BoundedBodies, OutsideView
    from deniable.server.pages.public_pages import PagePublisher
    from deniable.server.process.webhook import Webhook
    from deniable.server.results.annotations import ReferenceValues

    with _exit_on_error():
        store = open_store(place)
        alerts = read_alerts(settings.alerts) if settings.alerts else None
    parts = Parts(
        store,
        Catalogue(store),
        board.read,
        references=ReferenceValues(settings.known),
        device_url=device_url,
        has_public_pages=settings.public,
        signing_key=settings.signing_key,
    )
    app = create_app(parts)
    _limit_memory(READER_MEMORY_BYTES)
    watch_parent(parent)
    # Import slow libraries soon after the start, so that hardly any request waits for them.
    imports = threading.Timer(IMPORT_DELAY_SECONDS, lambda: [*map(import_module, SLOW_LIBRARIES)])
    imports.daemon = True
    imports.start()
    webhook = Webhook(alerts.webhook) if alerts and alerts.webhook else None
    if webhook:
        webhook.start()
    Monitor(parts, alerts, webhook.post_later if webhook else None).start()
    PagePublisher(app).start()
    return BoundedBodies(OutsideView(app.wsgi_app, settings.proxies, settings.base_path))


@contextmanager
def _exit_on_error() -> Iterator[None]:
    """End this process with a message, instead of a traceback, if a store cannot be opened."""
    try:
        yield
    except DeniableError as error:
        print(f"deniable serve: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _limit_memory(more_bytes: int) -> None:
    """Let this process allocate `more_bytes` more memory; any further allocation fails."""
    if sys.platform != "linux":
        return  # elsewhere the limit does not count mapped memory
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    taken = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = taken + more_bytes
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _prepare(data: Place) -> None:
    """Create and check a data folder, once no earlier server uses it."""
    if not isinstance(data, Path):
        return
    create_folder(data)
    lock = take_lock(data)  # once this succeeds, an earlier server has released its port
    try:
        if is_begun(data):
            check_tables(data)
            if loss := record_loss(data):
                logging.getLogger("deniable.server").critical("%s", loss)
    finally:
        os.close(lock)
