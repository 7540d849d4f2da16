"""Store for several nodes, in one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Self

from deniable.server.store.postgres.database_address import Database
from deniable.server.store.postgres.postgres_database import (
    DELETED,
    ENVELOPES,
    GROUPS,
    PURGED,
    RECEIVING,
    SPENT,
    Pool,
    PostgresConnection,
    check_not_read_only,
    lock,
    lock_group,
    open_database,
    transaction,
)
from deniable.server.store.postgres.scrub import Settler, rewrite_surveys
from deniable.server.store.records import (
    Connection,
    Kept,
    Purged,
    Round,
    Upload,
    UploadKey,
    rounds_to_purge,
    seal_rounds,
)
from deniable.server.store.sql_store import (
    SqlReader,
    SqlSnapshot,
    SqlStore,
    SqlTransaction,
    note,
    noted,
)

ENVELOPES_PER_BUCKET = 32  # this number counts as one bucket of a purge
ENVELOPES_PER_READ = 256  # few, because a single envelope may have 1 MiB
CLOSE_SECONDS = 10.0
NO_SYNCHRONOUS_STANDBY = (
    "a fail-over can lose acknowledged reports, because synchronous_standby_names is empty; "
    'see "Practise a fail-over" in server/RECIPES.md'
)
_OF_ROUND = "SELECT {} FROM {} WHERE survey = ? AND round = ? AND {}"
AMONG = "id = ANY((SELECT ids FROM asked)::bytea[])"
KNOWN = "WITH asked AS (SELECT ?::bytea[] AS ids) " + " UNION ALL ".join(
    _OF_ROUND.format("id", name, AMONG) for name in ENVELOPES
)
NEXT = " UNION ALL ".join(
    _OF_ROUND.format("id, count, payload", name, "id > ?") for name in ENVELOPES
)
# If another node is inserting the same id, this statement waits for that node's transaction to end.
KEEP = """
INSERT INTO arrivals_{} (survey, round, id, count, payload)
SELECT ?, ?, * FROM unnest(?::bytea[], ?::int[], ?::bytea[])
ON CONFLICT DO NOTHING RETURNING id
"""
NEXT_TO_DELETE = _OF_ROUND.format("id", "{}", "TRUE") + " LIMIT ? FOR UPDATE SKIP LOCKED"


class PostgresTransaction(SqlTransaction[PostgresConnection]):
    """Group commit, which may run concurrently with those of other nodes."""

    def __init__(self, connection: PostgresConnection, node: str) -> None:
        super().__init__(connection, node)
        lock_group(connection, node)
        # Read under the lock: a switch of tables waits for all groups that use the old one.
        self._receiving = int(noted(connection, RECEIVING) or 0)

    def stored(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        note(self._connection, SPENT, "1")  # locks the row for other nodes
        return super().stored(uploads)

    def _stored_ids(self, of: Round, identifiers: Sequence[bytes]) -> set[bytes]:
        values = (list(identifiers), *(of * len(ENVELOPES)))
        return {row[0] for row in self._connection.execute(KNOWN, values)}

    def _insert_round(self, of: Round, uploads: Sequence[Upload]) -> set[bytes]:
        known = self._stored_ids(of, [upload.id for upload in uploads])
        new = [(up.id, up.count, up.payload) for up in uploads if up.id not in known]
        if not new:
            return set()
        columns = map(list, zip(*new, strict=True))
        rows = self._connection.execute(KEEP.format(self._receiving), (*of, *columns))
        return {row[0] for row in rows}


class PostgresStore(SqlStore):
    def __init__(self, pool: Pool, database: Database, node: str) -> None:
        self._pool, self._database, self._node = pool, database, node
        self._settler = Settler(pool)

    @classmethod
    def create(cls, database: Database, node: str = "") -> Self:
        return cls(open_database(database, create=True), database, node)

    @classmethod
    def open(cls, database: Database, node: str = "") -> Self:
        return cls(open_database(database, create=False), database, node)

    @property
    def option(self) -> str:
        return f"--store {self._database}"

    def close(self) -> None:
        self._settler.wait(CLOSE_SECONDS)
        self._pool.close()

    @contextmanager
    def snapshot(self) -> Iterator[SqlReader]:
        with transaction(self._pool, "be read") as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield SqlSnapshot(connection)

    def delete_survey(self, sequence: int) -> None:
        """Delete a survey once no unfinished group commit can still count reports for it."""
        with self._writing("delete a survey") as connection:
            lock(connection, GROUPS)
            self._lock(connection, "surveys")
            for table in ENVELOPES:
                connection.execute(f"DELETE FROM {table} WHERE survey = ?", (sequence,))
            note(connection, PURGED, "1")
            note(connection, DELETED, str(sequence))
            self._delete_survey(connection, sequence)
        self._settler.merged = 0
        rewrite_surveys(self._pool)

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        after = b""
        query = f"{NEXT} ORDER BY id LIMIT {ENVELOPES_PER_READ}"
        while True:
            with self._reading() as connection:
                values = (sequence, number, after) * len(ENVELOPES)
                kept = [Kept(*row) for row in connection.execute(query, values)]
            if not kept:
                return
            yield from kept
            after = kept[-1].id

    @contextmanager
    def transaction(self, *, later: bool = False) -> Iterator[PostgresTransaction]:  # noqa: ARG002
        """Ignore `later`: a commit costs PostgreSQL only one write and one sync."""
        with self._writing("write reports") as connection:
            yield PostgresTransaction(connection, self._node)
        self._settler.merged = 0

    def unsettled(self) -> tuple[()]:
        return ()

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Seal a round once no unfinished group commit still treats it as open."""
        with self._writing("seal rounds") as connection:
            lock(connection, GROUPS)
            seal_rounds(connection, sequence, rounds)

    def purge(self, most: int) -> Purged:
        with self._writing("purge envelopes") as connection:
            rounds = rounds_to_purge(connection, ENVELOPES)
            number = _delete_envelopes(connection, rounds, most * ENVELOPES_PER_BUCKET)
            if number or noted(connection, DELETED):  # another process may have deleted a survey
                self._settler.merged = 0
        return Purged(number, number)

    def forget_order(self) -> bool:
        return self._settler.start_if_due()

    def check_writable(self) -> None:
        with self._writing("begin to write") as connection:
            check_not_read_only(connection)

    def failover_risk(self) -> str | None:
        """Each connection sets `synchronous_commit`, so only the names of standbys matter."""
        with self._reading() as connection:
            names = connection.execute("SHOW synchronous_standby_names").fetchone()
        return NO_SYNCHRONOUS_STANDBY if names == ("",) else None

    def _reading(self, *, reports: bool = False) -> AbstractContextManager[PostgresConnection]:  # noqa: ARG002  # all reports are in tables
        return transaction(self._pool, "be read")

    def _writing(self, aim: str) -> AbstractContextManager[PostgresConnection]:
        return transaction(self._pool, aim)

    def _lock(self, connection: Connection, table: str) -> None:
        connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")


def _delete_envelopes(connection: PostgresConnection, rounds: Iterable[Round], most: int) -> int:
    """Delete up to `most` envelopes of the rounds, and return their number.

    Rows that are being settled are skipped. The next settling removes deleted bytes from the files.
    """
    deleted = 0
    for of, table in ((of, table) for of in rounds for table in ENVELOPES):
        if deleted == most:
            break
        query = NEXT_TO_DELETE.format(table)
        ids = [row[0] for row in connection.execute(query, (*of, most - deleted))]
        if ids:
            statement = f"DELETE FROM {table} WHERE survey = ? AND round = ? AND id = ANY(?)"
            deleted += connection.execute(statement, (*of, ids)).rowcount
    if deleted:
        note(connection, PURGED, "1")
    return deleted
