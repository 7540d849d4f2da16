"""`deniable serve`: intake for devices and the reader for people, at separate addresses.

Intake holds the lock on the folder, the keys that open sealed reports, and the writer. The reader
opens the same store, as any command does; it has a memory limit and a lower CPU priority.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.http.intake_front import IntakeFront
from deniable.server.http.tokens import new_token
from deniable.server.http.uploads import AppTokens, Intake
from deniable.server.intake.limits import Limits
from deniable.server.intake.status import Metrics, StatusBoard
from deniable.server.intake.writer import Writer
from deniable.server.process.addresses import Address, claim, take_lock
from deniable.server.process.logs import logging_config
from deniable.server.process.settings import Settings
from deniable.server.process.supervisor import Role, run_granian, supervise, watch_parent
from deniable.server.store import Place, Store, create_folder, create_store, is_begun, open_store
from deniable.server.store.sqlite.inspection import check_tables
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import DeniableError, StoreUnusable
from deniable.shared.survey.keys import load_sealing_key, mark_of, public_hex

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FIRST_TOKEN = timedelta(days=365)
FIRST = 100  # exit priority: runs before all other finalizers
READER_THREADS = 16
READER_CONNECTIONS = 256
READER_HEAD_MILLISECONDS = 2_000  # so that idle connections leave their places to others soon
READER_NICENESS = 15
READER_MEMORY_BYTES = 512 * 2**20  # for the reader's data, in addition to its libraries
SLOW_LIBRARIES = ("scipy.optimize", "scipy.special", "scipy.stats")

# intake's address, the reader's address, the first token
Ready = Callable[[Address, Address, "str | None"], None]


def serve(
    place: Place,
    devices: tuple[str, int],
    people: tuple[str, int],
    ready: Ready,
    settings: Settings,
) -> None:
    """Serve until a signal arrives. Raise Refused if an address or the folder is in use."""
    new = isinstance(place, Path) and not place.exists()  # no server has used it
    if not new:
        _prepare(place)
    with claim(*devices) as intake, claim(*people) as reader:
        if new:  # a failed start leaves no folder behind
            _prepare(place)
        with create_store(place) as store:
            if settings.trust_clock:
                store.keep_day(datetime.now(UTC).date())
        board = StatusBoard()
        url = settings.device_url or intake.url
        serve_reader = partial(_serve_reader, place, settings, reader, board, url)
        roles = [
            Role("intake", intake, partial(_serve_intake, place, settings, intake, board)),
            Role("reader", reader, serve_reader, is_vital=False),
        ]

        def announce() -> None:
            token = None
            try:
                token = first_token(place)
            except StoreUnusable as error:  # the server already takes reports
                print(f"no token was made, use deniable token create: {error}", file=sys.stderr)
            ready(intake, reader, token)

        supervise(roles, announce)


def first_token(place: Place) -> str | None:
    """Return a new operator token if the store has no tokens.

    It is created only when it can be shown; an interrupted start leaves that to the next start.
    """
    with open_store(place) as store:
        if any(token.role == "operator" for token in store.tokens()):
            return None
        token, now = new_token(), datetime.now(UTC)
        store.add_token(token, "operator", now, now + FIRST_TOKEN)
        return token


def sealing_keys(settings: Settings) -> dict[bytes, X25519PrivateKey]:
    """Return the private keys by the marks of their public keys. No store holds them."""
    keys = [load_sealing_key(file) for file in settings.sealing]
    return {mark_of(public_hex(key)): key for key in keys}


def load_intake(
    place: Place, settings: Settings, node: str, board: StatusBoard, parent: int
) -> IntakeFront:
    """Return intake's application; called in the worker, before anything is open."""
    store = _opened(place, node, is_intake=True)
    clock, catalogue = Clock(), Catalogue(store)
    writer = Writer(store, catalogue)
    writer.start()
    Finalize(None, writer.stop, exitpriority=FIRST)
    # A worker also ends when its disk fails: the next worker reads the file again.
    watch_parent(parent, lambda: writer.ended, writer.stop)
    intake = Intake(
        store=store,
        catalogue=catalogue,
        writer=writer,
        clock=clock,
        metrics=Metrics(writer),
        app_tokens=AppTokens(clock),
        limits=None if settings.limit is None else Limits(settings.limit),
        sealing=sealing_keys(settings),
    )
    front = IntakeFront(intake, settings.proxies, public_pages=settings.public)
    board.keep_writing(lambda: front.status(time.monotonic()))
    gc.freeze()  # keep loaded modules out of garbage collections, which would delay requests
    return front


def load_reader(
    place: Place, settings: Settings, board: StatusBoard, device_url: str, parent: int
) -> WSGIApplication:
    """Return the reader's application; called in the worker, before anything is open."""
    from deniable.server.app import create_app
    from deniable.server.http.bounded_bodies import BoundedBodies
    from deniable.server.http.context import parts_of
    from deniable.server.http.forwarded_headers import OutsideView
    from deniable.server.pages.public_pages import PagePublisher
    from deniable.server.results.annotations import ReferenceValues

    store = _opened(place)
    app = create_app(
        store,
        Catalogue(store),
        board.read,
        has_public_pages=settings.public,
        known=ReferenceValues(settings.known),
        device_url=device_url,
    )
    limit_memory(READER_MEMORY_BYTES)
    watch_parent(parent)
    threading.Thread(target=_import_slow_libraries, name="libraries", daemon=True).start()
    parts_of(app).forgery.start()
    PagePublisher(app).start()
    return BoundedBodies(OutsideView(app.wsgi_app, settings.proxies, settings.base_path))


def limit_memory(more_bytes: int) -> None:
    """Let this process allocate `more_bytes`; any allocation beyond that fails."""
    if sys.platform != "linux":
        return  # elsewhere the limit does not count mapped memory
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    taken = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = taken + more_bytes
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _serve_intake(place: Place, settings: Settings, address: Address, board: StatusBoard) -> None:
    node = f"{socket.gethostname()}:{address.port}"
    load = partial(load_intake, place, settings, node, board)
    run_granian(address, load, logging_config("serve", as_json=settings.log_json))


def _serve_reader(
    place: Place, settings: Settings, address: Address, board: StatusBoard, device_url: str
) -> None:
    os.nice(READER_NICENESS)
    load = partial(load_reader, place, settings, board, device_url)
    run_granian(
        address,
        load,
        logging_config("serve", as_json=settings.log_json),
        interface="wsgi",
        connections=READER_CONNECTIONS,
        head_milliseconds=READER_HEAD_MILLISECONDS,
        threads=READER_THREADS,
    )


def _opened(place: Place, node: str = "", *, is_intake: bool = False) -> Store:
    try:
        if is_intake and isinstance(place, Path):
            take_lock(place)
        return open_store(place, node)
    except DeniableError as error:
        print(f"deniable serve: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _prepare(data: Place) -> None:
    if not isinstance(data, Path):
        return
    create_folder(data)
    lock = take_lock(data)  # so any earlier server of the folder has ended and released its port
    try:
        if is_begun(data):
            check_tables(data)
    finally:
        os.close(lock)


def _import_slow_libraries() -> None:
    """Import slow libraries at startup, so that no request waits a second for them."""
    for name in SLOW_LIBRARIES:
        __import__(name)
