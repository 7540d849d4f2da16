"""Count of acknowledged reports, in a file of its own, to notice a truncated log or redo file.

SQLite takes a log that was cut off, or replaced by an older copy, for a shorter history. An older
redo file is equally valid. So the database counts the reports that it has ever stored, the redo
file notes that count for its own reports, and this file has the sum of both after each
acknowledgement. At the next start, a smaller sum in the other two files proves a loss.

The file is written after the reports are on disk, and is not synced itself. After a power cut it
may therefore be older, which can hide a loss, but never invents one. It cannot notice that it was
replaced by an older copy together with the other two files.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from deniable.server.disk import PRIVATE_FILE
from deniable.server.store.sql_store import DAY, noted
from deniable.server.store.sqlite.redo_file import FILE as REDO
from deniable.server.store.sqlite.redo_file import RedoFile

FILE = "deniable.receipts"
STORED = "stored"  # key in the table `about`: number of reports ever stored or known to be lost
LOST = "lost"  # key in the table `about`: number of reports known to be lost
ATTEMPTS = 3  # to read a count that a server may be changing
REREAD_SECONDS = 0.02
_COUNT, _SUM = struct.Struct("<Q"), struct.Struct("<I")


class Loss(NamedTuple):
    """Acknowledged reports that are in no file, although none of them was deleted."""

    reports: int
    since: str  # the last day that the database knows

    def __str__(self) -> str:
        return (
            f"reports are lost: the files account for {self.reports:,} fewer than the server has "
            f"acknowledged since {self.since}; the database, its log or deniable.redo was cut off "
            "or replaced by an older copy"
        )


class ReceiptFile:
    """File with the count, for use by one thread at a time."""

    def __init__(self, file: Path) -> None:
        self._file, self._written = file, 0

    def write(self, reports: int) -> None:
        """Write the number of reports. A failure is ignored: the reports themselves are on disk."""
        if reports == self._written:
            return
        count = _COUNT.pack(reports)
        with suppress(OSError):
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            try:
                os.pwrite(handle, count + _SUM.pack(crc32(count)), 0)
            finally:
                os.close(handle)
            self._written = reports


def receipts(file: Path) -> int:
    """Return the last count; zero if the file is missing or was damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return 0
    count = content[: _COUNT.size]
    whole = len(count) == _COUNT.size and content == count + _SUM.pack(crc32(count))
    return int(_COUNT.unpack(count)[0]) if whole else 0


def loss_of(database: Path) -> Loss | None:
    """Return the loss of reports that no server has recorded yet; a server may be running."""
    loss = _loss_of(database)
    for _ in range(ATTEMPTS - 1):
        if loss is not None:
            time.sleep(REREAD_SECONDS)
            loss = _loss_of(database)
    return loss


def _loss_of(database: Path) -> Loss | None:
    acknowledged = receipts(database.with_name(FILE))  # first: the others only grow
    redo = RedoFile(database.with_name(REDO))
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as driver:
        kept, day = redo.total(stored_reports(driver)), noted(driver, DAY)
    return None if kept >= acknowledged else Loss(acknowledged - kept, day or "the first start")


def stored_reports(driver: sqlite3.Connection) -> int:
    return int(noted(driver, STORED) or 0)
