"""Rows of the table `tallies`: encoding, digests, and what a transaction adds.

Each row carries a digest of its other columns. A row whose digest does not fit was damaged by a
disk: it is never shown, added to, or sealed. numpy is imported only where cells are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import RoundTally

if TYPE_CHECKING:
    from deniable.server.store.records import Cells

Round = tuple[int, int]  # a survey's sequence, and the number of a round
DIGEST_BYTES = 8  # damage goes unnoticed with probability 2**-64
CELL_TYPE = "<i8"

ROW = "survey, round, node, reports, sealed, cells, digest"
OF_NODE = f"SELECT {ROW} FROM tallies WHERE survey = ? AND round = ? AND node = ?"
OF_ROUND = f"SELECT {ROW} FROM tallies WHERE survey = ? AND round = ?"
IS_SEALED = "SELECT 1 FROM tallies WHERE survey = ? AND round = ? AND sealed LIMIT 1"
PUT = f"""
INSERT INTO tallies ({ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (survey, round, node) DO UPDATE SET reports = excluded.reports,
sealed = excluded.sealed, cells = excluded.cells, digest = excluded.digest
"""


class Cursor(Protocol):
    """The part of a database driver's cursor that both stores use."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...  # Any: columns of many types
    def fetchall(self) -> list[Any]: ...  # Any: the same
    def __iter__(self) -> Iterator[Any]: ...  # Any: the same


class Connection(Protocol):
    """A connection that runs SQL; `?` marks a value in either store."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor: ...  # Any: values


class TallyRow(NamedTuple):
    survey: int
    round: int
    node: str
    reports: int
    sealed: bool
    cells: bytes
    digest: bytes


def digest_of(*values: int | str | bytes) -> bytes:
    """Return the digest of a row's values, its key included: a misplaced row does not fit."""
    parts: list[bytes] = []
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode()
        parts += (len(content).to_bytes(8, "little"), content)
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def tally_row(
    survey: int, number: int, node: str, reports: int, sealed: bool, cells: bytes
) -> TallyRow:
    """Return a row with its digest."""
    sealed = bool(sealed)  # SQLite reads a number
    digest = digest_of(survey, number, node, reports, sealed, cells)
    return TallyRow(survey, number, node, reports, sealed, cells, digest)


def is_whole(row: TallyRow) -> bool:
    return tally_row(*row[:6]).digest == row.digest


def read_tally(row: TallyRow) -> RoundTally | None:
    """Return the counts of a row, or None if it is damaged."""
    return RoundTally(row.round, row.reports, _unpacked(row.cells)) if is_whole(row) else None


def checked_tally(row: TallyRow) -> RoundTally:
    tally = read_tally(row)
    if tally is None:
        raise Damaged(
            f"the tally of round {row.round} of survey {row.survey} in the store is damaged, so no "
            "result is shown; stop the server and run `deniable doctor --data DIR --repair`, or "
            "restore a dump of a database, as DEPLOYING.md says"
        )
    return tally


def is_sealed(connection: Connection, sequence: int, number: int) -> bool:
    """Return whether any node has sealed the round."""
    return connection.execute(IS_SEALED, (sequence, number)).fetchone() is not None


def add_to_tally(
    connection: Connection, key: tuple[int, int, str], reports: int, cells: Cells
) -> None:
    """Add counts to one node's row, which has no other writer meanwhile.

    A damaged row stays as it is, and is seen to be damaged; the envelopes are kept.
    """
    found = connection.execute(OF_NODE, key).fetchone()
    if found is not None:
        row = TallyRow(*found)
        if not is_whole(row):
            return
        reports, cells = row.reports + reports, _unpacked(row.cells) + cells
    connection.execute(PUT, tally_row(*key, reports, False, packed_cells(cells)))


def seal_rounds(connection: Connection, sequence: int, numbers: Sequence[int]) -> None:
    """Seal the rounds whose rows are whole.

    A damaged one can be counted again only while its envelopes are there.
    """
    for number in numbers:
        for row in map(TallyRow._make, connection.execute(OF_ROUND, (sequence, number)).fetchall()):
            if is_whole(row):
                connection.execute(PUT, tally_row(*row[:4], True, row.cells))


def rounds_to_purge(connection: Connection, tables: Sequence[str]) -> Iterator[Round]:
    """Yield the sealed rounds that have envelopes in these tables.

    A round with a damaged row is left out: it can be counted again only from its envelopes.
    """
    # Not EXISTS: PostgreSQL would read whole tables for it.
    kept = " OR ".join(
        f"(SELECT 1 FROM {table} AS kept WHERE kept.survey = tallies.survey "
        "AND kept.round = tallies.round LIMIT 1) IS NOT NULL"
        for table in tables
    )
    query = f"SELECT DISTINCT survey, round FROM tallies WHERE sealed AND ({kept})"
    for survey, number in sorted(connection.execute(query).fetchall()):
        rows = connection.execute(OF_ROUND, (survey, number)).fetchall()
        if all(is_whole(TallyRow(*row)) for row in rows):
            yield survey, number


def packed_cells(cells: Cells) -> bytes:
    return cells.astype(CELL_TYPE).tobytes()


def _unpacked(cells: bytes) -> Cells:
    import numpy as np

    return np.frombuffer(cells, CELL_TYPE).astype(np.int64)
