"""The connection that writes: groups of envelopes, and whatever else changes the store.

Under load a transaction stays open for several groups: each is on disk in the redo file before it
is answered (redo_file.py), and their pages are written once. Any other write, in this process or
another, ends that transaction first.

Why there is a redo file: a group commit into the write-ahead log needs one sync, but groups that
stay in the log show the order in which they came. To empty the log after each group takes four
syncs: with syncs of 5 ms that is a third of the reports per second over 8 connections (320 for 970)
and two thirds over 64 (2,650 for 3,960).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE
from deniable.server.store.records import Cells, Unsettled, Upload, UploadKey
from deniable.server.store.sqlite.envelope_rows import insert_envelopes
from deniable.server.store.sqlite.redo_file import FILE as REDO
from deniable.server.store.sqlite.redo_file import RedoFile
from deniable.server.store.sqlite.sqlite_database import connect, errors_as_ours
from deniable.server.store.tally_rows import add_to_tally, is_sealed
from deniable.shared.errors import StoreUnusable

HERE = ""  # the node that counts, where there is only one
# The index next to the log still names the pages that changed last, until something is written:
# here the first page, as it was. That need not reach the disk.
COVER = ("BEGIN IMMEDIATE", "PRAGMA user_version = 1", "PRAGMA user_version = 0", "COMMIT")
# NORMAL syncs what is brought into the file, and the log's new head; not what is committed.
NEVER_WAITS = ("busy_timeout = 0", "synchronous = NORMAL")
ALL_IN_MEMORY = ("cache_spill = OFF", "temp_store = MEMORY")  # until a commit writes it

LOCK_FILE = "write.lock"
LOCK_PATIENCE_SECONDS = 0.25  # more than a waiting process sleeps between two tries
LOCK_POLL_SECONDS = 0.005


class SqliteTransaction:
    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver
        self.taken: list[Upload] = []

    def is_sealed(self, sequence: int, number: int) -> bool:
        return is_sealed(self._driver, sequence, number)

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        new = insert_envelopes(self._driver, uploads)
        self.taken += [upload for upload in uploads if upload.key in new]
        return new

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        add_to_tally(self._driver, (sequence, number, HERE), reports, cells)


class WriteConnection:
    """Safe from several threads, which wait for each other."""

    def __init__(self, file: Path) -> None:
        self._file, self._redo = file, RedoFile(file.with_name(REDO))
        self._lock = WriteLock(file.with_name(LOCK_FILE))
        self._writing, self._emptying = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._emptier: sqlite3.Connection | None = None
        # The log's size when its index was last covered.
        self._log, self._covered = file.with_name(f"{file.name}-wal"), -1

    @property
    def lost(self) -> Sequence[Unsettled]:
        return self._redo.lost

    @contextmanager
    def transaction(self, aim: str, *, later: bool = False) -> Iterator[SqliteTransaction]:
        with (
            errors_as_ours(aim),
            self._writing,
            nullcontext() if later else self._lock.wanted(),
        ):
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

    @contextmanager
    def alone(self, aim: str) -> Iterator[sqlite3.Connection]:
        """Commit what is open, then yield the connection in a transaction of its own."""
        with self._writing, self._lock.wanted():
            self._end()
            with errors_as_ours(aim):
                driver = self._connected()
                driver.execute("BEGIN IMMEDIATE")
                try:
                    yield driver
                    driver.execute("COMMIT")
                finally:
                    if driver.in_transaction:
                        driver.rollback()

    def settle(self) -> None:
        """Bring into the tables what is only in the redo file."""
        if self._redo.pending:
            with self._writing:
                self._end()

    def empty_log(self) -> bool:
        """Bring the write-ahead log into the file, and empty it if no reader needs it."""
        self.settle()
        with self._emptying, errors_as_ours("empty its log"):
            if self._log_size() == self._covered:
                return True
            if self._emptier is None:
                self._emptier = connect(self._file)
                for pragma in NEVER_WAITS:
                    self._emptier.execute(f"PRAGMA {pragma}")
            (busy, _, _) = self._emptier.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                self._cover(self._emptier)
            return not busy

    def close(self) -> None:
        self.settle()
        with self._writing, self._emptying:
            for driver in (self._writer, self._emptier):
                if driver is not None:
                    driver.close()
            self._writer = self._emptier = None
            self._redo.close()
            self._lock.close()

    def _cover(self, driver: sqlite3.Connection) -> None:
        """Try to; if somebody else is writing, the next call tries again."""
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

    def _connected(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = connect(self._file)
            for pragma in ALL_IN_MEMORY:
                self._writer.execute(f"PRAGMA {pragma}")
        return self._writer

    def _begun(self, *, later: bool) -> sqlite3.Connection:
        """Return the connection in a transaction, and in a savepoint for this group."""
        driver = self._connected()
        if not driver.in_transaction:
            if later:
                self._lock.give_way()
            driver.execute("BEGIN IMMEDIATE")
        driver.execute("SAVEPOINT one")
        return driver

    def _is_kept(self, taken: Sequence[Upload]) -> bool:
        """Return whether a group is on disk without a commit.

        What was there already is on disk with the groups before.
        """
        if self._lock.is_wanted():
            return False
        if taken:
            return self._redo.keep(taken)
        self._redo.begin()
        return self._redo.pending

    def _commit(self, driver: sqlite3.Connection) -> None:
        driver.execute("COMMIT")
        self._redo.settle()

    def _end(self) -> None:
        """Commit the open transaction."""
        if self._writer is not None and self._writer.in_transaction:
            with errors_as_ours("bring reports into its tables"):
                try:
                    self._commit(self._writer)
                except sqlite3.Error:
                    self._undo_all(self._writer)
                    raise

    def _undo(self, driver: sqlite3.Connection) -> None:
        """Undo this group alone, if those before it have been acknowledged."""
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


class WriteLock:
    """A lock on a file that lets other processes in between a server's groups.

    SQLite's own lock has no queue: a waiting process looks again every tenth of a second, and would
    find it free by chance. So it also holds this lock: the server sees that after each group, ends
    its transaction, and begins none before the other is done.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: int | None = None

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Hold the lock; several may do so together."""
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def is_wanted(self) -> bool:
        """Return whether another holder wants to write. Not to be asked by a holder."""
        if self._handle is None:
            self._handle = self._open()
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        return False

    def give_way(self) -> None:
        """Wait until the lock is free, but not for a holder that never ends."""
        end = time.monotonic() + LOCK_PATIENCE_SECONDS
        while self.is_wanted() and time.monotonic() < end:
            time.sleep(LOCK_POLL_SECONDS)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        try:
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise StoreUnusable(f"the store cannot be written: {error.strerror}") from error
