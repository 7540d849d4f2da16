"""Envelopes in SQLite: found, kept and deleted by the bucket."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import count, groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Upload, UploadKey
from deniable.server.store.sql.digest import digest_of
from deniable.server.store.sqlite import bucket

Round = tuple[int, int]  # a survey's sequence, and the number of a round
_key, _id = attrgetter("key"), attrgetter("id")

# The neighbours of an id: the bucket that it belongs in is one of them, if there is any. As text,
# since it is asked for each report: composing it would take longer than the answer.
FIND = """
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r AND place <= :id
               ORDER BY place DESC LIMIT 1)
UNION ALL
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r AND place > :id
               ORDER BY place LIMIT 1)
"""
KEEP = """
INSERT INTO envelopes VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET rows = excluded.rows, digest = excluded.digest
"""
SOME = "SELECT number, rows FROM envelopes WHERE survey = ? AND round = ? LIMIT ?"
NEXT = """
SELECT * FROM envelopes WHERE survey = ? AND round = ? AND place > ? ORDER BY place LIMIT ?
"""
DROP = "DELETE FROM envelopes WHERE number = ?"
TAKEN = "SELECT 1 FROM envelopes WHERE number = ?"


def insert_envelopes(connection: Connection, uploads: Sequence[Upload]) -> set[UploadKey]:
    """Keep those that are not there yet, and say which they are. Each key at most once."""
    new: set[UploadKey] = set()
    for of, members in groupby(sorted(uploads, key=_key), key=lambda upload: upload.key[:2]):
        coming = [Kept(each.id, each.count, each.payload) for each in members]
        new |= {(*of, identifier) for identifier in keep(connection, of, coming)}
    return new


def keep(connection: Connection, of: Round, coming: Sequence[Kept]) -> set[bytes]:
    """What comes in the order of ids; the ids of those that were not there yet."""
    new: set[bytes] = set()
    changed: dict[int, Sequence[Kept]] = {}  # by place; without any: the bucket was halved
    numbers: dict[int, int] = {}  # of the buckets that are there, by place
    start = 0
    while start < len(coming):
        place, before, there = _bucket(connection, of, coming[start].id)
        end = bisect_right(coming, bucket.last_id(place), start, key=_id)
        known = {each.id for each in before}
        added = [each for each in coming[start:end] if each.id not in known]
        if added:
            new |= {each.id for each in added}
            numbers |= there
            changed |= {place: ()} | dict(bucket.parted(place, sorted([*before, *added])))
        start = end
    _write(connection, of, changed, numbers)
    return new


def delete_envelopes(connection: Connection, rounds: Sequence[Round], most: int) -> int:
    """Those of these rounds, at most so many buckets. How many envelopes went."""
    rows: list[tuple[int, bytes]] = []
    for of in rounds:
        some = connection.exec_driver_sql(SOME, (*of, most - len(rows)))
        rows += [(number, packed) for number, packed in some]
    if rows:
        connection.exec_driver_sql(DROP, [(number,) for number, _ in rows])
    return sum(bucket.rows(packed) for _, packed in rows)


def next_buckets(
    connection: Connection, of: Round, after: bytes, most: int
) -> tuple[bytes, list[Kept]]:
    """What is in the buckets that follow a place, and the last one's place."""
    rows = connection.exec_driver_sql(NEXT, (*of, after, most)).all()
    kept = [each for row in rows for each in unpacked(row)]
    return (rows[-1][3] if rows else after), kept


def unpacked(row: Sequence[Any]) -> list[Kept]:  # Any: its columns have many types
    *values, rows, digest = row
    if digest_of(*values, rows) != digest:
        raise Damaged("envelopes in the store are damaged")
    return bucket.unpack(rows)


def _bucket(
    connection: Connection, of: Round, identifier: bytes
) -> tuple[int, list[Kept], dict[int, int]]:
    """Where the id belongs, what is there already, and the number of that place if it has one."""
    asked = {"s": of[0], "r": of[1], "id": identifier}
    found = {bucket.place_of(row[3]): row for row in connection.exec_driver_sql(FIND, asked)}
    for place, row in found.items():
        if bucket.belongs(identifier, place):
            *values, rows, digest = row
            if digest_of(*values, rows) != digest:
                raise StoreLost("envelopes in the store are damaged; restore a backup")
            return place, bucket.unpack(rows), {place: row[0]}
    return bucket.place_between(identifier, found), [], {}


def _write(
    connection: Connection,
    of: Round,
    changed: Mapping[int, Sequence[Kept]],
    numbers: dict[int, int],
) -> None:
    for place, kept in changed.items():
        if kept and place not in numbers:
            numbers[place] = _free_number(connection, of, place, numbers.values())
    halved = [(numbers[place],) for place, kept in changed.items() if not kept and place in numbers]
    if halved:
        connection.exec_driver_sql(DROP, halved)
    if changed:
        rows = sorted(_row(numbers[p], of, p, kept) for p, kept in changed.items() if kept)
        connection.exec_driver_sql(KEEP, rows)


def _row(number: int, of: Round, place: int, kept: Sequence[Kept]) -> tuple[int | bytes, ...]:
    values = (number, *of, bucket.place_bytes(place), bucket.pack(kept))
    return *values, digest_of(*values)


def _free_number(connection: Connection, of: Round, place: int, others: Collection[int]) -> int:
    """Of a new bucket. Whoever chooses ids can find two places of one hash in an hour of computing:
    the later one takes the next hash, or it would overwrite the other's envelopes."""
    numbers = (_number(of, place, tries) for tries in count())
    return next(
        number
        for number in numbers
        if number not in others and connection.exec_driver_sql(TAKEN, (number,)).first() is None
    )


def _number(of: Round, place: int, tries: int) -> int:
    """As good as random, so that rows do not lie in the order in which buckets were made."""
    again = (tries,) if tries else ()
    return int.from_bytes(digest_of(*of, place, *again), "big") >> 1
