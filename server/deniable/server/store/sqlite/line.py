"""The connections on which groups go to disk: they stay open, and speak by the driver alone.

What a pool and a layer above the driver do around a transaction takes longer than one report.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deniable.server.store.sqlite.database import connect, ours


class Line:
    """Safe from several threads, which wait for each other."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writing, self._emptying = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._emptier: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, aim: str) -> Iterator[sqlite3.Connection]:
        """All or nothing; what the database says against it comes out as an error of ours."""
        with self._writing:
            try:
                driver = self._writer = self._writer or connect(self._file)
                driver.execute("BEGIN IMMEDIATE")
                try:
                    yield driver
                    driver.execute("COMMIT")
                except BaseException:
                    driver.rollback()
                    raise
            except sqlite3.Error as error:
                raise ours(error, aim) from error

    def empty_log(self) -> bool:
        """Bring the write-ahead log into the file and empty it. Whether it is empty: it waits for
        nobody, and whoever is reading keeps what it reads."""
        with self._emptying:
            try:
                if self._emptier is None:
                    self._emptier = connect(self._file)
                    self._emptier.execute("PRAGMA busy_timeout = 0")
                checkpoint = self._emptier.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                (busy, _, _) = checkpoint.fetchone()
            except sqlite3.Error as error:
                raise ours(error, "empty its log") from error
            return not busy

    def close(self) -> None:
        with self._writing, self._emptying:
            for driver in (self._writer, self._emptier):
                if driver is not None:
                    driver.close()
            self._writer = self._emptier = None
