"""Inspection of a data folder row by row, to detect damage and to recount tallies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import (
    PUT,
    ROW,
    Kept,
    RoundTally,
    TallyRow,
    checked_tally,
    row_of,
)
from deniable.server.store.sql_store import SURVEY, note, noted, survey_row
from deniable.server.store.sqlite.envelope_rows import unpacked
from deniable.server.store.sqlite.part_slots import unpacked_part
from deniable.server.store.sqlite.receipt_count import (
    LOST,
    STORED,
    Loss,
    loss_of,
    stored_reports,
)
from deniable.server.store.sqlite.sqlite_database import (
    FILE,
    check_database,
    connect,
    errors_as_ours,
    transaction,
)
from deniable.server.store.sqlite.write_connection import HERE

OF_ROUND = "SELECT * FROM envelopes WHERE survey = ? AND round = ?"
RECORDED_LOSS = "at earlier starts, acknowledged reports were missing: {:,} in all"
WITH_DIGESTS = "envelopes", "parts"
TABLE_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


class Inspection:
    """Snapshot of a data folder, even while a server is using it."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    @classmethod
    @contextmanager
    def of(cls, data: Path, *, writes: bool = False) -> Iterator[Self]:
        check_database(data)
        with (
            errors_as_ours("inspect its rows"),
            closing(connect(data / FILE, f"query_only = {not writes}")) as driver,
            transaction(driver, writes=writes),
        ):
            yield cls(driver)

    def damage(self, table: str | int = 1) -> str | None:
        """Return the first fault that SQLite finds in the whole file or in one table."""
        (fault,) = self._driver.execute(f"PRAGMA integrity_check('{table}')").fetchone()
        return None if fault == "ok" else str(fault)

    def damage_of_tables(self) -> str | None:
        """Return the first fault in any table except those whose rows have digests."""
        names = [name for (name,) in self._driver.execute(TABLE_NAMES) if name not in WITH_DIGESTS]
        faults = ((name, self.damage(name)) for name in ("sqlite_schema", *names))
        return next((f"{name}: {fault}" for name, fault in faults if fault), None)

    def tallies(self) -> list[TallyRow]:
        query = f"SELECT {ROW} FROM tallies WHERE node = ? ORDER BY survey, round"
        return [TallyRow(*row) for row in self._driver.execute(query, (HERE,))]

    def rounds(self) -> list[tuple[int, int]]:
        """Return the rounds that have envelopes, each with its survey's sequence."""
        query = "SELECT DISTINCT survey, round FROM envelopes"
        return self._driver.execute(query).fetchall()

    def envelopes(self, survey: int, number: int) -> Iterator[Kept]:
        """Yield a round's envelopes; raise Damaged if any of them cannot be read."""
        for row in self._driver.execute(OF_ROUND, (survey, number)):
            yield from unpacked(self._driver, row)

    def lost_reports(self) -> int:
        """Return the number of lost reports that servers and repairs have recorded."""
        return int(noted(self._driver, LOST) or 0)

    def record_loss(self, loss: Loss) -> None:
        """Record a loss, so that it is counted once and stays known."""
        note(self._driver, LOST, str(self.lost_reports() + loss.reports))
        note(self._driver, STORED, str(stored_reports(self._driver) + loss.reports))

    def count_as(self, survey: int, tally: RoundTally) -> None:
        """Replace the tally of a round that is not sealed."""
        self._driver.execute(PUT, row_of(survey, HERE, tally))


def check_tables(data: Path) -> None:
    """Raise Damaged if a table is damaged; otherwise a server would serve damaged rows."""
    with Inspection.of(data) as inspection:
        damage = inspection.damage_of_tables()
    if damage is not None:
        raise Damaged(
            f"a disk has damaged {data / FILE}: {damage}; copy the folder as it is, and restore "
            f"the newest backup, or look further: deniable doctor --data {data}"
        )


def record_loss(data: Path) -> str | None:
    """Record a new loss of acknowledged reports. Return a sentence about losses, if any."""
    loss = loss_of(data / FILE)
    with Inspection.of(data, writes=loss is not None) as inspection:
        if loss is not None:
            inspection.record_loss(loss)
            return str(loss)
        lost = inspection.lost_reports()
        return RECORDED_LOSS.format(lost) if lost else None


def check_rows(driver: sqlite3.Connection) -> int:
    """Return the number of counted reports; raise Damaged if any row is not what was written."""
    for survey in driver.execute(f"SELECT {SURVEY} FROM surveys"):
        survey_row(survey).check_signed()
    copies, rows = (
        map(TallyRow._make, driver.execute(f"SELECT {ROW} FROM {table}"))
        for table in ("released", "tallies")
    )
    for row in copies:
        checked_tally(row)
    reports = sum(checked_tally(row).reports for row in rows)
    for row in driver.execute("SELECT * FROM envelopes"):
        for _ in unpacked(driver, row):
            pass
    for slot, content in driver.execute("SELECT slot, content FROM parts"):
        unpacked_part(slot, content)
    return reports
