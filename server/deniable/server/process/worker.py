"""The worker process: holds the lock, the store and the writer, and never outlives its parent."""

from __future__ import annotations

import gc
import sys
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.app import create_app
from deniable.server.http.context import parts_of
from deniable.server.intake.limits import Limits
from deniable.server.intake.writer import Writer
from deniable.server.process.announcing import Announcement
from deniable.server.process.ending import end_with
from deniable.server.process.front import Front
from deniable.server.process.lock import take_lock
from deniable.server.process.settings import Settings
from deniable.server.results.annotations import ReferenceValues
from deniable.server.store import Place, open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import DeniableError
from deniable.shared.survey.keys import load_sealing_key, mark_of, public_hex

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FIRST = 100  # before whatever else ends with the process


def load(
    place: Place, settings: Settings, parent: int, node: str, announcement: Announcement
) -> Front:
    """Called in the worker, after the fork: nothing is open before."""
    try:
        if isinstance(place, Path):
            take_lock(place)
        sealing = sealing_keys(settings)
        store = open_store(place, node)
        catalogue = Catalogue(store)
    except DeniableError as error:
        print(f"deniable serve: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    writer = Writer(store, catalogue)
    writer.start()
    Finalize(None, writer.stop, exitpriority=FIRST)
    # Also a worker whose disk has failed ends: the next one reads the file again.
    end_with(parent, lambda: writer.ended, writer.stop)
    announcement.say_when_it_answers()
    limits = None if settings.limit is None else Limits(settings.limit)
    app = create_app(
        store,
        catalogue,
        writer,
        limits=limits,
        sealing=sealing,
        public_pages=settings.public,
        known=ReferenceValues(settings.known),
    )
    parts_of(app).forgery.start()
    gc.freeze()  # what is loaded by now stays: a collection that looked at it would halt requests
    return Front(app, parts_of(app), settings.proxies, settings.base_path)


def sealing_keys(settings: Settings) -> dict[bytes, X25519PrivateKey]:
    """By the marks of their public halves. They are in this process, and in no store."""
    keys = [load_sealing_key(file) for file in settings.sealing]
    return {mark_of(public_hex(key)): key for key in keys}
