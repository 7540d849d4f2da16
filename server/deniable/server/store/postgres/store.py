"""The store of several nodes: everything that servers keep, in one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Self

from sqlalchemy import Connection, Engine, delete

from deniable.server.store.postgres.address import Database
from deniable.server.store.postgres.database import (
    check_not_read_only,
    create_database,
    open_database,
    transaction,
)
from deniable.server.store.postgres.locks import GROUPS, lock
from deniable.server.store.postgres.reports import (
    PostgresTransaction,
    delete_envelopes,
    next_envelopes,
)
from deniable.server.store.postgres.saying import say
from deniable.server.store.postgres.schema import DELETED, ENVELOPES, PURGED
from deniable.server.store.postgres.settling import Settler, last_deleted, rewrite_surveys
from deniable.server.store.records import Kept, Purged
from deniable.server.store.sql.reports import rounds_to_purge, seal_rounds
from deniable.server.store.sql.store import SqlStore
from deniable.server.store.sql.surveys import add_survey, delete_survey
from deniable.server.store.sql.tables import about
from deniable.server.store.sql.upsert import put

PER_BUCKET = 32  # envelopes that are purged in place of one of SQLite's buckets
AT_ONCE = 256  # envelopes that are read at once: one may have 1 MiB
CLOSE_SECONDS = 10.0


class PostgresStore(SqlStore):
    def __init__(self, engine: Engine, database: Database, node: str) -> None:
        self._engine, self._database, self._node = engine, database, node
        self._settler = Settler(engine)

    @classmethod
    def create(cls, database: Database, node: str = "") -> Self:
        """Open a database, and make its tables if they are not there. `node` names who counts."""
        return cls(create_database(database), database, node)

    @classmethod
    def open(cls, database: Database, node: str = "") -> Self:
        """Open a database that must have its tables."""
        return cls(open_database(database), database, node)

    @property
    def option(self) -> str:
        return f"--store {self._database}"

    def close(self) -> None:
        self._settler.wait(CLOSE_SECONDS)
        self._engine.dispose()

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """One after the other: whoever knows a sequence knows all before it."""
        with self._writing("publish a survey") as connection:
            connection.exec_driver_sql("LOCK TABLE surveys IN EXCLUSIVE MODE")
            return add_survey(connection, document, signature, key)

    def delete_survey(self, sequence: int) -> None:
        """Once no group is halfway that might count for it."""
        with self._writing("delete a survey") as connection:
            lock(connection, GROUPS)
            connection.exec_driver_sql("LOCK TABLE surveys IN EXCLUSIVE MODE")
            for table in ENVELOPES:
                connection.execute(delete(table).where(table.c.survey == sequence))
            say(connection, PURGED, "1")
            put(connection, about, {"key": DELETED, "value": str(sequence)})
            delete_survey(connection, sequence)
        self._settler.done = False
        rewrite_surveys(self._engine)

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        after = b""
        while True:
            with self._reading("read envelopes") as connection:
                kept = next_envelopes(connection, sequence, number, after, AT_ONCE)
            if not kept:
                return
            yield from kept
            after = kept[-1].id

    @contextmanager
    def transaction(self, *, later: bool = False) -> Iterator[PostgresTransaction]:  # noqa: ARG002  # its
        """Never later: its own log is one write and one sync."""
        with self._writing("write reports") as connection:
            yield PostgresTransaction(connection, self._node)
        self._settler.done = False

    def unsettled(self) -> tuple[()]:
        return ()

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Once no group is halfway that has found a round open."""
        with self._writing("seal rounds") as connection:
            lock(connection, GROUPS)
            seal_rounds(connection, sequence, rounds)

    def purge(self, most: int) -> Purged:
        with self._writing("purge envelopes") as connection:
            rounds = rounds_to_purge(connection, ENVELOPES)
            gone = delete_envelopes(connection, rounds, most * PER_BUCKET)
            left = gone or last_deleted(connection)  # by whatever process
        self._settler.done = self._settler.done and not left
        return Purged(gone, gone)

    def forget_order(self) -> bool:
        return self._settler.turn()

    def check_writable(self) -> None:
        with self._writing("begin to write") as connection:
            check_not_read_only(connection)

    def _reading(self, aim: str) -> AbstractContextManager[Connection]:
        return transaction(self._engine, aim)

    def _writing(self, aim: str) -> AbstractContextManager[Connection]:
        return transaction(self._engine, aim)
