"""What one transaction of the writer does in SQLite.

By the driver alone: for one report, what stands around its statements took longer than they.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from deniable.server.store.records import Cells, Upload, UploadKey
from deniable.server.store.sql.reports import grown_tally
from deniable.server.store.sqlite.envelopes import insert_envelopes

HERE = ""  # the node that counts, where there is only one
SEALED = "SELECT 1 FROM tallies WHERE survey = ? AND round = ? AND sealed"
TALLY = """
SELECT reports, sealed, cells, digest FROM tallies WHERE survey = ? AND round = ? AND node = ?
"""
PUT = """
INSERT INTO tallies (survey, round, node, reports, sealed, cells, digest)
VALUES (:survey, :round, :node, :reports, :sealed, :cells, :digest)
ON CONFLICT DO UPDATE SET reports = excluded.reports, cells = excluded.cells,
digest = excluded.digest
"""


class SqliteTransaction:
    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver
        self.taken: list[Upload] = []

    def is_sealed(self, sequence: int, number: int) -> bool:
        return self._driver.execute(SEALED, (sequence, number)).fetchone() is not None

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        new = insert_envelopes(self._driver, uploads)
        self.taken += [upload for upload in uploads if upload.key in new]
        return new

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        key = sequence, number, HERE
        found = self._driver.execute(TALLY, key).fetchone()
        grown = grown_tally(key, found, reports, cells)
        if grown is not None:
            self._driver.execute(PUT, grown)
