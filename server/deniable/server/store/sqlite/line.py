"""The connections on which groups go to disk: they stay open, and speak by the driver alone.

What a pool and a layer above the driver do around a transaction takes longer than one report. Under
load a transaction stays open for several groups: each is on disk by itself (redo.py), and their
pages are written once.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from deniable.server.store.records import Unsettled, Upload
from deniable.server.store.sqlite.database import connect, ours
from deniable.server.store.sqlite.redo import FILE as REDO
from deniable.server.store.sqlite.redo import Redo
from deniable.server.store.sqlite.reports import SqliteTransaction
from deniable.server.store.sqlite.turn import FILE as TURN
from deniable.server.store.sqlite.turn import Turn

# The index beside the log goes on naming the pages that changed last, until something is written:
# here the first page, as it was. That need not reach the disk.
COVER = ("BEGIN IMMEDIATE", "PRAGMA user_version = 1", "PRAGMA user_version = 0", "COMMIT")
# NORMAL: it syncs what it brings into the file, and that the log begins anew; not what it commits.
WAITS_FOR_NOBODY = ("busy_timeout = 0", "synchronous = NORMAL")
ALL_IN_MEMORY = ("cache_spill = OFF", "temp_store = MEMORY")  # until a commit writes it


class Line:
    """Safe from several threads, which wait for each other."""

    def __init__(self, file: Path) -> None:
        self._file, self._redo = file, Redo(file.with_name(REDO))
        self._turn = Turn(file.with_name(TURN))
        self._writing, self._emptying = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._emptier: sqlite3.Connection | None = None
        self._log, self._covered = file.with_name(f"{file.name}-wal"), -1  # its size when it was

    @property
    def lost(self) -> Sequence[Unsettled]:
        return self._redo.lost

    @contextmanager
    def transaction(self, aim: str, *, later: bool = False) -> Iterator[SqliteTransaction]:
        """All or nothing; what the database says against it comes out as an error of ours."""
        with self._writing, nullcontext() if later else self._turn.wanted():
            try:
                driver = self._begun(later=later)
                try:
                    made = SqliteTransaction(driver)
                    yield made
                    if later and self._is_kept(made.taken):
                        driver.execute("RELEASE one")
                    else:
                        self._commit(driver)
                except BaseException:
                    self._undo(driver)
                    raise
            except (sqlite3.Error, UnicodeError) as error:
                raise ours(error, aim) from error

    def settle(self) -> None:
        """Bring into the tables what is to come there later."""
        if self._redo.pending:
            with self._writing:
                self._end()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing is open here, nor for long elsewhere, so that another connection can write."""
        with self._writing, self._turn.wanted():
            self._end()
            yield

    def empty_log(self) -> bool:
        """Bring the write-ahead log into the file and empty it. Whether it is empty: it waits for
        nobody, and whoever is reading keeps what it reads."""
        self.settle()
        with self._emptying:
            if self._log_size() == self._covered:
                return True
            try:
                if self._emptier is None:
                    self._emptier = connect(self._file)
                    for pragma in WAITS_FOR_NOBODY:
                        self._emptier.execute(f"PRAGMA {pragma}")
                checkpoint = self._emptier.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                (busy, _, _) = checkpoint.fetchone()
                if not busy:
                    self._cover(self._emptier)
            except sqlite3.Error as error:
                raise ours(error, "empty its log") from error
            return not busy

    def close(self) -> None:
        self.settle()
        with self._writing, self._emptying:
            for driver in (self._writer, self._emptier):
                if driver is not None:
                    driver.close()
            self._writer = self._emptier = None
            self._redo.close()
            self._turn.close()

    def _cover(self, driver: sqlite3.Connection) -> None:
        """Or try it again the next time, where somebody else is writing."""
        self._covered = -1
        try:
            for statement in COVER:
                driver.execute(statement)
            self._covered = self._log_size()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        finally:
            driver.rollback()

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _begun(self, *, later: bool) -> sqlite3.Connection:
        """In a transaction, and in a part of it that can be undone by itself."""
        if self._writer is None:
            self._writer = connect(self._file)
            for pragma in ALL_IN_MEMORY:
                self._writer.execute(f"PRAGMA {pragma}")
        driver = self._writer
        if not driver.in_transaction:
            if later:
                self._turn.give()
            driver.execute("BEGIN IMMEDIATE")
        driver.execute("SAVEPOINT one")
        return driver

    def _is_kept(self, taken: Sequence[Upload]) -> bool:
        """On disk without a commit; what was there already is on disk with the groups before."""
        if self._turn.is_wanted():
            return False
        if taken:
            return self._redo.keep(taken)
        self._redo.begin()
        return self._redo.pending

    def _commit(self, driver: sqlite3.Connection) -> None:
        driver.execute("COMMIT")
        self._redo.settle()

    def _end(self) -> None:
        """Of what is open."""
        if self._writer is not None and self._writer.in_transaction:
            try:
                self._commit(self._writer)
            except sqlite3.Error as error:
                self._undo_all(self._writer)
                raise ours(error, "bring reports into its tables") from error

    def _undo(self, driver: sqlite3.Connection) -> None:
        """The part alone, where what came before it has been acknowledged."""
        if self._redo.pending and driver.in_transaction:
            try:
                driver.execute("ROLLBACK TO one")
                driver.execute("RELEASE one")
                return
            except sqlite3.Error:
                pass
        self._undo_all(driver)

    def _undo_all(self, driver: sqlite3.Connection) -> None:
        driver.rollback()
        self._redo.lose()
