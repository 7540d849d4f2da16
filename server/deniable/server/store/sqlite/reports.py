"""What one transaction of the writer does in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from deniable.server.store.records import Cells, Upload, UploadKey
from deniable.server.store.sql.reports import add_to_tally, is_sealed
from deniable.server.store.sqlite.envelopes import insert_envelopes

HERE = ""  # the node that counts, where there is only one


class SqliteTransaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_sealed(self, sequence: int, number: int) -> bool:
        return is_sealed(self._connection, sequence, number)

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        return insert_envelopes(self._connection, uploads)

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        add_to_tally(self._connection, sequence, number, HERE, reports, cells)
