"""Store for one node, in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from deniable.server.store.records import Kept, Purged, Unsettled, rounds_to_purge
from deniable.server.store.sql_store import ConnectionPool, SqlStore
from deniable.server.store.sqlite.envelope_rows import (
    delete_envelopes,
    delete_survey,
    next_envelopes,
)
from deniable.server.store.sqlite.sqlite_database import (
    FILE,
    check_database,
    connect,
    create_database,
    errors_as_ours,
    transaction,
)
from deniable.server.store.sqlite.write_connection import SqliteTransaction, WriteConnection
from deniable.shared.errors import StoreUnusable

MAX_READERS = 32
MIN_FREE_BYTES = 64 * 2**20  # with less free space, the disk counts as full


class SqliteStore(SqlStore):
    def __init__(self, data: Path) -> None:
        self._data = data
        self._writer = WriteConnection(data / FILE)
        self._readers = ConnectionPool(
            partial(connect, data / FILE, "query_only = ON"), MAX_READERS
        )

    @classmethod
    def create(cls, data: Path) -> Self:
        create_database(data)
        return cls(data)

    @classmethod
    def open(cls, data: Path, node: str = "") -> Self:  # noqa: ARG003  # a data folder has one node
        check_database(data)
        return cls(data)

    @property
    def data(self) -> Path:
        return self._data

    @property
    def option(self) -> str:
        return f"--data {self._data}"

    def close(self) -> None:
        self._writer.close()
        self._readers.close()

    def transaction(self, *, later: bool = False) -> AbstractContextManager[SqliteTransaction]:
        return self._writer.transaction("write reports", later=later)

    def unsettled(self) -> Sequence[Unsettled]:
        return self._writer.redo.lost

    def delete_survey(self, sequence: int) -> None:
        with self._writing("delete a survey") as driver:
            delete_survey(driver, sequence)
            self._delete_survey(driver, sequence)

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """Yield envelopes from short reads: a long read would keep the log from being emptied."""
        after = b"", b""
        while True:
            with self._reading(reports=True) as driver:
                after, kept = next_envelopes(driver, (sequence, number), *after)
            if not kept:
                return
            yield from kept

    def purge(self, most: int) -> Purged:
        with self._writing("purge envelopes") as driver:
            return delete_envelopes(driver, rounds_to_purge(driver, ["envelopes"]), most)

    def forget_order(self) -> bool:
        return self._writer.empty_log()

    def failover_risk(self) -> None:
        """Return None: a folder has no standby to fail over to."""

    def check_writable(self) -> None:
        with self._writing("begin to write"):
            pass
        disk = os.statvfs(self._data)
        if disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES:
            raise StoreUnusable(
                f"the disk has less than {MIN_FREE_BYTES // 2**20} MiB free; make room"
            )

    @contextmanager
    def _reading(self, *, reports: bool = False) -> Iterator[sqlite3.Connection]:
        if reports and self._writer.redo.pending:
            self._writer.settle()
        with errors_as_ours("be read"), self._readers.connection() as driver, transaction(driver):
            yield driver

    def _writing(self, aim: str) -> AbstractContextManager[sqlite3.Connection]:
        return self._writer.alone(aim)
