"""Settling: after it, what is stored of reports tells nothing of when each came.

Arrivals go on in one table. What the other has gathered is merged with what was settled before, in
the order of its key, by one transaction; then the emptied tables are cut to nothing and their
indexes made anew, and the tallies are written out afresh, for their old states would show what
each group added. Readers see one state or the other: deleting respects them, truncating would not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, Table, delete, exists, insert, select, union_all
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from deniable.server.store.postgres.database import ours, transaction
from deniable.server.store.postgres.locks import GROUPS, SETTLING, lock, try_lock
from deniable.server.store.postgres.saying import said, say
from deniable.server.store.postgres.schema import (
    DELETED,
    ENVELOPES,
    PURGED,
    RECEIVING,
    arrivals,
    settled,
)
from deniable.server.store.sql.tables import about, counters, surveys, tallies
from deniable.shared.errors import StoreUnusable

PAUSE_SECONDS = 5.0  # at least, from one to the next
SHARE = 50  # and so many times as long as the last one took: 2 % of the time
LOCK_MILLISECONDS = 200  # uploads wait behind it for no longer
LOCK_NOT_AVAILABLE = "55P03"
REWRITTEN = (surveys, counters, tallies)  # in this order
LIVING = """
SELECT reltuples <= (SELECT count(*) FROM surveys)
FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
WHERE indrelid = 'surveys'::regclass AND indisprimary
"""
COLUMNS = [column.name for column in arrivals[0].columns]

log = logging.getLogger("deniable.server")


class Settler:
    """Settles in a thread of its own, so that uploads do not wait for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self.done = False  # set by whoever writes, too

    def turn(self) -> bool:
        """Begin if it is time. Whether all is settled that was written before."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if not self.done and time.monotonic() >= self._due:
            self._thread = threading.Thread(target=self._settle, name="settler", daemon=True)
            self._thread.start()
            return False
        return self.done

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _settle(self) -> None:
        begin = time.monotonic()
        self.done = True  # unless somebody writes meanwhile
        try:
            if not settle(self._engine):
                self.done = False
        except StoreUnusable as error:
            self.done = False
            log.warning("%s; it is tried again", error)
        end = time.monotonic()
        self._due = end + max(PAUSE_SECONDS, SHARE * (end - begin))


def settle(engine: Engine) -> bool:
    """Whether no trace is left of what had come when it began: a reader may delay that."""
    with transaction(engine, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False  # another node does
        _change_tables(connection)
    with transaction(engine, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False
        _merge(connection)
    return _unless_delayed(engine, _scoured)


def _change_tables(connection: Connection) -> None:
    """Let arrivals go to the other table, once every group that uses this one has ended."""
    now = int(said(connection, RECEIVING))
    if _holds(connection, arrivals[now]) and not _holds(connection, arrivals[1 - now]):
        lock(connection, GROUPS)
        say(connection, RECEIVING, str(1 - now))


def _merge(connection: Connection) -> None:
    """What is not receiving, and what is settled, in the order of its key."""
    come = arrivals[1 - int(said(connection, RECEIVING))]
    if not _holds(connection, come) and said(connection, PURGED) == "0":
        return
    source, target = settled if _holds(connection, settled[0]) else reversed(settled)
    rows = union_all(select(source), select(come)).subquery()
    in_order = select(rows).order_by(rows.c.survey, rows.c.round, rows.c.id)
    connection.execute(insert(target).from_select(COLUMNS, in_order))
    for table in (source, come):
        connection.execute(delete(table))
    say(connection, PURGED, "0")


def rewrite_surveys(engine: Engine) -> bool:
    """Leave nothing in the files of surveys that are deleted. Whether no reader has delayed
    it: then the next settling does it."""
    return _unless_delayed(engine, _rewritten)


def _unless_delayed(engine: Engine, clean: Callable[[Connection], bool]) -> bool:
    """Who waited for a reader's lock for longer would make everybody else wait behind it."""
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            try:
                connection.exec_driver_sql(f"SET lock_timeout = {LOCK_MILLISECONDS}")
                return clean(connection)
            finally:
                connection.exec_driver_sql("RESET lock_timeout")
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            return False
        raise ours(error, "clean its tables") from None
    except SQLAlchemyError as error:
        raise ours(error, "clean its tables") from None


def _scoured(connection: Connection) -> bool:
    """Leave nothing in the files of what is deleted. Whether nothing has delayed it."""
    for table in ENVELOPES:
        if _size(connection, table) and not _holds(connection, table):
            connection.exec_driver_sql(f"VACUUM (TRUNCATE, INDEX_CLEANUP ON) {table.name}")
            connection.exec_driver_sql(f"REINDEX TABLE {table.name}")
    cleaned = _rewritten(connection)
    return cleaned and not any(
        _size(connection, t) and not _holds(connection, t) for t in ENVELOPES
    )


def _rewritten(connection: Connection) -> bool:
    deleted = last_deleted(connection)
    for table in (tallies,) if deleted is None else REWRITTEN:
        connection.exec_driver_sql(f"VACUUM FULL {table.name}")
        if table is surveys and not _has_living_rows_only(connection):
            return False
    if deleted is not None:  # another one may have been, meanwhile
        connection.execute(delete(about).where(about.c.key == DELETED, about.c.value == deleted))
    return True


def _has_living_rows_only(connection: Connection) -> bool:
    """The surveys that have just been rewritten: deleted ones stay, and are in the new index, while
    anybody reads who may see them. Once they are gone, so is what was deleted with them."""
    return bool(connection.exec_driver_sql(LIVING).scalar())


def last_deleted(connection: Connection) -> str | None:
    """The survey that may still be in the files, and others with it."""
    return connection.scalar(select(about.c.value).where(about.c.key == DELETED))


def _holds(connection: Connection, table: Table) -> bool:
    return bool(connection.scalar(select(exists(select(table.c.id)))))


def _size(connection: Connection, table: Table) -> int:
    """Of its rows, in bytes: also of deleted ones."""
    answer = connection.exec_driver_sql("SELECT pg_relation_size(%s::regclass)", (table.name,))
    return int(answer.scalar_one())
