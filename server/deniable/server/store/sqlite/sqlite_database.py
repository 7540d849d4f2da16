"""Database of a data folder: schema, durable connections and error messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from deniable.server.disk import PRIVATE_FILE, PRIVATE_FOLDER
from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.sql_store import TABLES, check_schema, note
from deniable.server.store.sqlite.wal_check import fault_of
from deniable.shared.errors import StoreUnusable

FILE = "deniable.sqlite3"
VERSION = 15
BUSY_SECONDS = 4  # twice this is less than a client waits for an answer
PRAGMAS: tuple[str, ...] = (
    "page_size = 1024",  # for a new file; storing a report writes one page
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit survives a power cut
    "foreign_keys = ON",
    "secure_delete = ON",  # purged data is overwritten
)
# The integer key lets SQLite overwrite a bucket in place: with any other key, it would also store
# large rows in the inner pages of the tree.
ENVELOPES = """
CREATE TABLE envelopes (
    number INTEGER PRIMARY KEY,     -- a hash of survey, round and place: no order
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    round BIGINT NOT NULL,          -- the round of the reports
    place BLOB NOT NULL,            -- the middle of the range of ids that the bucket covers
    rows BLOB NOT NULL,             -- reports, and ids so that a retry counts once
    digest BLOB NOT NULL            -- of the columns before it, to detect damage
);
CREATE UNIQUE INDEX bucket ON envelopes (survey, round, place);
CREATE TABLE parts (
    slot INTEGER PRIMARY KEY,       -- drawn at random when a part is inserted: no order
    content BLOB NOT NULL           -- a part of a large payload, as in part_slots
);
"""
TYPES = {
    "sequence": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "bytes": "BLOB",
    "unnumbered": " WITHOUT ROWID",  # a number would show the order of the rows
}
SCHEMA = TABLES.format(**TYPES) + ENVELOPES
REPAIR = "stop the server, then: deniable doctor --data {data} --repair"
CUT_OFF = (
    "the end of %s-wal is incomplete. After a kill or a power cut that is normal and nothing is "
    "lost; otherwise a disk has damaged it, and the last acknowledged reports may be lost"
)
LOST = (  # a full disk is not listed: it only needs more space
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)  # fmt: skip


def create_folder(data: Path) -> None:
    """Create a folder that only its owner can read; leave one that holds files unchanged."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        if not any(data.iterdir()):
            data.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise StoreUnusable(f"{data} cannot be used as a data folder: {error.strerror}") from None


def create_database(data: Path) -> None:
    """Create a folder's database if it does not exist, and check that it can be used."""
    create_folder(data)
    if is_begun(data):
        check_database(data)
        return
    with (
        errors_as_ours("create its tables"),
        closing(connect(data / FILE)) as driver,
        transaction(driver, writes=True),
    ):
        # If another server starts too, it may have just created the tables.
        if driver.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
            for statement in SCHEMA.split(";\n"):
                driver.execute(statement)
            note(driver, "schema", str(VERSION))
    (data / FILE).chmod(PRIVATE_FILE)


def check_database(data: Path) -> None:
    """Refuse a folder that has no database of this version."""
    if not (data / FILE).is_file():
        raise StoreUnusable(
            f"{data} holds no deniable data; create a store: deniable serve --data {data}"
        )
    check_version(data / FILE)
    if fault_of(data / FILE) is not None:
        import logging

        logging.getLogger("deniable.server").warning(CUT_OFF, data / FILE)


def check_version(file: Path) -> None:
    """Refuse a damaged log and tables of another version, without changing any file."""
    fault = fault_of(file)
    if fault is not None and fault.certain:
        raise Damaged(
            f"a disk has damaged {file}-wal, with {fault.commits} commits at or after the damage: "
            f"{REPAIR.format(data=file.parent)}"
        )
    try:
        row = _first_row(file, "SELECT value FROM about WHERE key = 'schema'")
    except (sqlite3.Error, UnicodeError) as error:
        raise StoreUnusable(f"{file} is not a deniable database: {error}; use another") from None
    check_schema(str(file), row[0] if row else None, VERSION)


def is_begun(data: Path) -> bool:
    """Return whether the database has tables: if a first start is killed, it has none."""
    file = data / FILE
    if not file.is_file():
        return False
    if (fault := fault_of(file)) is not None and fault.certain:
        return True  # opening it raises Damaged
    try:
        return _first_row(file, "SELECT 1 FROM sqlite_schema") is not None
    except (sqlite3.Error, UnicodeError):  # UnicodeError: damaged text
        return True


def _first_row(file: Path, query: str) -> Any:  # Any: columns of many types, or None
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as driver:
        return driver.execute(query).fetchone()


def connect(file: Path, *pragmas: str) -> sqlite3.Connection:
    """Open a durable connection that begins no transaction implicitly."""
    driver = sqlite3.connect(
        file, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )
    for pragma in (*PRAGMAS, *pragmas):
        driver.execute(f"PRAGMA {pragma}")
    return driver


@contextmanager
def transaction(driver: sqlite3.Connection, *, writes: bool = False) -> Iterator[None]:
    """Run the block in a transaction: commit it, or roll it back on an error.

    A writer locks the database at the start, since SQLite may refuse the lock later.
    """
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        driver.execute("COMMIT")
    finally:
        if driver.in_transaction:
            driver.rollback()


@contextmanager
def errors_as_ours(aim: str) -> Iterator[None]:
    """Convert SQLite's errors in the block to ours: StoreLost if the disk itself failed."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
        kind = StoreLost if code in LOST else StoreUnusable
        raise kind(f"the store could not {aim}: {error}") from error
    except UnicodeError as error:  # its message would quote damaged text
        raise StoreUnusable(f"the store could not {aim}: {type(error).__name__}") from error
