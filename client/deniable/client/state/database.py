"""The state on disk: one SQLite file that only its owner can read, with a marker and the drafts.

Every transaction that writes begins IMMEDIATE, so these run one at a time over all threads and
processes. Reads have a connection of their own and wait for no writer. No transaction is open
during a network exchange. Connections stay open between transactions once this process has written
durably. They are reopened when another file takes the database's place.

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
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deniable.client.signal_safety import LockWait, lock_wait_of_call
from deniable.client.state import Transaction, schema
from deniable.client.state.drafts import DraftFile, clear_released_slots
from deniable.client.state.ledger import KEY_BYTES, Identity, Ledger, has_gap
from deniable.client.state.outbox import uniform
from deniable.client.state.store import Now, State, StateBlocked, system_time
from deniable.shared.errors import StoreUnusable

NEW_INSTALL = (
    "delete the folder to start as a new install, which also refills the privacy budget: the ε "
    "spent so far is forgotten, and the app can spend all of it again"
)
DATABASE, MARKER, DRAFTS = "deniable.sqlite3", "deniable.used", "deniable.drafts"
# a fork's wait for the disk; the running transaction then waits for no lock. Without this wait, a
# forked child could never use the state
FORK_WAIT_SECONDS = 5.0
MAX_BUSY_SECONDS = 0.05  # SQLite's own wait
MAX_LOG_PAGES = 4_000  # a commit that exceeds this folds the log into the database
MAX_CHECKED_BYTES = 16 * 2**20  # larger databases rely on the seals of each ledger
WINDOWS: bool = sys.platform.startswith("win")

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
BLOCKED = BUSY | {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}  # fmt: skip


class SqliteTransaction(sqlite3.Connection):
    """A connection inside a transaction, with the ledgers that it has verified while it is open."""

    today, reserving, normal_delay, numbered = date.min, "", 0.0, "TRUE"
    erased = True  # the -wal file may hold deleted rows: a killed process can leave them there
    unwritten: set[Identity]

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: passed on to SQLite
        super().__init__(*arguments, **options)
        self._verified: dict[bytes, Ledger] = {}
        self._data_version = -1  # changes when another connection writes

    @property
    def verified(self) -> dict[bytes, Ledger]:
        if (version := _pragma(self, "data_version")) != self._data_version:
            self._verified.clear()
            self._data_version = version
        return self._verified

    def lock(self, person: bytes) -> None:
        """Do nothing: transactions that write run one at a time."""

    def people_key(self) -> bytes:
        (key,) = self.execute("SELECT key FROM people_key").fetchone() or (None,)
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError("the key of the people is damaged")
        return key

    def charges(self) -> int:
        """Count the charges by the last number: fast enough for every transaction."""
        return int(self.execute("SELECT coalesce(max(number), 0) FROM charges").fetchone()[0])

    def expired(self, table: str) -> str:  # noqa: ARG002 - all of them
        return "until <= :now"

    def new_number(self) -> None:
        """Return None: SQLite never uses a number of the outbox twice."""


_inherited: list[tuple[SqliteTransaction, tuple[int, int]]] = []  # so that none is closed


class _Connection:
    """Connection to the database. The thread that holds its gate may use it."""

    def __init__(self) -> None:
        self.gate, self.held = threading.Lock(), False
        self.db: SqliteTransaction | None = None
        self.file: tuple[int, int] = (0, 0)  # device and inode of the open file
        self.opened_in = 0  # the process that opened it

    def close(self) -> None:
        """Roll back the open transaction, and close the connection."""
        db, self.db = self.db, None
        if db is not None:
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            db.close()


class SqliteState(State):
    """State folder of one install: its database, its marker and its drafts."""

    folder: Path

    def __init__(self, folder: str | os.PathLike[str], now: Now = system_time) -> None:
        self._problem, self.folder = "", Path(folder)
        try:
            self.folder = self.folder.expanduser().absolute()
        except (RuntimeError, OSError) as error:  # no home folder, or no current one
            self._problem = f"the folder {folder} cannot be found: {error}; nothing was sent"
        self.database, self.marker = self.folder / DATABASE, self.folder / MARKER
        self.drafts = DraftFile(self.folder / DRAFTS)
        self._address = f"file:{quote(str(self.database))}?mode=rw"
        self.address = str(self.folder)
        self._writer, self._reader, self._made_by = _Connection(), _Connection(), os.getpid()
        super().__init__(now)

    def remake(self) -> None:
        """Prepare a forked child: after a fork during a transaction, SQLite cannot be trusted."""
        connections = self._writer, self._reader
        self._broken = any(c.gate.locked() and not c.held for c in connections)
        if self._made_by != os.getpid():
            _inherited.extend((c.db, c.file) for c in connections if c.db is not None)
            self._writer, self._reader, self._made_by = _Connection(), _Connection(), os.getpid()
            self._postponed = []  # the parent writes them
        for connection in self._writer, self._reader:
            connection.gate, connection.held = threading.Lock(), False
        self._checked = self._stays_open = self._forking = False

    @property
    def begun(self) -> bool:
        """True once anything has been stored, and where that cannot be known."""
        try:
            return bool(self._problem) or _exists(self.database) or _exists(self.marker)
        except OSError:
            return True

    @property
    def can_begin(self) -> bool:
        """True if the folder can be made or written, so that a choice can be stored."""
        try:
            nearest = next(path for path in (self.folder, *self.folder.parents) if _exists(path))
            return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
        except (OSError, StopIteration):
            return False

    @contextmanager
    def transaction(self, create: bool = False, durable: bool = True) -> Iterator[Transaction]:
        writer = self._writer
        with self._exclusively(writer) as wait:
            db = self._begin(partial(self._open, create, durable), wait)
            db.execute(f"PRAGMA busy_timeout = {int(1000 * min(MAX_BUSY_SECONDS, wait.rest))}")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                writer.close()
                raise
            if db.erased and _clear_slots(db, self.drafts):
                begin = time.monotonic()
                _fold(db)
                wait.spend_since(begin)
            self._stays_open = self._stays_open or durable
            if not self._stays_open:
                writer.close()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        if self._is_unprepared():
            with self.transaction(durable=False) as db:
                yield db
            return
        reader = self._reader
        with self._exclusively(reader) as wait:
            db = self._begin(self._open_snapshot, wait)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                reader.close()
                raise
            if not self._stays_open:
                reader.close()

    def close(self) -> None:
        """Close the connections; a transaction that runs now, or is next, closes its own."""
        self._stays_open = False
        for connection in self._writer, self._reader:
            with suppress(StoreUnusable), self._exclusively(connection):
                connection.close()

    def destroy(self) -> bool:
        """Delete an unreadable database but keep its marker, so that no budget is refilled."""
        try:
            self._make_marker()
            self.drafts.destroy()
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
    def _exclusively(self, connection: _Connection) -> Iterator[LockWait]:
        """Admit one thread of this process at a time, so that a fork can wait for the last one."""
        self.same_process()
        gate, wait, begin = connection.gate, lock_wait_of_call(), time.monotonic()
        admitted = not self._broken and gate.acquire(timeout=wait.rest)
        wait.spend_since(begin)
        if not admitted:
            raise StateBlocked("another thread uses the state, or did when this process forked")
        try:
            with _as_unusable(self.database):
                yield wait
        finally:
            gate.release()

    def _begin(self, start: Callable[[], SqliteTransaction], wait: LockWait) -> SqliteTransaction:
        """Begin a transaction, and wait while others write."""
        while True:
            begin = time.monotonic()
            try:
                return start()
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF in BUSY
                if not busy or not wait.rest or self._forking:
                    raise
            time.sleep(min(wait.rest, uniform(0.001, 0.02)))
            wait.spend_since(begin)

    def _open(self, create: bool, durable: bool) -> SqliteTransaction:
        if self._problem:
            raise StoreUnusable(self._problem)
        charges = self._marked_charges()
        if not _exists(self.database):
            if charges is not None:
                raise StoreUnusable(
                    f"{self.database} is missing, so the ε already spent is unknown; "
                    f"put it back, or {NEW_INSTALL}"
                )
            if not create:
                raise StoreUnusable(f"{self.folder} holds no state yet")
            self._make_database_file()
        try:
            db = self._connect(self._writer)
            # The schema must be on disk before the marker is created.
            lax = not durable and charges is not None and self._keeps_log
            db.execute(f"PRAGMA synchronous = {'NORMAL' if lax else 'FULL'}")
            self._prepare(db, charges)
        except BaseException:
            self._writer.close()
            raise
        return db

    def _open_snapshot(self) -> SqliteTransaction:
        charges = self._marked_charges()  # before the snapshot, which then has all of them
        try:
            db = self._connect(self._reader)
            db.execute("BEGIN")
            _check_schema(db, self.database)
            self._check_whole(db, charges or 0)
        except BaseException:
            self._reader.close()
            raise
        return db

    def _is_unprepared(self) -> bool:
        """Return whether only a transaction can open the state, or say what is wrong with it."""
        try:
            return bool(self._problem) or not (_exists(self.database) and _exists(self.marker))
        except OSError:
            return True

    def _marked_charges(self) -> int | None:
        try:
            return self.marker.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _connect(self, connection: _Connection) -> SqliteTransaction:
        """Connect to the existing file: SQLite must not create an empty one in its place."""
        stat = self.database.stat()
        file = stat.st_dev, stat.st_ino
        if any(file == inherited for _, inherited in _inherited):
            raise StoreUnusable(
                f"{self.database} was open during a fork that Python did not notice; "
                "create the Client after the fork (uWSGI: set py-call-uwsgi-fork-hooks)"
            )
        if connection.file != file:
            connection.close()
        if connection.db is None:
            connection.db = sqlite3.connect(
                self._address,
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                factory=SqliteTransaction,
            )
            connection.file, connection.db.unwritten = file, self.consents.unwritten
            if connection is self._writer:
                self._configure(connection.db)
        connection.db.execute("PRAGMA busy_timeout = 0")  # `_begin` waits
        connection.db.today = self.now().astimezone(UTC).date()
        return connection.db

    def _configure(self, db: SqliteTransaction) -> None:
        db.execute("PRAGMA fullfsync = ON")  # on macOS, through the disk's own cache
        db.execute("PRAGMA secure_delete = ON")
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()
        self._keeps_log = mode == ("wal",)
        if self._keeps_log:
            db.execute(f"PRAGMA wal_autocheckpoint = {MAX_LOG_PAGES}")
        else:
            db.execute("PRAGMA journal_mode = TRUNCATE")

    def _prepare(self, db: SqliteTransaction, charges: int | None) -> None:
        db.execute("BEGIN IMMEDIATE")
        new = charges is None and not _pragma(db, "user_version")
        if new and not _pragma(db, "schema_version"):
            schema.create(db)
            db.execute("COMMIT")  # an empty database next to a marker counts as a loss
            db.execute("BEGIN IMMEDIATE")
        else:
            _check_schema(db, self.database)
        if charges is None:
            self._make_marker()
        recorded = self._check_whole(db, charges or 0)
        if recorded > (charges or 0):  # after a crash, or a lost marker
            self.note_charges(recorded)

    def _check_whole(self, db: SqliteTransaction, charges: int) -> int:
        """Return the number of charges on record; raise StoreUnusable if some are missing."""
        if not self._checked:
            size = _pragma(db, "page_count") * _pragma(db, "page_size")
            sound = size > MAX_CHECKED_BYTES or _pragma(db, "integrity_check(1)") == "ok"
            if not sound or has_gap(db):
                raise StoreUnusable(f"{self.database} is damaged; restore it, or {NEW_INSTALL}")
            self._checked = True
        recorded = db.charges()
        if recorded < charges:
            raise StoreUnusable(
                f"{self.database} is older than its marker, so charges are missing; "
                "restore the newer one"
            )
        return recorded

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
        self._forking, deadline = True, time.monotonic() + FORK_WAIT_SECONDS
        for connection in self._writer, self._reader:
            rest = max(0.0, deadline - time.monotonic())
            connection.held = connection.gate.acquire(timeout=rest)
            if connection.held:
                connection.close()

    def after_fork(self) -> None:
        self._forking = False
        for connection in self._writer, self._reader:
            if connection.held:
                connection.held = False
                connection.gate.release()


def _exists(path: Path) -> bool:
    """Return whether the file exists; raise OSError if its folder cannot be searched."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _check_schema(db: SqliteTransaction, database: Path) -> None:
    version, application = _pragma(db, "user_version"), _pragma(db, "application_id")
    if (version, application) != (schema.VERSION, schema.APPLICATION):
        raise StoreUnusable(
            f"{database} has schema {version}, and this version reads {schema.VERSION}; "
            f"use the version of deniable that wrote it, or {NEW_INSTALL}"
        )


def _sync_folder(path: Path) -> None:
    """Make the names in this folder durable. On Windows, the file system does."""
    if WINDOWS:
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _clear_slots(db: SqliteTransaction, drafts: DraftFile) -> bool:
    """Zero the slots of deleted drafts. Where this fails, the next transaction tries again."""
    try:
        clear_released_slots(db, drafts)
    except (sqlite3.Error, OSError):
        if db.in_transaction:
            db.execute("ROLLBACK")
        return False
    return True


def _fold(db: SqliteTransaction) -> None:
    """Fold the log into the database. If it is in use, the next transaction tries again."""
    with suppress(sqlite3.Error):
        db.erased = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0


def _pragma(db: SqliteTransaction, name: str) -> Any:  # Any: SQLite's kinds of value
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
