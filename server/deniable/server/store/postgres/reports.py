"""What one transaction of the writer does in PostgreSQL, beside those of other nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection, delete, select, union_all

from deniable.server.store.postgres.locks import lock_group
from deniable.server.store.postgres.saying import said, say
from deniable.server.store.postgres.schema import ENVELOPES, PURGED, RECEIVING
from deniable.server.store.records import Cells, Kept, Upload, UploadKey
from deniable.server.store.sql.reports import Round, add_to_tally, is_sealed

_key = attrgetter("key")
KNOWN = """
SELECT id FROM arrivals_0 WHERE survey = %(survey)s AND round = %(round)s AND id = ANY(%(ids)s)
UNION ALL
SELECT id FROM arrivals_1 WHERE survey = %(survey)s AND round = %(round)s AND id = ANY(%(ids)s)
UNION ALL
SELECT id FROM settled_0 WHERE survey = %(survey)s AND round = %(round)s AND id = ANY(%(ids)s)
UNION ALL
SELECT id FROM settled_1 WHERE survey = %(survey)s AND round = %(round)s AND id = ANY(%(ids)s)
"""
# Where another node is about to keep the same id, this waits until it has, or has not.
_KEEP = """
INSERT INTO arrivals_0 (survey, round, id, count, payload)
SELECT %(survey)s, %(round)s, *
FROM unnest(%(ids)s::bytea[], %(counts)s::int[], %(payloads)s::bytea[])
ON CONFLICT DO NOTHING RETURNING id
"""
KEEP = {"0": _KEEP, "1": _KEEP.replace("arrivals_0", "arrivals_1")}


class PostgresTransaction:
    def __init__(self, connection: Connection, node: str) -> None:
        self._connection, self._node = connection, node
        lock_group(connection, node)
        # Asked after the lock: who changes it waits for all groups that know the old one.
        self._receiving = said(connection, RECEIVING)

    def is_sealed(self, sequence: int, number: int) -> bool:
        return is_sealed(self._connection, sequence, number)

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """In the order of keys, so that nodes never wait for each other in a circle."""
        new: set[UploadKey] = set()
        for of, members in groupby(sorted(uploads, key=_key), key=lambda upload: upload.key[:2]):
            new |= {(*of, identifier) for identifier in self._keep(of, list(members))}
        return new

    def _keep(self, of: tuple[int, int], uploads: Sequence[Upload]) -> set[bytes]:
        asked = {"survey": of[0], "round": of[1], "ids": [upload.id for upload in uploads]}
        known = {bytes(row[0]) for row in self._connection.exec_driver_sql(KNOWN, asked)}
        coming = [upload for upload in uploads if upload.id not in known]
        if not coming:
            return set()
        asked |= {
            "ids": [upload.id for upload in coming],
            "counts": [upload.count for upload in coming],
            "payloads": [upload.payload for upload in coming],
        }
        kept = self._connection.exec_driver_sql(KEEP[self._receiving], asked)
        return {bytes(row[0]) for row in kept}

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        add_to_tally(self._connection, sequence, number, self._node, reports, cells)


def next_envelopes(
    connection: Connection, sequence: int, number: int, after: bytes, most: int
) -> list[Kept]:
    """Those that follow an id. Each is in one table, also while others settle."""
    rows = union_all(
        *(
            select(table.c.id, table.c.count, table.c.payload).where(
                table.c.survey == sequence, table.c.round == number, table.c.id > after
            )
            for table in ENVELOPES
        )
    ).subquery()
    found = connection.execute(select(rows).order_by(rows.c.id).limit(most))
    return [Kept(bytes(id_), count, bytes(payload)) for id_, count, payload in found]


def delete_envelopes(connection: Connection, rounds: Iterable[Round], most: int) -> int:
    """Those of these rounds, at most so many; their bytes go when the rest is settled anew. What is
    just being settled is left for the next time."""
    gone = 0
    for sequence, number in rounds:
        if gone == most:
            break
        for table in ENVELOPES:
            of = table.c.survey == sequence, table.c.round == number
            some = select(table.c.id).where(*of).limit(most - gone)
            ids = connection.scalars(some.with_for_update(skip_locked=True)).all()
            gone += connection.execute(delete(table).where(*of, table.c.id.in_(ids))).rowcount
    if gone:
        say(connection, PURGED, "1")
    return gone
