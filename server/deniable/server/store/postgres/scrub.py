"""Settling, which removes every trace of the order and time in which envelopes arrived.

New envelopes continue to arrive in one table. One transaction merges the other arrival table with
one or more tiers of settled rows, in the order of their keys. All tiers are merged as often as the
limit on the total time allows; in between, only the first ones are, so that the order of arrival
soon disappears at any size. Then the emptied tables are vacuumed to zero length and their indexes
are rebuilt. The tallies are rewritten too, since their old row versions would
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
    SETTLING,
    SPENT,
    TIERS,
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
SHARE = 50  # the pause is at least this multiple of a settling's duration: 2 % of the time per tier
ALL = len(TIERS)
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
        self._due = [0.0] * ALL  # for each tier: when a merge into it is due
        self.merged = 0  # number of tiers with which all earlier writes are merged

    def start_if_due(self) -> bool:
        """Start settling if it is due; return whether all earlier writes are settled."""
        if self._thread is not None and self._thread.is_alive():
            return False
        now = time.monotonic()
        tiers = max((n for n, due in enumerate(self._due, 1) if now >= due), default=0)
        if tiers > self.merged:
            self._thread = threading.Thread(
                target=self._settle, args=(tiers,), name="settler", daemon=True
            )
            self._thread.start()
            return False
        return self.merged == ALL

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _settle(self, tiers: int) -> None:
        begin, settled = time.monotonic(), False
        self.merged = tiers  # a write in the meantime resets this
        try:
            settled = settle(self._pool, tiers)
        except StoreUnusable as error:
            log.warning("%s; will retry", error)
        if not settled:
            self.merged = 0
        end = time.monotonic()
        self._due[:tiers] = [end + PAUSE_SECONDS] * tiers
        self._due[tiers - 1] = end + max(PAUSE_SECONDS, SHARE * (end - begin))


def settle(pool: Pool, tiers: int = ALL) -> bool:
    """Merge arrivals with the first tiers; return False if anything delays this.

    If all tiers are merged, nothing in the database reveals the order of arrival.
    """
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False  # another node is settling
        is_all = _switch_tables(connection)
    with transaction(pool, "settle envelopes") as connection:
        if not try_lock(connection, SETTLING):
            return False
        merged = _merge(connection, tiers)
    with transaction(pool, "settle invitations") as connection:
        if noted(connection, SPENT) == "1":
            note(connection, SPENT, "0")  # first: group commits lock this row before others
            connection.execute("UPDATE invitations SET spent = TRUE WHERE spent")
    return _unless_delayed(pool, _clean_all) and merged and is_all


def rewrite_surveys(pool: Pool) -> bool:
    """Remove deleted surveys from the files, or return False if a reader delays this."""
    return _unless_delayed(pool, _rewrite)


def _switch_tables(connection: PostgresConnection) -> bool:
    """Switch the arrival tables once every group that uses the current one has ended.

    Return False if the other one still has to be merged, because earlier merges were delayed.
    """
    now = int(noted(connection, RECEIVING) or 0)
    if not _holds(connection, ARRIVALS[now]):
        return True
    if _holds(connection, ARRIVALS[1 - now]):
        return False
    lock(connection, GROUPS)
    note(connection, RECEIVING, str(1 - now))
    return True


def _merge(connection: PostgresConnection, tiers: int) -> bool:
    """Merge arrivals and the first tiers into one table, in the order of their keys.

    Return False if the table for them is not clean yet, because a reader may see its old rows. In
    this case, merge only with the first tier, so that the order of arrival does not stay.
    """
    arrived = ARRIVALS[1 - int(noted(connection, RECEIVING) or 0)]
    tables = (arrived, *(table for tier in TIERS[:tiers] for table in tier))
    sources = [table for table in tables if _holds(connection, table)]
    targets = TIERS[tiers - 1]
    is_purged = tiers == ALL and noted(connection, PURGED) != "0"
    if not is_purged and all(table in targets for table in sources):
        return True
    empty = [table for table in targets if table not in sources]
    target = min(empty, key=lambda table: _size(connection, table), default=None)
    is_clean = target is not None and not _size(connection, target)
    if tiers > 1 and not is_clean:
        _merge(connection, 1)
        return False
    if target is None:
        return False
    rows = " UNION ALL ".join(f"SELECT {COLUMNS} FROM {table}" for table in sources)
    if rows:
        order = "ORDER BY survey, round, id"
        connection.execute(f"INSERT INTO {target} ({COLUMNS}) {rows} {order}")
    for table in sources:
        connection.execute(f"DELETE FROM {table}")
    if is_purged:
        note(connection, PURGED, "0")
    return is_clean


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
