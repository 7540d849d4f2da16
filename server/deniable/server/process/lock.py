"""The serving lock: one server for a data folder. The kernel frees it however its holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE
from deniable.shared.errors import Refused

FILE = "serve.lock"
PATIENCE_SECONDS = 3.0  # a server that was just killed needs a moment to be gone
PAUSE_SECONDS = 0.05


def take_lock(data: Path, patience: float = PATIENCE_SECONDS) -> int:
    """Hold the folder until this process ends, or the returned descriptor is closed."""
    handle = os.open(data / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    end = time.monotonic() + patience
    while not _locked(handle):
        if time.monotonic() >= end:
            os.close(handle)
            raise Refused(f"another server serves {data}; stop it, or name another folder")
        time.sleep(PAUSE_SECONDS)
    return handle


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
