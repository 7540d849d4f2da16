"""The worker process: holds the lock, the store and the writer, and never outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from multiprocessing.util import Finalize
from pathlib import Path

from deniable.server.app import create_app
from deniable.server.http.context import parts_of
from deniable.server.intake.limits import Limits
from deniable.server.intake.writer import Writer
from deniable.server.process.announcing import Announcement
from deniable.server.process.front import Front
from deniable.server.process.lock import take_lock
from deniable.server.process.settings import Settings
from deniable.server.results.annotations import AnnotationFile
from deniable.server.store import Place, open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import DeniableError

WATCH_SECONDS = 0.1
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
FIRST = 100  # before whatever else ends with the process


def load(
    place: Place, settings: Settings, parent: int, node: str, announcement: Announcement
) -> Front:
    """Called in the worker, after the fork: nothing is open before."""
    try:
        if isinstance(place, Path):
            take_lock(place)
        store = open_store(place, node)
    except DeniableError as error:
        print(f"deniable serve: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    catalogue = Catalogue(store)
    writer = Writer(store, catalogue)
    writer.start()
    Finalize(None, writer.stop, exitpriority=FIRST)
    end_with(parent, writer)
    announcement.say_when_it_answers()
    limits = None if settings.limit is None else Limits(settings.limit)
    app = create_app(
        store, catalogue, writer, limits=limits, annotations=AnnotationFile(settings.annotations)
    )
    parts_of(app).forgery.start()
    return Front(app, parts_of(app), settings.proxies, settings.base_path)


def end_with(parent: int, writer: Writer) -> None:
    """A parent that was killed cannot say so: without this its worker would serve on, an orphan."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # stops listening at once
    threading.Thread(target=_watch, args=(parent, writer), name="parent", daemon=True).start()


def _watch(parent: int, writer: Writer) -> None:
    """Also a worker whose disk has failed ends: the next one reads the file again."""
    while os.getppid() == parent and not writer.ended:
        time.sleep(WATCH_SECONDS)
    writer.stop()
    os._exit(1)
