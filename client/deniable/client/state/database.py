"""The state on disk: one SQLite file that only its owner can read, and a marker file next to it.

Every transaction begins IMMEDIATE, so transactions run one at a time over all threads and
processes. None is open during a network exchange. The connection stays open between transactions
once this process has written durably. It is reopened when another file takes the database's place.

Changes go to a write-ahead log, the -wal file [1]. A durable transaction ends when the log is
synced. Any other transaction survives a killed process, but not a power cut. A power cut loses a
suffix of the log: its frames carry a running checksum, and recovery stops at the first frame that
does not match. So a durable transaction makes everything before it durable, and later writes
cannot damage it. A transaction that deletes private rows folds the log into the database and
empties it. A file system without shared memory gets a rollback journal, and every transaction
there is durable.

The marker outlives a lost database. It has one byte for each charge, it never shrinks, and it is
never deleted. It is created after the schema is on disk and before the first charge. So a database
that is missing, or older than the marker, is noticed, and nothing is spent twice.

`os.fork` waits for the running transaction and closes the connection. A fork made in C (uWSGI)
does neither: the child inherits an open SQLite connection, which must not be used or closed in a
second process [2]. Such a child refuses to work with that database. A parent that only sends what
an earlier process left avoids this: it closes the connection after each transaction.

[1] SQLite, "Write-Ahead Logging" and "WAL-mode File Format", sqlite.org.
[2] SQLite, "How To Corrupt An SQLite Database File", section 2.6, sqlite.org.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deniable.client.fork_safety import ForkAware
from deniable.client.state import Transaction, schema
from deniable.client.state.ledger import Consents, count_charges, has_gap
from deniable.shared.errors import StoreUnusable

NEW_INSTALL = (
    "delete the folder to start as a new install, which also refills the privacy budget: the ε "
    "spent so far is forgotten, and the app can spend all of it again"
)
DATABASE, MARKER = "deniable.sqlite3", "deniable.used"
# total wait for other threads and processes, during which the app's own request waits too
LOCK_WAIT_SECONDS = 0.25
# the same where giving up would lose a charged report, or leave a forked child without state
LAST_LOCK_WAIT_SECONDS = 5.0
BUSY_TIMEOUT_SECONDS = 0.05  # SQLite's own wait in each attempt
MAX_LOG_PAGES = 4_000  # a commit that exceeds this folds the log into the database
MAX_CHECKED_BYTES = 16 * 2**20  # larger databases rely on the seals of each ledger
WINDOWS: bool = sys.platform.startswith("win")

BLOCKED = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}

_inherited: list[tuple[Transaction, tuple[int, int]]] = []  # referenced, so that none is closed


class StateBlocked(StoreUnusable):
    """Raised if the database is locked, or the disk is full or read-only. Nothing is damaged."""


class State(ForkAware):
    """State folder of one install: its database and its marker."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.database, self.marker = self.folder / DATABASE, self.folder / MARKER
        self._address = f"file:{quote(str(self.database))}?mode=rw"
        self.consents = Consents()
        self._gate, self._held = threading.Lock(), False
        self._db: Transaction | None = None
        self._file: tuple[int, int] = (0, 0)  # device and inode of the open file
        self._opened_in = 0  # the process that opened it
        super().__init__()

    def remake(self) -> None:
        """Prepare a forked child: after a fork during a transaction, SQLite cannot be trusted."""
        self._broken = self._gate.locked() and not self._held
        if self._db is not None and self._opened_in != os.getpid():
            _inherited.append((self._db, self._file))
            self._db = None
        self._held = self._checked = self._stays_open = False
        self._gate = threading.Lock()

    @property
    def begun(self) -> bool:
        """True once anything has been stored."""
        return self.database.exists() or self.marker.exists()

    @contextmanager
    def transaction(
        self, create: bool = False, durable: bool = True, wait_seconds: float | None = None
    ) -> Iterator[Transaction]:
        """Commit the block completely or not at all. Unless durable, a power cut may undo it."""
        wait_seconds = LOCK_WAIT_SECONDS if wait_seconds is None else wait_seconds
        deadline = time.monotonic() + wait_seconds
        with self._exclusively(wait_seconds), _as_unusable(self.database):
            db = self._begin(create, durable, deadline)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                self._disconnect()
                raise
            if db.erased:
                _fold(db)
            self._stays_open = self._stays_open or durable
            if not self._stays_open:
                self._disconnect()

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        with suppress(StoreUnusable), self._exclusively(LOCK_WAIT_SECONDS):
            self._disconnect()

    def destroy(self) -> bool:
        """Delete an unreadable database but keep its marker, so that no budget is refilled."""
        try:
            self._make_marker()
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.database}{suffix}").unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def note_charges(self, charges: int) -> None:
        """Extend the marker to this length, once that many charges are on disk."""
        with suppress(OSError):  # the next transaction retries
            marker = os.open(self.marker, os.O_WRONLY)
            try:
                os.lseek(marker, charges - 1, os.SEEK_SET)
                os.write(marker, b".")
            finally:
                os.close(marker)

    # Opening

    @contextmanager
    def _exclusively(self, wait_seconds: float) -> Iterator[None]:
        """Admit one thread of this process at a time, so that a fork can wait for the last one."""
        self.same_process()
        gate = self._gate
        if self._broken or not gate.acquire(timeout=wait_seconds):
            raise StateBlocked("another thread uses the state, or did when this process forked")
        try:
            yield
        finally:
            gate.release()

    def _begin(self, create: bool, durable: bool, deadline: float) -> Transaction:
        """Begin a transaction, and wait while others write.

        SQLite returns "busy" without waiting when the last connection closes and during recovery.
        """
        while True:
            try:
                return self._open(create, durable)
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - the wait is not a secret

    def _open(self, create: bool, durable: bool) -> Transaction:
        charges = self.marker.stat().st_size if self.marker.exists() else None
        if not self.database.exists():
            if charges is not None:
                raise StoreUnusable(
                    f"{self.database} is missing, so the ε already spent is unknown; "
                    f"put it back, or {NEW_INSTALL}"
                )
            if not create:
                raise StoreUnusable(f"{self.folder} holds no state yet")
            self._make_database_file()
        try:
            db = self._connect()
            # The schema must be on disk before the marker is created.
            lax = not durable and charges is not None and self._keeps_log
            db.execute(f"PRAGMA synchronous = {'NORMAL' if lax else 'FULL'}")
            self._prepare(db, charges)
        except BaseException:
            self._disconnect()
            raise
        return db

    def _connect(self) -> Transaction:
        """Connect to the existing file: SQLite must not create an empty one in its place."""
        stat = self.database.stat()
        file = stat.st_dev, stat.st_ino
        if any(file == inherited for _, inherited in _inherited):
            raise StoreUnusable(
                f"{self.database} was open during a fork that Python did not notice; "
                "create the Client after the fork (uWSGI: set py-call-uwsgi-fork-hooks)"
            )
        if self._file != file:
            self._disconnect()
        if self._db is None:
            self._db = sqlite3.connect(
                self._address,
                uri=True,
                timeout=BUSY_TIMEOUT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=Transaction,
            )
            self._file, self._opened_in = file, os.getpid()
            self._db.execute("PRAGMA fullfsync = ON")  # on macOS, through the disk's own cache
            self._db.execute("PRAGMA secure_delete = ON")
            mode = self._db.execute("PRAGMA journal_mode = WAL").fetchone()
            self._keeps_log = mode == ("wal",)
            if self._keeps_log:
                self._db.execute(f"PRAGMA wal_autocheckpoint = {MAX_LOG_PAGES}")
            else:
                self._db.execute("PRAGMA journal_mode = TRUNCATE")
        return self._db

    def _disconnect(self) -> None:
        """Roll back the open transaction, and close the connection."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            db.close()

    def _prepare(self, db: Transaction, charges: int | None) -> None:
        db.execute("BEGIN IMMEDIATE")
        version, application = _pragma(db, "user_version"), _pragma(db, "application_id")
        if version == 0 and charges is None and not _pragma(db, "schema_version"):
            schema.create(db)
            db.execute("COMMIT")  # an empty database next to a marker counts as a loss
            db.execute("BEGIN IMMEDIATE")
        elif (version, application) != (schema.VERSION, schema.APPLICATION):
            raise StoreUnusable(
                f"{self.database} has schema {version}, and this version reads {schema.VERSION}; "
                f"use the version of deniable that wrote it, or {NEW_INSTALL}"
            )
        if charges is None:
            self._make_marker()
        self._check_whole(db, charges or 0)

    def _check_whole(self, db: Transaction, charges: int) -> None:
        if not self._checked:
            size = _pragma(db, "page_count") * _pragma(db, "page_size")
            sound = size > MAX_CHECKED_BYTES or _pragma(db, "integrity_check(1)") == "ok"
            if not sound or has_gap(db):
                raise StoreUnusable(f"{self.database} is damaged; restore it, or {NEW_INSTALL}")
            self._checked = True
        recorded = count_charges(db)
        if recorded < charges:
            raise StoreUnusable(
                f"{self.database} is older than its marker, so charges are missing; "
                "restore the newer one"
            )
        if recorded > charges:  # after a crash, or a lost marker
            self.note_charges(recorded)

    def _make_marker(self) -> None:
        """Create the marker, durably, with its name in the folder."""
        marker = os.open(self.marker, os.O_WRONLY | os.O_CREAT, 0o600)
        os.fsync(marker)
        os.close(marker)
        _sync_folder(self.folder)

    def _make_database_file(self) -> None:
        """Link a new file into place.

        Closing a database's file drops the locks that SQLite holds on it elsewhere in this process,
        so the new file is closed before it gets the database's name.
        """
        missing = [path for path in (self.folder, *self.folder.parents) if not path.is_dir()]
        if missing:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        for folder in missing:
            _sync_folder(folder.parent)
        new = Path(f"{self.database}-new")
        os.close(os.open(new, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            os.link(new, self.database)
        except (FileExistsError, FileNotFoundError):
            return  # another process was faster
        except OSError:  # no links on this file system
            new.replace(self.database)
        finally:
            new.unlink(missing_ok=True)

    # Forks: `os.fork` waits for the running transaction

    def before_fork(self) -> None:
        self.same_process()
        self._held = self._gate.acquire(timeout=LAST_LOCK_WAIT_SECONDS)
        if self._held:
            self._disconnect()

    def after_fork(self) -> None:
        if self._held:
            self._held = False
            self._gate.release()


def _sync_folder(path: Path) -> None:
    """Make the names in this folder durable. On Windows, the file system does."""
    if WINDOWS:
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fold(db: Transaction) -> None:
    """Fold the log into the database. If it is in use, the next transaction tries again."""
    with suppress(sqlite3.Error):
        db.erased = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0


def _pragma(db: Transaction, name: str) -> Any:  # Any: SQLite's kinds of value
    return db.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def _as_unusable(database: Path) -> Iterator[None]:
    """Raise every disk error as StoreUnusable. SQLite's messages contain no answer."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind = StateBlocked if code in BLOCKED else StoreUnusable
        raise kind(f"{database} cannot be used: {error}; nothing was sent") from None
    except (TypeError, ValueError):  # a stored value of a type that this code never writes
        raise StoreUnusable(f"{database} is damaged; nothing was sent") from None
    except OSError as error:
        raise StateBlocked(
            f"{database} cannot be used: {error.strerror or error}; nothing was sent"
        ) from None
