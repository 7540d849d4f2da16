"""Opening a PostgreSQL database: durable settings, one schema version, errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from deniable.server.store.postgres.address import Database
from deniable.server.store.postgres.locks import CREATING, lock
from deniable.server.store.postgres.schema import PURGED, RECEIVING, TABLES, VERSION
from deniable.server.store.protocol import StoreLost
from deniable.server.store.sql.register import begin_register_in, say_version
from deniable.server.store.sql.tables import about, happened, metadata
from deniable.shared.errors import StoreUnusable

CONNECTIONS, MORE, PATIENCE_SECONDS = 4, 8, 10
UPGRADE = "DEPLOYING.md says how to upgrade"
OLDER = frozenset({"1", "2"})  # the versions that are migrated
BEGIN = {"schema": str(VERSION), RECEIVING: "0", PURGED: "0"}
READ_ONLY = "the database is read-only, a standby perhaps; name the primary with --store"
CURES = {  # by SQLSTATE, or by its class
    "25006": READ_ONLY,
    "28": "the database refused the role or its password; see ~/.pgpass or PGPASSWORD",
    "3D": "there is no such database; make it: createdb NAME",
    "42501": "its role may not; it must own the tables and may create them in its schema",
    "42P07": "it holds tables of somebody else; give deniable a database of its own",
    "42P01": "it is not a database of deniable; use another",
    "42703": "it is not a database of deniable; use another",
    "53100": "the database's disk is full; make room",
    "53300": "the database has no connection left; raise its max_connections",
}
LOST = ("58", "XX")  # an error of the disk, damaged pages


def create_database(database: Database) -> Engine:
    """The database, with tables made in it if it has none yet, or migrated. Only where it can be
    written."""
    engine = engine_of(database)
    with _or_closed(engine), transaction(engine, "make its tables") as connection:
        check_not_read_only(connection)
        lock(connection, CREATING)  # another start may be the first
        if not engine.dialect.has_table(connection, about.name):
            metadata.create_all(connection, TABLES, checkfirst=False)
            rows = [{"key": key, "value": value} for key, value in BEGIN.items()]
            connection.execute(about.insert(), rows)
        elif (version := _version(connection)) in OLDER:
            if version == "1":
                begin_register_in(connection)
            happened.create(connection)
            say_version(connection, VERSION)
        check_version(connection, database)
    return engine


def open_database(database: Database) -> Engine:
    """The database, which must have our tables."""
    engine = engine_of(database)
    with _or_closed(engine), transaction(engine, "be opened") as connection:
        if not engine.dialect.has_table(connection, about.name):
            raise StoreUnusable(
                f"{database} holds no data of deniable; `deniable serve --store {database}` "
                "begins some"
            )
        check_version(connection, database)
    return engine


def check_version(connection: Connection, database: Database) -> None:
    """Refuse tables that this version does not know."""
    version = _version(connection)
    if version != str(VERSION):
        older = version is not None and version.isdigit() and int(version) < VERSION
        cure = UPGRADE if older else "use the deniable that wrote it, or a newer one"
        cure = "`deniable serve` migrates it when it starts" if version in OLDER else cure
        raise StoreUnusable(
            f"{database} has schema version {version}, and this deniable reads version {VERSION}; "
            f"{cure}. Nothing was changed."
        )


def _version(connection: Connection) -> str | None:
    return connection.scalar(select(about.c.value).where(about.c.key == "schema"))


def check_not_read_only(connection: Connection) -> None:
    if connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
        raise StoreUnusable(READ_ONLY)


@contextmanager
def transaction(engine: Engine, aim: str) -> Iterator[Connection]:
    """All or nothing; what the database says against it comes out as an error of ours."""
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise ours(error, aim) from None  # its text may quote a row


def engine_of(database: Database) -> Engine:
    parameters = database.parameters()
    engine = create_engine(
        "postgresql+psycopg://",
        connect_args=parameters,
        hide_parameters=True,  # messages end in logs, and payloads must not
        pool_size=CONNECTIONS,
        max_overflow=MORE,
        pool_timeout=PATIENCE_SECONDS,
    )
    event.listen(engine, "connect", _set_up)
    return engine


def ours(error: SQLAlchemyError, aim: str) -> StoreUnusable:
    """What the database says against it, in our words. Its details may quote rows: left out."""
    cause: Any = error.orig if isinstance(error, DBAPIError) else None  # Any: the driver's
    code = getattr(cause, "sqlstate", None) or ""
    said = getattr(getattr(cause, "diag", None), "message_primary", None)
    if said is None:  # no answer of the server: the connection, then
        lines = str(cause).splitlines() if cause else [type(error).__name__]
        said = " ".join(line.strip() for line in lines)
    cure = CURES.get(code) or CURES.get(code[:2])
    kind = StoreLost if code[:2] in LOST else StoreUnusable
    return kind(f"the store could not {aim}: {said}" + (f"; {cure}" if cure else ""))


@contextmanager
def _or_closed(engine: Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _set_up(connection: Any, _: object) -> None:  # Any: the driver's connection
    """A commit is on disk when it is answered, whatever the role's own settings are."""
    connection.execute("SET synchronous_commit = on")
    connection.commit()
