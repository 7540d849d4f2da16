"""Envelopes in SQLite: found, kept and deleted by the bucket."""

from __future__ import annotations

import sqlite3
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


def insert_envelopes(driver: sqlite3.Connection, uploads: Sequence[Upload]) -> set[UploadKey]:
    """Keep those that are not there yet, and say which they are. Each key at most once."""
    new: set[UploadKey] = set()
    for of, members in groupby(sorted(uploads, key=_key), key=lambda upload: upload.key[:2]):
        coming = [Kept(each.id, each.count, each.payload) for each in members]
        new |= {(*of, identifier) for identifier in keep(driver, of, coming)}
    return new


def keep(driver: sqlite3.Connection, of: Round, coming: Sequence[Kept]) -> set[bytes]:
    """What comes in the order of ids; the ids of those that were not there yet."""
    new: set[bytes] = set()
    changed: dict[int, bytes] = {}  # by place; without any: the bucket was halved
    numbers: dict[int, int] = {}  # of the buckets that are there, by place
    start = 0
    while start < len(coming):
        place, number, rows = _bucket(driver, of, coming[start].id)
        end = bisect_right(coming, bucket.last_id(place), start, key=_id)
        added, buckets = _with_more(place, rows, coming[start:end])
        if added:
            new |= added
            changed |= buckets
            numbers |= {place: number} if number is not None else {}
        start = end
    _write(driver, of, changed, numbers)
    return new


def delete_envelopes(driver: sqlite3.Connection, rounds: Sequence[Round], most: int) -> int:
    """Those of these rounds, at most so many buckets. How many envelopes went."""
    rows: list[tuple[int, bytes]] = []
    for of in rounds:
        rows += driver.execute(SOME, (*of, most - len(rows)))
    if rows:
        driver.executemany(DROP, [(number,) for number, _ in rows])
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
    driver: sqlite3.Connection, of: Round, identifier: bytes
) -> tuple[int, int | None, bytes]:
    """Where the id belongs, and the number and content of the bucket there, if there is one."""
    asked = {"s": of[0], "r": of[1], "id": identifier}
    found = {bucket.place_of(row[3]): row for row in driver.execute(FIND, asked)}
    for place, row in found.items():
        if bucket.belongs(identifier, place):
            *values, digest = row
            if digest_of(*values) != digest:
                raise StoreLost("envelopes in the store are damaged; restore a backup")
            return place, row[0], row[4]
    return bucket.place_between(identifier, found), None, bucket.EMPTY


def _with_more(
    place: int, rows: bytes, coming: Sequence[Kept]
) -> tuple[set[bytes], Mapping[int, bytes]]:
    """The ids that were not there yet, and the buckets that are there then."""
    added, grown = set[bytes](), rows
    for each in coming:
        more = bucket.with_one_more(grown, each)
        if more is None:
            return _halved(place, bucket.unpack(rows), coming)
        if more is not grown:
            added.add(each.id)
        grown = more
    return added, {place: grown}


def _halved(
    place: int, before: Sequence[Kept], coming: Sequence[Kept]
) -> tuple[set[bytes], Mapping[int, bytes]]:
    known = {each.id for each in before}
    added = [each for each in coming if each.id not in known]
    parted = bucket.parted(place, sorted([*before, *added]))
    buckets = {place: b""} | {where: bucket.pack(kept) for where, kept in parted}
    return {each.id for each in added}, buckets


def _write(
    driver: sqlite3.Connection, of: Round, changed: Mapping[int, bytes], numbers: dict[int, int]
) -> None:
    for place, rows in changed.items():
        if rows and place not in numbers:
            numbers[place] = _free_number(driver, of, place, numbers.values())
    halved = [(numbers[place],) for place, rows in changed.items() if not rows and place in numbers]
    if halved:
        driver.executemany(DROP, halved)
    if changed:
        rows_there = ((numbers[place], place, rows) for place, rows in changed.items() if rows)
        driver.executemany(KEEP, [_row(n, of, p, rows) for n, p, rows in sorted(rows_there)])


def _row(number: int, of: Round, place: int, rows: bytes) -> tuple[int | bytes, ...]:
    values = (number, *of, bucket.place_bytes(place), rows)
    return *values, digest_of(*values)


def _free_number(driver: sqlite3.Connection, of: Round, place: int, others: Collection[int]) -> int:
    """Of a new bucket. Whoever chooses ids can find two places of one hash in an hour of computing:
    the later one takes the next hash, or it would overwrite the other's envelopes."""
    numbers = (_number(of, place, tries) for tries in count())
    return next(
        number
        for number in numbers
        if number not in others and driver.execute(TAKEN, (number,)).fetchone() is None
    )


def _number(of: Round, place: int, tries: int) -> int:
    """As good as random, so that rows do not lie in the order in which buckets were made."""
    again = (tries,) if tries else ()
    return int.from_bytes(digest_of(*of, place, *again), "big") >> 1
