"""From an older schema version to the present one: all of it in one transaction, or nothing.

Version 1 gave each envelope a number as it came. The pages that held them are overwritten with
zeros when their table is dropped, so that nothing of that order is left in the folder.
Version 2 had no register of surveys, and no keys that are retired; version 3 no annotations.
Until version 4 an envelope that is larger than a bucket lay among those. Version 5 wrote what is
pending without sums: it must not write the file that has some (redo.py).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.schema import CreateColumn

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import Kept
from deniable.server.store.sql.register import begin_register_in, say_version
from deniable.server.store.sql.reports import tally_row
from deniable.server.store.sql.tables import happened, tallies
from deniable.server.store.sqlite import bucket
from deniable.server.store.sqlite.database import (
    FILE,
    OLDER,
    driver_of,
    engine_of,
    is_begun,
    transaction,
    version_of,
)
from deniable.server.store.sqlite.envelopes import DROP, keep, unpacked
from deniable.server.store.sqlite.line import Line
from deniable.server.store.sqlite.schema import VERSION, envelopes
from deniable.shared.errors import StoreUnusable

AT_ONCE = 16_384
BEFORE_REGISTER = frozenset({"1", "2"})
BEFORE_PARTS = frozenset({"2", "3", "4"})
LARGER = """
SELECT * FROM envelopes WHERE number > ? AND kind = 0 AND length(rows) > ?
ORDER BY number LIMIT 1
"""
OLD = "SELECT survey, round, id, count, payload FROM old_envelopes ORDER BY survey, round, id"


def migrate(data: Path) -> bool:
    """Bring an older folder that nobody else uses to this version. Whether it was older."""
    return is_begun(data) and migrate_file(data / FILE)


def migrate_file(file: Path) -> bool:
    if (version := version_of(file)) not in OLDER:
        return False
    engine, line = engine_of(file), Line(file)
    try:
        with transaction(engine, "migrate its tables") as connection:
            if version == "1":
                _put_in_buckets(connection)
            if version in BEFORE_PARTS:
                _part_from_buckets(connection)
            if version in BEFORE_REGISTER:
                begin_register_in(connection)
            happened.create(connection, checkfirst=True)
            say_version(connection, VERSION)
        if not line.empty_log():
            raise StoreUnusable(f"{file} is read by somebody else; end that, and start again")
    finally:
        line.close()
        engine.dispose()
    return True


def _put_in_buckets(connection: Connection) -> None:
    for table in (envelopes, tallies):
        connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO old_{table.name}")
        table.create(connection)
    _move_envelopes(connection)
    for row in connection.exec_driver_sql(
        "SELECT survey, round, node, reports, sealed, cells FROM old_tallies"
    ):
        connection.execute(tallies.insert().values(tally_row(*row)))
    for table in (envelopes, tallies):
        connection.exec_driver_sql(f"DROP TABLE old_{table.name}")


def _part_from_buckets(connection: Connection) -> None:
    """What is larger than a bucket; all others stay where they are."""
    (index,) = envelopes.indexes
    kind = CreateColumn(envelopes.c.kind).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"DROP INDEX {index.name}")
    connection.exec_driver_sql(f"ALTER TABLE envelopes ADD COLUMN {kind}")
    index.create(connection)
    driver, number = driver_of(connection), -1
    while row := driver.execute(LARGER, (number, bucket.SIZE)).fetchone():
        number, survey, of_round = row[:3]
        with suppress(Damaged):  # then it stays what it is, and `doctor` names it
            kept = unpacked(driver, row)
            driver.execute(DROP, (number,))
            keep(driver, (survey, of_round), kept)


def _move_envelopes(connection: Connection) -> None:
    rows = connection.exec_driver_sql(OLD)
    while some := rows.fetchmany(AT_ONCE):
        for of, members in groupby(some, key=lambda row: (row[0], row[1])):
            keep(driver_of(connection), of, [Kept(row[2], row[3], row[4]) for row in members])
