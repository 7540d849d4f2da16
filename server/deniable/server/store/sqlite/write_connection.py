"""Connection for all writes: groups of envelopes, and every other change to the store.

Under load a transaction stays open for several groups, so that their pages are written once. Each
group is on disk in the redo file before it is acknowledged. Any other write, in this process or
another one, first ends the transaction.

Why a redo file: a group commit into the write-ahead log needs one sync, but groups that stay in the
log show the order in which they arrived. Emptying the log after each group needs four syncs. With
syncs of 5 ms, that reduces the reports per second to a third over 8 connections (320 instead of
970) and to two thirds over 64 (2,650 instead of 3,960).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE
from deniable.server.store.records import Kept, Round, Upload
from deniable.server.store.sql_store import SqlTransaction, note
from deniable.server.store.sqlite.envelope_rows import keep_envelopes, stored_ids
from deniable.server.store.sqlite.receipt_count import FILE as RECEIPTS
from deniable.server.store.sqlite.receipt_count import STORED, ReceiptFile, stored_reports
from deniable.server.store.sqlite.redo_file import FILE as REDO
from deniable.server.store.sqlite.redo_file import RedoFile
from deniable.server.store.sqlite.sqlite_database import connect, errors_as_ours, transaction
from deniable.shared.errors import StoreUnusable

HERE = ""  # the name of the only node
# Until the next write, the log's index names the pages that changed last. To hide them, write the
# first page, unchanged; this write does not have to reach the disk.
COVER = ("BEGIN IMMEDIATE", "PRAGMA user_version = 1", "PRAGMA user_version = 0", "COMMIT")
# NORMAL syncs checkpoints and the log's new head, but not commits.
NEVER_WAITS = ("busy_timeout = 0", "synchronous = NORMAL")
# Keep changed pages in memory until a commit.
ALL_IN_MEMORY = ("cache_spill = OFF", "temp_store = MEMORY")

LOCK_FILE = "write.lock"
LOCK_PATIENCE_SECONDS = 0.25  # longer than the pause between two attempts of a waiting process
LOCK_POLL_SECONDS = 0.005
IGNORED_SECONDS = 2.0  # a process that holds the lock for too long is then ignored for this time


class SqliteTransaction(SqlTransaction[sqlite3.Connection]):
    def __init__(self, driver: sqlite3.Connection) -> None:
        super().__init__(driver, HERE)
        self.taken: list[Upload] = []
        self.spends = False  # whether an invitation was spent, which the redo file cannot hold

    def spend(self, sequence: int, codes: Sequence[bytes]) -> Mapping[bytes, bool]:
        found = super().spend(sequence, codes)
        self.spends |= any(found.values())
        return found

    def _stored_ids(self, of: Round, identifiers: Sequence[bytes]) -> set[bytes]:
        return stored_ids(self._connection, of, identifiers)

    def _insert_round(self, of: Round, uploads: Sequence[Upload]) -> set[bytes]:
        envelopes = [Kept(upload.id, upload.count, upload.payload) for upload in uploads]
        new = keep_envelopes(self._connection, of, envelopes)
        self.taken += [upload for upload in uploads if upload.id in new]
        return new


class WriteConnection:
    """Connection for writes. Threads that share it wait for each other."""

    def __init__(self, file: Path) -> None:
        self._file, self.redo = file, RedoFile(file.with_name(REDO))
        self._receipts = ReceiptFile(file.with_name(RECEIPTS))
        self._stored = self._acknowledged = 0  # reports: before the transaction, and with it
        self._lock = WriteLock(file.with_name(LOCK_FILE))
        self._writing, self._emptying = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._emptier: sqlite3.Connection | None = None
        self._log = file.with_name(f"{file.name}-wal")
        self._covered_bytes = -1  # the log's size when its index was last covered

    @contextmanager
    def transaction(self, aim: str, *, later: bool = False) -> Iterator[SqliteTransaction]:
        with errors_as_ours(aim), self._writing, nullcontext() if later else self._lock.hold():
            driver = self._begin(later=later)
            try:
                group = SqliteTransaction(driver)
                yield group
                acknowledged = self._acknowledged + sum(upload.count for upload in group.taken)
                if later and not group.spends and self._keep_in_redo(group.taken):
                    driver.execute("RELEASE one")
                    self._acknowledged = acknowledged
                    self._receipts.write(acknowledged)
                else:
                    self._commit(driver, acknowledged)
            except BaseException:
                self._undo(driver)
                raise

    @contextmanager
    def alone(self, aim: str) -> Iterator[sqlite3.Connection]:
        """Commit the open transaction, then yield the connection in a new transaction."""
        with self._writing, self._lock.hold():
            self._end()
            with errors_as_ours(aim):
                driver = self._connected()
                with transaction(driver, writes=True):
                    yield driver

    def settle(self) -> None:
        """Move envelopes from the redo file into the tables."""
        if self.redo.pending:
            with self._writing:
                self._end()

    def empty_log(self) -> bool:
        """Checkpoint the write-ahead log, and empty it if no reader needs it."""
        self.settle()
        with self._emptying, errors_as_ours("empty its log"):
            if self._log_size() == self._covered_bytes:
                return True
            if self._emptier is None:
                self._emptier = connect(self._file, *NEVER_WAITS)
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
            self.redo.close()
            self._lock.close()

    def _cover(self, driver: sqlite3.Connection) -> None:
        """Rewrite the first page unchanged, so that the log's index names no changed page.

        If another process is writing, leave this to the next call.
        """
        self._covered_bytes = -1
        try:
            for statement in COVER:
                driver.execute(statement)
            self._covered_bytes = self._log_size()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        finally:
            driver.rollback()

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _connected(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = connect(self._file, *ALL_IN_MEMORY)
        return self._writer

    def _begin(self, *, later: bool) -> sqlite3.Connection:
        """Begin a transaction if none is open, and a savepoint for this group."""
        driver = self._connected()
        if not driver.in_transaction:
            if later:
                self._lock.wait_until_free()
            driver.execute("BEGIN IMMEDIATE")
            self._stored = self._acknowledged = stored_reports(driver)
        driver.execute("SAVEPOINT one")
        return driver

    def _keep_in_redo(self, taken: Sequence[Upload]) -> bool:
        """Write a group's new envelopes to the redo file; return False if it needs a commit.

        Its duplicates are on disk already, with earlier groups.
        """
        if self._lock.is_held():
            return False
        if taken:
            return self.redo.keep(taken, self._stored)
        self.redo.begin()
        return bool(self.redo.pending)

    def _commit(self, driver: sqlite3.Connection, acknowledged: int) -> None:
        """Commit. Also count reports of the redo file that were dropped with their survey."""
        acknowledged = max(acknowledged, self.redo.total(self._stored))
        if acknowledged > self._stored:
            note(driver, STORED, str(acknowledged))
        driver.execute("COMMIT")
        self._receipts.write(acknowledged)
        self.redo.settle()

    def _end(self) -> None:
        if self._writer is not None and self._writer.in_transaction:
            with errors_as_ours("move reports into its tables"):
                try:
                    self._commit(self._writer, self._acknowledged)
                except sqlite3.Error:
                    self._undo_all(self._writer)
                    raise

    def _undo(self, driver: sqlite3.Connection) -> None:
        """Undo this group, and keep earlier, acknowledged groups if possible."""
        if self.redo.pending and driver.in_transaction:
            try:
                driver.execute("ROLLBACK TO one")
                driver.execute("RELEASE one")
                return
            except sqlite3.Error:
                pass
        self._undo_all(driver)

    def _undo_all(self, driver: sqlite3.Connection) -> None:
        driver.rollback()
        self.redo.lose()


class WriteLock:
    """File lock that lets other processes write between a server's groups.

    SQLite's own lock has no queue: a waiting process polls it every tenth of a second, and finds it
    free only by chance. A waiting process therefore also holds this lock. The server checks it
    after each group, ends its transaction, and waits until the other process is done, unless that
    takes too long: a command may have been stopped in the middle.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: int | None = None
        self._ignored_until = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock, which several processes may share."""
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def is_held(self) -> bool:
        """Return whether another process holds the lock. A holder must not call this."""
        if time.monotonic() < self._ignored_until:
            return False
        if self._handle is None:
            self._handle = self._open()
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        return False

    def wait_until_free(self) -> None:
        """Wait until the lock is free. Ignore it for a while if that takes too long."""
        end = time.monotonic() + LOCK_PATIENCE_SECONDS
        while self.is_held():
            if time.monotonic() >= end:
                self._ignored_until = time.monotonic() + IGNORED_SECONDS
                return
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
