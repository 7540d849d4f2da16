"""A data folder's database: its schema, durable connections, and errors in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE, PRIVATE_FOLDER
from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.sql_store import TABLES, note
from deniable.server.store.sqlite.bucket import PLACE_BYTES
from deniable.server.store.sqlite.wal_check import fault_of
from deniable.shared.errors import StoreUnusable

FILE = "deniable.sqlite3"
VERSION = 7
BUSY_SECONDS = 10
PRAGMAS: tuple[str, ...] = (
    "page_size = 1024",  # of a new file: as large as what is written for one report
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit is on disk, also after a power cut
    "foreign_keys = ON",
    "secure_delete = ON",  # what is purged is overwritten
)
# A bucket fills a fixed place, where it is overwritten. That needs an integer key: in a table
# without one, large rows are spread over the inner pages too.
ENVELOPES = f"""
CREATE TABLE envelopes (
    number INTEGER PRIMARY KEY,     -- a hash of survey, round and place: no order
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    round BIGINT NOT NULL,          -- the round of the reports
    place BLOB NOT NULL,            -- the middle of the ids that belong in the bucket
    rows BLOB NOT NULL,             -- the bucket: ids, so that a retry counts once, and reports
    digest BLOB NOT NULL,           -- of the columns before it: damage is noticed
    kind INTEGER NOT NULL           -- 0: a bucket, 1: an envelope on its own, more: a later part of
        GENERATED ALWAYS AS (max(length(place), {PLACE_BYTES - 1}) - {PLACE_BYTES - 1}) VIRTUAL
);
CREATE UNIQUE INDEX bucket ON envelopes (survey, round, kind, place);
"""
TYPES = {"sequence": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"}
SCHEMA = TABLES.format(**TYPES) + ENVELOPES
REPAIR = "stop the server, then: deniable doctor --data {data} --repair"
CUT_OFF = (
    "the end of %s-wal is not whole, as after a kill or a power cut, and then nothing is lost; if "
    "there was neither, a disk has damaged it, and the reports acknowledged last may be lost"
)
LOST = (  # not a full disk, which only needs room
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


def create_folder(data: Path) -> None:
    """Make a folder for its owner only; one that is in use stays as it is."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        if not any(data.iterdir()):
            data.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise StoreUnusable(f"{data} cannot be used as a data folder: {error.strerror}") from None


def create_database(data: Path) -> None:
    """Make a folder's database if it is not there yet, and check that it can be used."""
    create_folder(data)
    if is_begun(data):
        check_database(data)
        return
    with (
        errors_as_ours("make its tables"),
        closing(connect(data / FILE)) as driver,
        transaction(driver, writes=True),
    ):
        if driver.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:  # else another start
            for statement in SCHEMA.split(";\n"):
                driver.execute(statement)
            note(driver, "schema", str(VERSION))
    (data / FILE).chmod(PRIVATE_FILE)


def check_database(data: Path) -> None:
    """Refuse a folder without a database of this version."""
    if not (data / FILE).is_file():
        raise StoreUnusable(
            f"{data} holds no data of deniable; `deniable serve --data {data}` begins some"
        )
    check_version(data / FILE)
    if fault_of(data / FILE) is not None:
        import logging

        logging.getLogger("deniable.server").warning(CUT_OFF, data / FILE)


def check_version(file: Path) -> None:
    """Refuse tables of another version, without changing a byte of them."""
    version = _version_of(file)
    if version != str(VERSION):
        raise StoreUnusable(
            f"{file} has schema version {version}, and this deniable reads version {VERSION} only; "
            "use the deniable that wrote it. Nothing was changed."
        )


def is_begun(data: Path) -> bool:
    """Return whether there is a database with tables: a first start that was killed leaves none."""
    file = data / FILE
    if not file.is_file():
        return False
    if (fault := fault_of(file)) is not None and fault.certain:
        return True  # opening it reports the damage
    try:
        with closing(_connect_to_read(file)) as driver:
            return driver.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
    except (sqlite3.Error, UnicodeError):  # the last of a damaged text
        return True


def _version_of(file: Path) -> str:
    """Return the schema version of a database, after a look at its log, before SQLite reads it."""
    fault = fault_of(file)
    if fault is not None and fault.certain:
        raise Damaged(
            f"a disk has damaged {file}-wal, with {fault.commits} commits at or behind that place: "
            f"{REPAIR.format(data=file.parent)}"
        )
    try:
        with closing(_connect_to_read(file)) as driver:
            row = driver.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        raise StoreUnusable(f"{file} is not a database of deniable: {error}; use another") from None
    return row[0] if row else "of no number"


def _connect_to_read(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def connect(file: Path, *, reads_only: bool = False) -> sqlite3.Connection:
    """Open a durable connection, whose transactions begin and end where `transaction` says."""
    driver = sqlite3.connect(
        file, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )
    for pragma in (*PRAGMAS, f"query_only = {'ON' if reads_only else 'OFF'}"):
        driver.execute(f"PRAGMA {pragma}")
    return driver


@contextmanager
def transaction(driver: sqlite3.Connection, *, writes: bool = False) -> Iterator[None]:
    """Commit the block, or roll it back.

    A writer takes the lock when it begins: waiting for it halfway would fail.
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
    """Raise SQLite's errors in the block as ours: StoreLost if the disk itself failed."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
        kind = StoreLost if code in LOST else StoreUnusable
        raise kind(f"the store could not {aim}: {error}") from error
    except UnicodeError as error:  # from a damaged text
        raise StoreUnusable(f"the store could not {aim}: {type(error).__name__}") from error
