"""Whose turn it is to write, where a server stays in its transaction for several groups.

SQLite's lock has no queue: whoever waits for it looks again every tenth of a second, and would find
it free by chance. So who waits also holds a lock on a file that is there for that; the server sees
it after each group, ends its transaction, and begins none before the other is done.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE
from deniable.shared.errors import StoreUnusable

FILE = "deniable.turn"
PATIENCE_SECONDS = 0.25  # more than whoever waits sleeps between two looks
PAUSE_SECONDS = 0.005


class Turn:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: int | None = None

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """By whoever does this; also several at once."""
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def is_wanted(self) -> bool:
        """By another. Not to be asked while one wants it oneself."""
        if self._handle is None:
            self._handle = self._open()
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        return False

    def give(self) -> None:
        """Wait for the others, but not for one that holds it for ever."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.is_wanted() and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        try:
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise StoreUnusable(f"the store cannot be written: {error.strerror}") from error
