"""Opening a data folder's database: durable settings, one schema version, errors in our words."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from deniable.server.disk import PRIVATE_FILE, PRIVATE_FOLDER
from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.sql.tables import about, metadata
from deniable.server.store.sqlite.log import fault_of
from deniable.server.store.sqlite.schema import TABLES, VERSION
from deniable.shared.errors import StoreUnusable

FILE = "deniable.sqlite3"
BUSY_SECONDS = 10
PRAGMAS: tuple[str, ...] = (
    "page_size = 1024",  # of a new file: as large as what is written for one report
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit is on disk, also after a power cut
    "foreign_keys = ON",
    "secure_delete = ON",  # what is purged is overwritten
)
REPAIR = "stop the server, then: deniable doctor --data {data} --repair"
CUT_OFF = (
    "the end of %s-wal is not whole: so a write that was cut off leaves it, and nothing is lost; "
    "if there was neither a kill nor a power cut, a disk has damaged it, and what was acknowledged "
    "last may be lost"
)
UPGRADE = "DEPLOYING.md says how to upgrade"
OLDER = frozenset({"1", "2", "3", "4", "5"})  # the versions that are migrated
_VERSION = "SELECT value FROM about WHERE key = 'schema'"
log = logging.getLogger("deniable.server")
LOST = (  # not a full disk: that only wants room
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


def create_folder(data: Path) -> None:
    """A folder for its owner only; one that is in use stays as it is. Our files are private."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        if not any(data.iterdir()):
            data.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise StoreUnusable(f"{data} cannot be used as a data folder: {error.strerror}") from None


def create_database(data: Path) -> Engine:
    """The database of this folder, made if it is not there yet."""
    create_folder(data)
    if is_begun(data):
        return open_database(data)
    engine = engine_of(data / FILE)
    with transaction(engine, "make its tables") as connection:
        if not engine.dialect.has_table(connection, about.name):  # else another start was first
            metadata.create_all(connection, TABLES)
            connection.execute(about.insert().values(key="schema", value=str(VERSION)))
    (data / FILE).chmod(PRIVATE_FILE)
    return engine


def open_database(data: Path) -> Engine:
    """The database of this folder, which must be there."""
    if not (data / FILE).is_file():
        raise StoreUnusable(
            f"{data} holds no data of deniable; `deniable serve --data {data}` begins some"
        )
    check_version(data / FILE)
    if fault_of(data / FILE) is not None:
        log.warning(CUT_OFF, data / FILE)
    return engine_of(data / FILE)


def check_version(file: Path) -> None:
    """Refuse tables that this version does not know, without changing a byte of them."""
    version = version_of(file)
    if version != str(VERSION):
        newer = not version.isdigit() or int(version) > VERSION
        cure = "use the deniable that wrote it, or a newer one" if newer else UPGRADE
        cure = "`deniable serve` migrates it when it starts" if version in OLDER else cure
        raise StoreUnusable(
            f"{file} has schema version {version}, and this deniable reads version {VERSION}; "
            f"{cure}. Nothing was changed."
        )


def version_of(file: Path) -> str:
    """The schema version that a database says it has. Its log is looked at before SQLite does."""
    fault = fault_of(file)
    if fault is not None and fault.certain:
        raise Damaged(
            f"a disk has damaged {file}-wal, with {fault.commits} commits at or behind that place: "
            f"{REPAIR.format(data=file.parent)}"
        )
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(_VERSION).fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        raise StoreUnusable(f"{file} is not a database of deniable: {error}; use another") from None
    return found[0] if found else "of no number"


@contextmanager
def transaction(engine: Engine, aim: str, *, writes: bool = True) -> Iterator[Connection]:
    """All or nothing; what the database says against it comes out as an error of ours."""
    try:
        with engine.connect().execution_options(writes=writes) as connection, connection.begin():
            yield connection
    except (SQLAlchemyError, sqlite3.Error, UnicodeError) as error:  # the last of a damaged text
        raise ours(error, aim) from error


def connect(file: Path) -> sqlite3.Connection:
    """By the driver alone, whose transactions begin and end where they say so."""
    driver = sqlite3.connect(file, timeout=BUSY_SECONDS, check_same_thread=False)
    _set_up(driver)
    return driver


def driver_of(connection: Connection) -> sqlite3.Connection:
    """What a connection speaks through, in its transaction."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def is_begun(data: Path) -> bool:
    """Whether there is a database with tables: a first start that was killed leaves none."""
    file = data / FILE
    if not file.is_file():
        return False
    if (fault := fault_of(file)) is not None and fault.certain:
        return True  # and whoever opens it says so
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
    except sqlite3.Error:
        return True


def engine_of(file: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{file.resolve()}",
        hide_parameters=True,  # messages end in logs, and payloads must not
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _: object = None) -> None:  # Any: the driver's connection
    connection.isolation_level = None  # transactions begin where we say so, below
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """Writers take the lock at once: a transaction that waits for it halfway would fail instead."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def ours(error: SQLAlchemyError | sqlite3.Error | UnicodeError, aim: str) -> StoreUnusable:
    """What the database says against it, in our words."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return StoreUnusable(f"the store could not {aim}: {type(error).__name__}")
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    kind = StoreLost if code in LOST else StoreUnusable
    return kind(f"the store could not {aim}: {cause}")
