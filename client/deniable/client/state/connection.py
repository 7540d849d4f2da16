"""The state on disk: one SQLite file that only its owner can read, and a marker beside it.

Every transaction begins IMMEDIATE: one at a time, over all threads and processes, and none lasts
while the network is slow. Between transactions the connection is kept, and closed before a fork:
no child finds one open (of forks in C, see inherited.py). It is opened anew when another file
stands in its place.

Changes go to a write-ahead log, the -wal file [1]. A durable transaction has ended when the disk
says that the log is written: one sync. Any other is in the hands of the system: it outlives the
process, not a loss of power. Whatever is lost then is lost from the log's end: its frames carry a
running checksum, and recovery stops at the first one that does not fit. So a durable transaction
takes all before it to the disk, and what comes later cannot tear it. Where something is deleted
that must not be left, the log is folded into the database and emptied. A file system without shared
memory has no such log: there SQLite keeps a rollback journal, and every transaction is durable.

[1] SQLite, "Write-Ahead Logging" and "WAL-mode File Format", sqlite.org.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deniable.client.forking import ForkAware
from deniable.client.state import Transaction, inherited, schema
from deniable.client.state.ledger import count_charges, none_is_missing
from deniable.client.state.marker import Marker, sync_folder
from deniable.shared.errors import StoreUnusable

DATABASE, MARKER = "deniable.sqlite3", "deniable.used"
PATIENCE = 5.0  # seconds to wait for other threads and processes
MOST_LOGGED = 4_000  # pages; the commit that exceeds them folds the log into the database
MOST_CHECKED = 16 * 2**20  # bytes; each ledger is checked by its seals, whatever the size


class StateBlocked(StoreUnusable):
    """Another process has held the database for too long, or the disk is full or cannot be written.
    Nothing is damaged, and it may pass."""


BLOCKED = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class State(ForkAware):
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.database, self.marker = self.folder / DATABASE, Marker(self.folder / MARKER)
        self._address = f"file:{quote(str(self.database))}?mode=rw"
        self._gate, self._held = threading.Lock(), False
        self._db: Transaction | None = None
        self._file: tuple[int, int] | None = None  # which file the connection has open
        self._opened: inherited.Files | None = None  # the same, with the files beside it
        super().__init__()

    def remake(self) -> None:
        """In a child that was forked amid a transaction, SQLite itself cannot be trusted. Its
        parent's connection must not even be closed here: it is kept, and never used."""
        self._broken = self._gate.locked() and not self._held
        if self._db is not None:
            inherited.leave(self._db, self.database, self._opened)
        self._db = self._opened = None
        self._held = self._checked = False
        self._gate = threading.Lock()

    @property
    def begun(self) -> bool:
        """Whether anything was ever stored here."""
        return self.database.exists() or self.marker.exists

    @contextmanager
    def transaction(self, create: bool = False, durable: bool = True) -> Iterator[Transaction]:
        """All of it on disk when the block ends well, none of it otherwise. If it need not be
        durable, a loss of power may undo it."""
        with self._exclusively(), _as_unusable(self.database):
            db = self._begin(create, durable)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                self._disconnect()
                raise
            if db.erased:
                _fold(db)

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        with suppress(StoreUnusable), self._exclusively():
            self._disconnect()

    def destroy(self) -> bool:
        """Delete a database that cannot be read, but never the marker: no budget comes back."""
        try:
            self.marker.make()
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.database}{suffix}").unlink(missing_ok=True)
        except OSError:
            return False
        return True

    # Opening

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """One thread of this process at a time, so that a fork can wait for all of them."""
        self.same_process()
        gate = self._gate
        if self._broken or not gate.acquire(timeout=PATIENCE):
            raise StateBlocked("the state is in use by another thread, or was in use at a fork")
        try:
            yield
        finally:
            gate.release()

    def _begin(self, create: bool, durable: bool) -> Transaction:
        """A connection inside a transaction. SQLite says "busy" at once in some of its own
        moments (the last connection closing, recovery), so waiting is up to us."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._open(create, durable)
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - how long it waits is no secret

    def _open(self, create: bool, durable: bool) -> Transaction:
        charges = self.marker.charges
        if not self.database.exists():
            if charges is not None:
                raise StoreUnusable(
                    f"{self.database} is missing, and without it what was spent is not known; "
                    "put it back, or delete the folder to start as a new install"
                )
            if not create:
                raise StoreUnusable(f"{self.folder} holds no state yet")
            self._make_file()
        try:
            db = self._connect()
            begun = charges is not None  # else the schema is on disk before there is a marker
            lax = not durable and begun and self._opened is not None
            db.execute(f"PRAGMA synchronous = {'NORMAL' if lax else 'FULL'}")
            self._prepare(db, charges)
        except BaseException:
            self._disconnect()
            raise
        return db

    def _connect(self) -> Transaction:
        """To a database that is there: SQLite must not make an empty one in its place."""
        stat = self.database.stat()
        file = stat.st_dev, stat.st_ino
        if self._file != file:
            self._disconnect()
        if self._db is None:
            inherited.take_locks(self.database)
            self._db = sqlite3.connect(
                self._address,
                uri=True,
                timeout=0.5,
                isolation_level=None,
                check_same_thread=False,
                factory=Transaction,
            )
            self._file = file
            self._db.execute("PRAGMA fullfsync = ON")  # on macOS, through the disk's own cache
            self._db.execute("PRAGMA secure_delete = ON")
            if self._db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",):
                self._db.execute(f"PRAGMA wal_autocheckpoint = {MOST_LOGGED}")
                self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # opens the log
                self._opened = inherited.files(self.database)
            else:
                self._db.execute("PRAGMA journal_mode = TRUNCATE")
        return self._db

    def _disconnect(self) -> None:
        """Roll back what is under way, and close."""
        db, self._db, self._file, self._opened = self._db, None, None, None
        if db is not None:
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            db.close()

    def _prepare(self, db: Transaction, charges: int | None) -> None:
        db.execute("BEGIN IMMEDIATE")
        version = _pragma(db, "user_version")
        if version == 0 and charges is None and not _pragma(db, "schema_version"):
            schema.create(db)
            db.execute("COMMIT")  # before there is a marker: an empty database beside one is a loss
            db.execute("BEGIN IMMEDIATE")
        elif version in (1, 2, 3) and _pragma(db, "application_id") == schema.APPLICATION:
            schema.migrate(db, version)
        elif (version, _pragma(db, "application_id")) != (schema.VERSION, schema.APPLICATION):
            raise StoreUnusable(
                f"{self.database} has schema {version}, and this version reads {schema.VERSION}; "
                "use the version of deniable that wrote it, or a newer one"
            )
        if charges is None:
            self.marker.make()
        self._check_whole(db, charges or 0)

    def _check_whole(self, db: Transaction, charges: int) -> None:
        if not self._checked:
            size = _pragma(db, "page_count") * _pragma(db, "page_size")
            sound = size > MOST_CHECKED or _pragma(db, "integrity_check(1)") == "ok"
            if not (sound and none_is_missing(db)):
                raise StoreUnusable(f"{self.database} is damaged; restore it, or delete the folder")
            self._checked = True
        kept = count_charges(db)
        if kept < charges:
            raise StoreUnusable(
                f"{self.database} is older than the charges made with it; restore the newer one"
            )
        if kept > charges:  # a crash, or a lost marker, has left some out
            self.marker.note(kept)

    def _make_file(self) -> None:
        missing = [each for each in (self.folder, *self.folder.parents) if not each.is_dir()]
        if missing:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
        self._link_new_file()

    def _link_new_file(self) -> None:
        """Under its name nothing is closed: closing any file of a database drops the locks that
        SQLite holds on it elsewhere in this process."""
        new = Path(f"{self.database}-new")
        os.close(os.open(new, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            os.link(new, self.database)
        except (FileExistsError, FileNotFoundError):
            return  # another was faster
        except OSError:  # no links on this file system
            new.replace(self.database)
        finally:
            new.unlink(missing_ok=True)

    # Forks: a fork waits for the transaction under way

    def before_fork(self) -> None:
        self.same_process()
        self._held = self._gate.acquire(timeout=PATIENCE)
        if self._held:
            self._disconnect()

    def after_fork(self) -> None:
        if self._held:
            self._held = False
            self._gate.release()


def _fold(db: Transaction) -> None:
    """Into the database with the log. Where others are at work in it, the next transaction does."""
    with suppress(sqlite3.Error):
        db.erased = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0


def _pragma(db: Transaction, name: str) -> Any:  # Any: SQLite's kinds of value
    return db.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def _as_unusable(database: Path) -> Iterator[None]:
    """One kind of error for whatever the disk does; SQLite's words hold no answers."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind = StateBlocked if code in BLOCKED else StoreUnusable
        raise kind(f"{database} cannot be used: {error}; nothing was sent") from None
    except (TypeError, ValueError):  # a value that was never written so
        raise StoreUnusable(f"{database} is damaged; nothing was sent") from None
    except OSError as error:
        raise StateBlocked(
            f"{database} cannot be used: {error.strerror or error}; nothing was sent"
        ) from None
