"""Envelopes and tallies: what one transaction of the writer does, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from deniable.server.store.records import Cells, PublishedSurvey, RoundTally, Upload
from deniable.server.store.schema import envelopes, tallies

HERE = ""  # the node that counts, where there is only one
LITTLE_ENDIAN = np.dtype("<i8")
Key = tuple[int, int, bytes]


class Recording:
    """One transaction in which envelopes are taken and counted. It becomes true as a whole."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_sealed(self, survey: PublishedSurvey, number: int) -> bool:
        """Whether the round's envelopes are purged, so that a repeated one would go unnoticed."""
        where = tallies.c.survey == survey.sequence, tallies.c.round == number, tallies.c.sealed
        return self._connection.execute(select(tallies.c.round).where(*where)).first() is not None

    def insert(self, uploads: Sequence[Upload]) -> set[Key]:
        """Keep those that are not there yet, and say which they are. Each key at most once."""
        columns = envelopes.c.survey, envelopes.c.round, envelopes.c.id
        statement = insert(envelopes).on_conflict_do_nothing().returning(*columns)
        new = self._connection.execute(statement, [_row(upload) for upload in uploads])
        return {(survey, number, identifier) for survey, number, identifier in new}

    def add(self, survey: PublishedSurvey, number: int, reports: int, cells: Cells) -> None:
        """Add counts to the tally of a round."""
        found = _tally_row(self._connection, survey.sequence, number)
        if found is not None:
            reports, cells = found.reports + reports, found.cells + cells
        values = {"reports": reports, "cells": cells.astype(LITTLE_ENDIAN).tobytes()}
        place = {"survey": survey.sequence, "round": number, "node": HERE, "sealed": False}
        statement = insert(tallies).values(**place, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["survey", "round", "node"], set_=values)
        )


def read_tallies(connection: Connection, sequence: int) -> list[RoundTally]:
    """Every round that has reports, in order; what several nodes have counted is added up."""
    rows = connection.execute(
        select(tallies.c.round, tallies.c.reports, tallies.c.cells)
        .where(tallies.c.survey == sequence)
        .order_by(tallies.c.round)
    )
    rounds: dict[int, RoundTally] = {}
    for number, reports, cells in rows:
        tally = RoundTally(number, reports, _counts(cells))
        before = rounds.get(number)
        rounds[number] = tally if before is None else _sum(before, tally)
    return list(rounds.values())


def purge_rounds(connection: Connection, sequence: int, numbers: Sequence[int]) -> int:
    """Delete the envelopes of these rounds and seal their tallies. How many envelopes went."""
    here = envelopes.c.survey == sequence, envelopes.c.round.in_(numbers)
    gone = connection.execute(delete(envelopes).where(*here)).rowcount
    seal = update(tallies).where(tallies.c.survey == sequence, tallies.c.round.in_(numbers))
    connection.execute(seal.values(sealed=True))
    return gone


def unsealed_rounds(connection: Connection, sequence: int) -> list[int]:
    query = select(tallies.c.round).where(tallies.c.survey == sequence, ~tallies.c.sealed)
    return sorted(set(connection.scalars(query)))


def _row(upload: Upload) -> dict[str, object]:
    return {
        "survey": upload.survey.sequence,
        "round": upload.round,
        "id": upload.id,
        "count": upload.count,
        "payload": upload.payload,
    }


def _tally_row(connection: Connection, sequence: int, number: int) -> RoundTally | None:
    row = connection.execute(
        select(tallies.c.reports, tallies.c.cells).where(
            tallies.c.survey == sequence, tallies.c.round == number, tallies.c.node == HERE
        )
    ).one_or_none()
    return None if row is None else RoundTally(number, row.reports, _counts(row.cells))


def _counts(blob: bytes) -> Cells:
    return np.frombuffer(blob, LITTLE_ENDIAN).astype(np.int64)


def _sum(one: RoundTally, other: RoundTally) -> RoundTally:
    return RoundTally(one.round, one.reports + other.reports, one.cells + other.cells)
