"""A data folder looked at row by row: what a disk has damaged, and counts put right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, select

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import Cells, Kept, RoundTally, SurveyRow
from deniable.server.store.signed import check_signed
from deniable.server.store.sql.reports import read_tally, tally_blob, tally_row
from deniable.server.store.sql.tables import tallies
from deniable.server.store.sql.upsert import put
from deniable.server.store.sqlite.database import (
    FILE,
    driver_of,
    open_database,
    transaction,
)
from deniable.server.store.sqlite.envelopes import unpacked, whole
from deniable.server.store.sqlite.reports import HERE
from deniable.server.store.sqlite.schema import TABLES, envelopes

SMALL = ("sqlite_schema", *(table.name for table in TABLES if table is not envelopes))
SURVEYS = "SELECT sequence, id, document, signature, key, closed FROM surveys"
TALLIES = "SELECT survey, round, node, reports, sealed, cells, digest FROM tallies"
JOURNAL = "SELECT * FROM envelopes WHERE survey = ? AND round = ? AND kind <= 1"


@dataclass(frozen=True)
class KeptTally:
    survey: int
    round: int
    sealed: bool
    counts: RoundTally | None  # None: damaged


class Inspection:
    """All that it reads is of one moment, also while a server serves the folder."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def of(cls, data: Path, *, writes: bool = False) -> Iterator[Self]:
        engine: Engine = open_database(data)
        try:
            with transaction(engine, "look at all its rows", writes=writes) as connection:
                yield cls(connection)
        finally:
            engine.dispose()

    def damage(self) -> str | None:
        """What the database finds wrong with its own file, first of all."""
        found = str(self._connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar())
        return None if found == "ok" else found

    def damage_of_tables(self) -> str | None:
        """The same of all tables but that of the envelopes, which have digests, and are many."""
        for name in SMALL:
            query = f"PRAGMA integrity_check('{name}')"
            found = str(self._connection.exec_driver_sql(query).scalar())
            if found != "ok":
                return f"{name}: {found}"
        return None

    def tallies(self) -> list[KeptTally]:
        query = select(tallies).where(tallies.c.node == HERE)
        rows = self._connection.execute(query.order_by(tallies.c.survey, tallies.c.round))
        return [KeptTally(row.survey, row.round, bool(row.sealed), read_tally(row)) for row in rows]

    def rounds(self) -> list[tuple[int, int]]:
        """Of which there are envelopes, each with its survey's sequence."""
        query = select(envelopes.c.survey, envelopes.c.round).distinct()
        return [(survey, number) for survey, number in self._connection.execute(query)]

    def journal(self, survey: int, number: int) -> Iterator[Kept]:
        """A round's envelopes; Damaged says that not all of them can be read."""
        driver = driver_of(self._connection)
        for row in driver.execute(JOURNAL, (survey, number)):
            yield from unpacked(driver, row)

    def count_as(self, survey: int, number: int, reports: int, cells: Cells) -> None:
        """Instead of the tally that an unsealed round has."""
        row = tally_row(survey, number, HERE, reports, False, tally_blob(cells))
        put(self._connection, tallies, row)


def check_tables(data: Path) -> None:
    """Refuse what would be served as it is: Damaged where a table is not one."""
    with Inspection.of(data) as inspection:
        damage = inspection.damage_of_tables()
    if damage is not None:
        raise Damaged(
            f"a disk has damaged {data / FILE}: {damage}; copy the folder as it is, and restore "
            f"the newest backup, or look further: deniable doctor --data {data}"
        )


def check_rows(driver: sqlite3.Connection) -> None:
    """Damaged, where a survey, a tally or an envelope is not what was written."""
    for row in driver.execute(SURVEYS):
        check_signed(SurveyRow(*row))
    for *values, digest in driver.execute(TALLIES):
        if tally_row(*values)["digest"] != digest:
            raise Damaged(f"the tally of round {values[1]} of survey {values[0]} is damaged")
    for row in driver.execute("SELECT * FROM envelopes"):
        kind = row[-1]
        if kind <= 1:
            unpacked(driver, row)
        else:
            whole(row)
