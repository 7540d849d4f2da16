"""Inspection of a data folder row by row: what a disk has damaged, and tallies counted again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import Kept, RoundTally
from deniable.server.store.sql_store import SURVEY, survey_row
from deniable.server.store.sqlite.envelope_rows import unpacked, whole
from deniable.server.store.sqlite.sqlite_database import (
    FILE,
    check_database,
    connect,
    errors_as_ours,
    transaction,
)
from deniable.server.store.sqlite.write_connection import HERE
from deniable.server.store.tally_rows import (
    PUT,
    ROW,
    TallyRow,
    checked_tally,
    packed_cells,
    read_tally,
    tally_row,
)

if TYPE_CHECKING:
    from deniable.server.store.records import Cells

OF_ROUND = "SELECT * FROM envelopes WHERE survey = ? AND round = ? AND kind <= 1"
TABLE_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


@dataclass(frozen=True)
class KeptTally:
    """A tally as it lies in the folder."""

    survey: int
    round: int
    sealed: bool
    counts: RoundTally | None  # None: damaged


class Inspection:
    """Reader of one moment, also while a server serves the folder."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    @classmethod
    @contextmanager
    def of(cls, data: Path, *, writes: bool = False) -> Iterator[Self]:
        check_database(data)
        with (
            errors_as_ours("look at all its rows"),
            closing(connect(data / FILE, reads_only=not writes)) as driver,
            transaction(driver, writes=writes),
        ):
            yield cls(driver)

    def damage(self) -> str | None:
        """Return the first fault that SQLite finds in its own file."""
        return self._fault("PRAGMA integrity_check(1)")

    def damage_of_tables(self) -> str | None:
        """Return the same for all tables but that of envelopes, which have digests and are many."""
        names = [name for (name,) in self._driver.execute(TABLE_NAMES) if name != "envelopes"]
        for name in ("sqlite_schema", *names):
            if fault := self._fault(f"PRAGMA integrity_check('{name}')"):
                return f"{name}: {fault}"
        return None

    def tallies(self) -> list[KeptTally]:
        query = f"SELECT {ROW} FROM tallies WHERE node = ? ORDER BY survey, round"
        rows = map(TallyRow._make, self._driver.execute(query, (HERE,)))
        return [KeptTally(row.survey, row.round, bool(row.sealed), read_tally(row)) for row in rows]

    def rounds(self) -> list[tuple[int, int]]:
        """Return the rounds that have envelopes, each with its survey's sequence."""
        return self._driver.execute("SELECT DISTINCT survey, round FROM envelopes").fetchall()

    def envelopes(self, survey: int, number: int) -> Iterator[Kept]:
        """Yield a round's envelopes; Damaged if not all of them can be read."""
        for row in self._driver.execute(OF_ROUND, (survey, number)):
            yield from unpacked(self._driver, row)

    def count_as(self, survey: int, number: int, reports: int, cells: Cells) -> None:
        """Replace the tally of a round that is not sealed."""
        row = tally_row(survey, number, HERE, reports, False, packed_cells(cells))
        self._driver.execute(PUT, row)

    def _fault(self, pragma: str) -> str | None:
        (found,) = self._driver.execute(pragma).fetchone()
        return None if found == "ok" else str(found)


def check_tables(data: Path) -> None:
    """Raise Damaged if a table is not one: its rows would be served as they are."""
    with Inspection.of(data) as inspection:
        damage = inspection.damage_of_tables()
    if damage is not None:
        raise Damaged(
            f"a disk has damaged {data / FILE}: {damage}; copy the folder as it is, and restore "
            f"the newest backup, or look further: deniable doctor --data {data}"
        )


def check_rows(driver: sqlite3.Connection) -> int:
    """Return the number of counted reports, if every row is what was written.

    Damaged if a survey, a tally or an envelope is not.
    """
    for survey in driver.execute(f"SELECT {SURVEY} FROM surveys"):
        survey_row(survey).check_signed()
    rows = map(TallyRow._make, driver.execute(f"SELECT {ROW} FROM tallies"))
    reports = sum(checked_tally(row).reports for row in rows)
    for row in driver.execute("SELECT * FROM envelopes"):
        kind = row[-1]
        if kind <= 1:
            unpacked(driver, row)
        else:
            whole(row)
    return reports
