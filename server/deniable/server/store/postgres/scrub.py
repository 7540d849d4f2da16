"""Settling: after it, the stored envelopes tell nothing of when each came.

Envelopes still arrive in one table. What the other table has gathered is merged with what was
settled before, in the order of its key, by one transaction; then the emptied tables are cut to
nothing and their indexes rebuilt, and the tallies are rewritten, for their old states would show
what each group added. Readers see one state or the other: deleting respects them, truncating would
not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import psycopg

from deniable.server.store.postgres.postgres_database import (
    ARRIVALS,
    DELETED,
    ENVELOPES,
    GROUPS,
    PURGED,
    RECEIVING,
    SETTLED,
    SETTLING,
    Pool,
    PostgresConnection,
    errors_as_ours,
    lock,
    transaction,
    try_lock,
)
from deniable.server.store.sql_store import note, noted
from deniable.shared.errors import StoreUnusable

PAUSE_SECONDS = 5.0  # at least, from one to the next
SHARE = 50  # and as many times as long as the last one took: 2 % of the time
LOCK_MILLISECONDS = 200  # uploads wait behind it for no longer
REWRITTEN = ("surveys", "counters", "tallies")  # in this order
LIVING = """
SELECT reltuples <= (SELECT count(*) FROM surveys)
FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
WHERE indrelid = 'surveys'::regclass AND indisprimary
"""
COLUMNS = "survey, round, id, count, payload"

log = logging.getLogger("deniable.server")


class Settler:
    """Settles in a thread of its own, so that uploads do not wait for it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self.done = False  # also set by every write

    def start_if_due(self) -> bool:
        """Begin if it is time, and return whether all is settled that was written before."""
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
            if not settle(self._pool):
                self.done = False
        except StoreUnusable as error:
            self.done = False
            log.warning("%s; it is tried again", error)
        end = time.monotonic()
        self._due = end + max(PAUSE_SECONDS, SHARE * (end - begin))


def settle(pool: Pool) -> bool:
    """Remove every trace of the order of what had come, and return whether it is done.

    A reader may delay it.
    """
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False  # another node does
        _change_tables(connection)
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False
        _merge(connection)
    return _unless_delayed(pool, _clean_all)


def rewrite_surveys(pool: Pool) -> bool:
    """Leave nothing of deleted surveys in the files, and return whether it is done.

    If a reader has delayed it, the next settling does it.
    """
    return _unless_delayed(pool, _rewrite)


def last_deleted(connection: PostgresConnection) -> str | None:
    """Return the survey that may still be in the files, and others with it."""
    return noted(connection, DELETED)


def _change_tables(connection: PostgresConnection) -> None:
    """Let arrivals go to the other table, once every group that uses this one has ended."""
    now = int(noted(connection, RECEIVING) or 0)
    if _holds(connection, ARRIVALS[now]) and not _holds(connection, ARRIVALS[1 - now]):
        lock(connection, GROUPS)
        note(connection, RECEIVING, str(1 - now))


def _merge(connection: PostgresConnection) -> None:
    """Move what has come and what was settled to one table, in the order of keys."""
    come = ARRIVALS[1 - int(noted(connection, RECEIVING) or 0)]
    if not _holds(connection, come) and noted(connection, PURGED) == "0":
        return
    source, target = SETTLED if _holds(connection, SETTLED[0]) else reversed(SETTLED)
    connection.execute(
        f"INSERT INTO {target} ({COLUMNS}) SELECT {COLUMNS} FROM {source} UNION ALL "
        f"SELECT {COLUMNS} FROM {come} ORDER BY survey, round, id"
    )
    for table in (source, come):
        connection.execute(f"DELETE FROM {table}")
    note(connection, PURGED, "0")


def _unless_delayed(pool: Pool, clean: Callable[[PostgresConnection], bool]) -> bool:
    """Clean outside of a transaction, and return whether it is done.

    It waits for a reader's lock for a moment only, because everybody else waits behind it.
    """
    with errors_as_ours("clean its tables"), pool.connection() as connection:
        try:
            connection.execute(f"SET lock_timeout = {LOCK_MILLISECONDS}")
            return clean(connection)
        except psycopg.errors.LockNotAvailable:
            return False
        finally:
            if not connection.driver.broken:
                connection.execute("RESET lock_timeout")


def _clean_all(connection: PostgresConnection) -> bool:
    """Leave nothing in the files of what is deleted, and return whether nothing has delayed it."""
    for table in ENVELOPES:
        if _size(connection, table) and not _holds(connection, table):
            connection.execute(f"VACUUM (TRUNCATE, INDEX_CLEANUP ON) {table}")
            connection.execute(f"REINDEX TABLE {table}")
    rewritten = _rewrite(connection)
    return rewritten and not any(
        _size(connection, table) and not _holds(connection, table) for table in ENVELOPES
    )


def _rewrite(connection: PostgresConnection) -> bool:
    deleted = last_deleted(connection)
    for table in ("tallies",) if deleted is None else REWRITTEN:
        connection.execute(f"VACUUM FULL {table}")
        if table == "surveys" and not _has_living_rows_only(connection):
            return False
    if deleted is not None:  # another one may have been, meanwhile
        statement = "DELETE FROM about WHERE key = ? AND value = ?"
        connection.execute(statement, (DELETED, deleted))
    return True


def _has_living_rows_only(connection: PostgresConnection) -> bool:
    """Return whether the surveys that have just been rewritten include no deleted ones.

    Deleted rows stay, and are in the new index, while anybody reads who may see them. Once they are
    gone, so is what was deleted with them.
    """
    return connection.execute(LIVING).fetchone() == (True,)


def _holds(connection: PostgresConnection, table: str) -> bool:
    return connection.execute(f"SELECT EXISTS (SELECT FROM {table})").fetchone() == (True,)


def _size(connection: PostgresConnection, table: str) -> int:
    """Return the bytes of a table's rows, deleted ones included."""
    row = connection.execute("SELECT pg_relation_size(?::text::regclass)", (table,)).fetchone()
    return int(row[0]) if row else 0
