"""The store of one node: everything that a server keeps, in one SQLite file of its data folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, delete

from deniable.server.store.records import Kept, Purged, Unsettled
from deniable.server.store.sql.reports import rounds_to_purge
from deniable.server.store.sql.store import SqlStore
from deniable.server.store.sql.surveys import delete_survey
from deniable.server.store.sqlite.database import (
    FILE,
    create_database,
    driver_of,
    open_database,
    transaction,
)
from deniable.server.store.sqlite.envelopes import delete_envelopes, next_buckets
from deniable.server.store.sqlite.line import Line
from deniable.server.store.sqlite.reports import SqliteTransaction
from deniable.server.store.sqlite.schema import envelopes
from deniable.shared.errors import StoreUnusable

BUCKETS = 64  # that are read at once: one may hold a body of 1 MiB
LEAST_FREE_BYTES = 64 * 2**20  # below it the disk is as good as full


class SqliteStore(SqlStore):
    def __init__(self, engine: Engine, data: Path) -> None:
        self._engine, self._data = engine, data
        self._line = Line(data / FILE)

    @classmethod
    def create(cls, data: Path) -> Self:
        """Open a data folder, and make it if it is not there."""
        return cls(create_database(data), data)

    @classmethod
    def open(cls, data: Path) -> Self:
        """Open a data folder that must be there."""
        return cls(open_database(data), data)

    @property
    def data(self) -> Path:
        return self._data

    @property
    def option(self) -> str:
        return f"--data {self._data}"

    def close(self) -> None:
        self._line.close()
        self._engine.dispose()

    def transaction(self, *, later: bool = False) -> AbstractContextManager[SqliteTransaction]:
        return self._line.transaction("write reports", later=later)

    def unsettled(self) -> Sequence[Unsettled]:
        return self._line.lost

    def delete_survey(self, sequence: int) -> None:
        with self._writing("delete a survey") as connection:
            connection.execute(delete(envelopes).where(envelopes.c.survey == sequence))
            delete_survey(connection, sequence)

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """By few buckets, since the log cannot be emptied while one reads."""
        after = b""
        while True:
            with self._reading_reports("read envelopes") as connection:
                driver = driver_of(connection)
                after, kept = next_buckets(driver, (sequence, number), after, BUCKETS)
            if not kept:
                return
            yield from kept

    def purge(self, most: int) -> Purged:
        with self._writing("purge envelopes") as connection:
            rounds = rounds_to_purge(connection, (envelopes,))
            return delete_envelopes(driver_of(connection), rounds, most)

    def forget_order(self) -> bool:
        return self._line.empty_log()

    def check_writable(self) -> None:
        with self._writing("begin to write"):
            pass
        if shutil.disk_usage(self._data).free < LEAST_FREE_BYTES:
            raise StoreUnusable(
                f"the disk has less than {LEAST_FREE_BYTES // 2**20} MiB free; make room"
            )

    def _reading(self, aim: str) -> AbstractContextManager[Connection]:
        return transaction(self._engine, aim, writes=False)

    @contextmanager
    def _reading_reports(self, aim: str) -> Iterator[Connection]:
        """Also those that this process has acknowledged just now."""
        self._line.settle()
        with self._reading(aim) as connection:
            yield connection

    @contextmanager
    def _writing(self, aim: str) -> Iterator[Connection]:
        with self._line.standing_still(), transaction(self._engine, aim) as connection:
            yield connection
