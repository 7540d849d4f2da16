"""Tallies and counters: what one transaction of the writer adds, and what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Table, literal, or_, select

from deniable.server.store.protocol import NO_SURVEY, Damaged
from deniable.server.store.records import Cells, RoundTally
from deniable.server.store.sql.digest import digest_of
from deniable.server.store.sql.tables import counters, surveys, tallies
from deniable.server.store.sql.upsert import add, put

Round = tuple[int, int]  # a survey's sequence, and the number of a round
LITTLE_ENDIAN = np.dtype("<i8")


def is_sealed(connection: Connection, sequence: int, number: int) -> bool:
    """Whatever node sealed it."""
    where = tallies.c.survey == sequence, tallies.c.round == number, tallies.c.sealed
    return connection.execute(select(tallies.c.round).where(*where)).first() is not None


def add_to_tally(
    connection: Connection, sequence: int, number: int, node: str, reports: int, cells: Cells
) -> None:
    """Nobody else writes this node's row meanwhile."""
    found = connection.execute(
        select(tallies.c.reports, tallies.c.sealed, tallies.c.cells, tallies.c.digest).where(
            tallies.c.survey == sequence, tallies.c.round == number, tallies.c.node == node
        )
    ).one_or_none()
    grown = grown_tally((sequence, number, node), found, reports, cells)
    if grown is not None:
        put(connection, tallies, grown)


def grown_tally(
    key: tuple[int, int, str],
    found: Sequence[Any] | None,  # Any: its columns have many types
    reports: int,
    cells: Cells,
) -> dict[str, int | str | bytes] | None:
    """The row to write where this was found: reports, sealed, cells, digest. None where that is
    damaged: it stays as it is, and is seen to be damaged; the envelopes are kept."""
    if found is not None:
        counted, sealed, blob, digest = found
        if tally_row(*key, counted, sealed, blob)["digest"] != digest:
            return None
        reports, cells = counted + reports, _counts(blob) + cells
    return tally_row(*key, reports, False, tally_blob(cells))


def tally_row(
    survey: int, number: int, node: str, reports: int, sealed: bool, cells: bytes
) -> dict[str, int | str | bytes]:
    """A row as it is stored, with its digest."""
    row: dict[str, int | str | bytes] = {
        "survey": survey,
        "round": number,
        "node": node,
        "reports": reports,
        "sealed": bool(sealed),  # the driver's own is a number
        "cells": cells,
    }
    return row | {"digest": digest_of(*row.values())}


def read_tallies(
    connection: Connection, sequence: int, first: int | None, last: int | None
) -> list[RoundTally]:
    """Every round that has reports, in order; what several nodes have counted is added up."""
    query = select(tallies).where(tallies.c.survey == sequence).order_by(tallies.c.round)
    if first is not None:
        query = query.where(tallies.c.round >= first)
    if last is not None:
        query = query.where(tallies.c.round <= last)
    rounds: dict[int, RoundTally] = {}
    for row in connection.execute(query):
        tally = _checked(row)
        before = rounds.get(row.round)
        rounds[row.round] = tally if before is None else _sum(before, tally)
    return list(rounds.values())


def seal_rounds(connection: Connection, sequence: int, numbers: Sequence[int]) -> None:
    query = select(tallies).where(tallies.c.survey == sequence, tallies.c.round.in_(numbers))
    for row in connection.execute(query).all():
        if not _is_whole(row):
            continue  # it can only be counted again while its envelopes are there
        sealed = tally_row(row.survey, row.round, row.node, row.reports, True, row.cells)
        put(connection, tallies, sealed)


def rounds_to_purge(connection: Connection, envelopes: Sequence[Table]) -> Iterator[Round]:
    """What is sealed and has envelopes in these tables; not where a tally is damaged, which may
    have sealed it, and which can only be counted again from them."""
    kept = (
        select(literal(1)).where(each.c.survey == tallies.c.survey, each.c.round == tallies.c.round)
        for each in envelopes
    )
    query = select(tallies.c.survey, tallies.c.round).where(
        tallies.c.sealed, or_(*(some.limit(1).scalar_subquery().is_not(None) for some in kept))
    )
    for survey, number in sorted({(row.survey, row.round) for row in connection.execute(query)}):
        of = tallies.c.survey == survey, tallies.c.round == number
        if all(map(_is_whole, connection.execute(select(tallies).where(*of)))):
            yield survey, number


def unsealed_rounds(connection: Connection) -> dict[int, list[int]]:
    query = select(tallies.c.survey, tallies.c.round).where(~tallies.c.sealed)
    rounds: dict[int, list[int]] = {}
    for sequence, number in connection.execute(query.distinct().order_by(tallies.c.round)):
        rounds.setdefault(sequence, []).append(number)
    return rounds


def report_totals(connection: Connection) -> dict[int, int]:
    totals: dict[int, int] = {}
    for row in connection.execute(select(tallies)):
        totals[row.survey] = totals.get(row.survey, 0) + _checked(row).reports
    return totals


def read_counters(connection: Connection, sequence: int) -> dict[str, int]:
    query = select(counters.c.outcome, counters.c.reports).where(counters.c.survey == sequence)
    return {row.outcome: row.reports for row in connection.execute(query)}


def add_counters(connection: Connection, counts: Mapping[tuple[int, str], int]) -> None:
    """In one order, so that nodes do not wait for each other in a circle."""
    known = set(connection.scalars(select(surveys.c.sequence))) | {NO_SURVEY}
    for (sequence, outcome), reports in sorted(counts.items()):
        if sequence not in known:
            continue  # it was deleted meanwhile
        row = {"survey": sequence, "outcome": outcome, "reports": reports}
        add(connection, counters, row, "reports")


def read_tally(row: Row[Any]) -> RoundTally | None:
    """None where it is damaged."""
    return RoundTally(row.round, row.reports, _counts(row.cells)) if _is_whole(row) else None


def _checked(row: Row[Any]) -> RoundTally:
    tally = read_tally(row)
    if tally is None:
        raise Damaged(
            f"the tally of round {row.round} of survey {row.survey} in the store is damaged, so no "
            "result is shown; stop the server and run `deniable doctor --data DIR --repair`, or "
            "restore a dump of a database, as DEPLOYING.md says"
        )
    return tally


def _is_whole(row: Row[Any]) -> bool:  # Any: its columns have many types
    values = (row.survey, row.round, row.node, row.reports, row.sealed, row.cells)
    return bool(tally_row(*values)["digest"] == row.digest)


def _counts(blob: bytes) -> Cells:
    return np.frombuffer(blob, LITTLE_ENDIAN).astype(np.int64)


def tally_blob(cells: Cells) -> bytes:
    return cells.astype(LITTLE_ENDIAN).tobytes()


def _sum(one: RoundTally, other: RoundTally) -> RoundTally:
    return RoundTally(one.round, one.reports + other.reports, one.cells + other.cells)
