"""Settling, which removes every trace of the order and time in which envelopes arrived.

New envelopes continue to arrive in one table. One transaction merges the other arrival table with
the settled rows, in the order of their keys. Then the emptied tables are vacuumed to zero length
and their indexes are rebuilt. The tallies are rewritten too, since their old row versions would
show what each group added. Rows of spent invitations get one transaction and the order of their
codes. Tables are emptied with DELETE, not TRUNCATE, so that readers see the state either before or
after settling.
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
    SPENT,
    Pool,
    PostgresConnection,
    errors_as_ours,
    lock,
    transaction,
    try_lock,
)
from deniable.server.store.sql_store import note, noted
from deniable.shared.errors import StoreUnusable

PAUSE_SECONDS = 5.0  # minimum time between two settlings
SHARE = 50  # the pause is at least this multiple of a settling's duration: 2 % of the time
LOCK_MILLISECONDS = 200  # longest wait for a lock: uploads queue behind it
REWRITTEN = {  # in this order
    "surveys": "VACUUM FULL surveys",
    "counters": "VACUUM FULL counters",
    "released": "VACUUM FULL released",
    "tallies": "VACUUM FULL tallies",
    "invitations": "CLUSTER invitations USING invitations_pkey",
}
REWRITTEN_ALWAYS = ("tallies", "invitations")
LIVING = """
SELECT reltuples <= (SELECT count(*) FROM surveys)
FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
WHERE indrelid = 'surveys'::regclass AND indisprimary
"""
COLUMNS = "survey, round, id, count, payload"

log = logging.getLogger("deniable.server")


class Settler:
    """Background thread that settles, so that uploads do not wait for it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self.done = False  # whether all earlier writes are settled; every write resets it

    def start_if_due(self) -> bool:
        """Start settling if it is due; return whether all earlier writes are settled."""
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
        begin, settled = time.monotonic(), False
        self.done = True  # a write in the meantime resets this
        try:
            settled = settle(self._pool)
        except StoreUnusable as error:
            log.warning("%s; will retry", error)
        if not settled:
            self.done = False
        end = time.monotonic()
        self._due = end + max(PAUSE_SECONDS, SHARE * (end - begin))


def settle(pool: Pool) -> bool:
    """Remove every trace of the order of arrival, or return False if anything delays this."""
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False  # another node is settling
        _switch_tables(connection)
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False
        _merge(connection)
    with transaction(pool, "settle invitations") as connection:
        if noted(connection, SPENT) == "1":
            note(connection, SPENT, "0")  # first: group commits lock this row before others
            connection.execute("UPDATE invitations SET spent = TRUE WHERE spent")
    return _unless_delayed(pool, _clean_all)


def rewrite_surveys(pool: Pool) -> bool:
    """Remove deleted surveys from the files, or return False if a reader delays this."""
    return _unless_delayed(pool, _rewrite)


def _switch_tables(connection: PostgresConnection) -> None:
    """Switch the arrival tables once every group that uses the current one has ended."""
    now = int(noted(connection, RECEIVING) or 0)
    if _holds(connection, ARRIVALS[now]) and not _holds(connection, ARRIVALS[1 - now]):
        lock(connection, GROUPS)
        note(connection, RECEIVING, str(1 - now))


def _merge(connection: PostgresConnection) -> None:
    """Merge new and settled envelopes into one table, in the order of their keys."""
    arrived = ARRIVALS[1 - int(noted(connection, RECEIVING) or 0)]
    if not _holds(connection, arrived) and noted(connection, PURGED) == "0":
        return
    source, target = SETTLED if _holds(connection, SETTLED[0]) else reversed(SETTLED)
    connection.execute(
        f"INSERT INTO {target} ({COLUMNS}) SELECT {COLUMNS} FROM {source} UNION ALL "
        f"SELECT {COLUMNS} FROM {arrived} ORDER BY survey, round, id"
    )
    for table in (source, arrived):
        connection.execute(f"DELETE FROM {table}")
    note(connection, PURGED, "0")


def _unless_delayed(pool: Pool, clean: Callable[[PostgresConnection], bool]) -> bool:
    """Run `clean` outside a transaction, and return whether it succeeded.

    It waits only briefly for a lock that a reader holds, because uploads queue behind this wait.
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
    """Remove deleted rows from the files, or return False if anything delays this."""
    for table in ENVELOPES:
        if _size(connection, table) and not _holds(connection, table):
            connection.execute(f"VACUUM (TRUNCATE, INDEX_CLEANUP ON) {table}")
            connection.execute(f"REINDEX TABLE {table}")
    rewritten = _rewrite(connection)
    return rewritten and not any(
        _size(connection, table) and not _holds(connection, table) for table in ENVELOPES
    )


def _rewrite(connection: PostgresConnection) -> bool:
    deleted = noted(connection, DELETED)
    for table in REWRITTEN_ALWAYS if deleted is None else REWRITTEN:
        connection.execute(REWRITTEN[table])
        if table == "surveys" and not _has_living_rows_only(connection):
            return False
    if deleted is not None:  # keep the entry if it names a survey deleted in the meantime
        statement = "DELETE FROM about WHERE key = ? AND value = ?"
        connection.execute(statement, (DELETED, deleted))
    return True


def _has_living_rows_only(connection: PostgresConnection) -> bool:
    """Return whether the rewritten table of surveys is free of deleted rows.

    Deleted rows stay while a reader may still see them, and the new index counts them too. Once
    they are gone, all other rows deleted at the same time are gone too.
    """
    return connection.execute(LIVING).fetchone() == (True,)


def _holds(connection: PostgresConnection, table: str) -> bool:
    return connection.execute(f"SELECT EXISTS (SELECT FROM {table})").fetchone() == (True,)


def _size(connection: PostgresConnection, table: str) -> int:
    """Return the size of a table's rows in bytes, including deleted rows."""
    row = connection.execute("SELECT pg_relation_size(?::text::regclass)", (table,)).fetchone()
    return int(row[0]) if row else 0
