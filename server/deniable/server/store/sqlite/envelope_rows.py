"""Rows of envelopes in SQLite: found, kept and deleted by the bucket."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count, groupby
from operator import attrgetter
from typing import Any

from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Purged, Upload, UploadKey
from deniable.server.store.sqlite import bucket
from deniable.server.store.tally_rows import Round, digest_of

Row = tuple[int | bytes, ...]
LAST = b"\xff" * (bucket.PART_BYTES + 1)  # is beyond the places of an envelope's parts
DAMAGED = "envelopes in the store are damaged"
_key, _id = attrgetter("key"), attrgetter("id")

# The neighbours of an id: the bucket that it belongs in is one of them, if there is any. As text,
# since it is asked for each report: composing it would take longer than the answer.
FIND = """
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 0
               AND place <= :id ORDER BY place DESC LIMIT 1)
UNION ALL
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 0
               AND place > :id ORDER BY place LIMIT 1)
"""
KEEP = """
INSERT INTO envelopes VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET rows = excluded.rows, digest = excluded.digest
"""
ANY = "SELECT 1 FROM envelopes WHERE survey = ? AND round = ? AND kind = ?"
ALONE = "SELECT 1 FROM envelopes WHERE survey = ? AND round = ? AND kind = 1 AND place = ?"
REST = """
SELECT * FROM envelopes WHERE survey = ? AND round = ? AND kind > 1 AND place > ? AND place < ?
ORDER BY place
"""
SOME = "SELECT number, rows, kind FROM envelopes WHERE survey = ? AND round = ? LIMIT ?"
NEXT = """
SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 0 AND place > :after
UNION ALL
SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 1 AND place > :after
ORDER BY place LIMIT :most
"""
DROP = "DELETE FROM envelopes WHERE number = ?"
TAKEN = "SELECT 1 FROM envelopes WHERE number = ?"


def insert_envelopes(driver: sqlite3.Connection, uploads: Sequence[Upload]) -> set[UploadKey]:
    """Keep the uploads that are not there yet, and return their keys. Each key comes once."""
    new: set[UploadKey] = set()
    for of, members in groupby(sorted(uploads, key=_key), key=lambda upload: upload.key[:2]):
        coming = [Kept(each.id, each.count, each.payload) for each in members]
        new |= {(*of, identifier) for identifier in keep(driver, of, coming)}
    return new


def keep(driver: sqlite3.Connection, of: Round, coming: Sequence[Kept]) -> set[bytes]:
    """Keep envelopes, given in the order of their ids, and return the ids of the new ones."""
    alone = [each for each in coming if len(each.payload) > bucket.MOST_BYTES]
    others = [each for each in coming if len(each.payload) <= bucket.MOST_BYTES]
    if driver.execute(ANY, (*of, 1)).fetchone():
        others = [each for each in others if not _is_alone(driver, of, each.id)]
    new = _keep_in_buckets(driver, of, others)
    return new | _keep_alone(driver, of, alone) if alone else new


def _keep_in_buckets(driver: sqlite3.Connection, of: Round, coming: Sequence[Kept]) -> set[bytes]:
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


def delete_envelopes(driver: sqlite3.Connection, rounds: Iterable[Round], most: int) -> Purged:
    """Delete the envelopes of these rounds, in at most `most` rows."""
    rows: list[tuple[int, bytes, int]] = []
    for of in rounds:
        if len(rows) == most:
            break
        rows += driver.execute(SOME, (*of, most - len(rows)))
    if rows:
        driver.executemany(DROP, [(number,) for number, _, _ in rows])
    return Purged(sum(bucket.rows(packed) for _, packed, kind in rows if kind <= 1), len(rows))


def next_buckets(
    driver: sqlite3.Connection, of: Round, after: bytes, most: int
) -> tuple[bytes, list[Kept]]:
    """Return the last place and the envelopes of the buckets that follow a place."""
    asked = {"s": of[0], "r": of[1], "after": after, "most": most}
    rows = driver.execute(NEXT, asked).fetchall()
    kept = [each for row in rows for each in unpacked(driver, row)]
    return (rows[-1][3] if rows else after), kept


def unpacked(driver: sqlite3.Connection, row: Sequence[Any]) -> list[Kept]:
    """Return what is in a bucket; or the envelope that is kept alone, with its later parts."""
    _, survey, number, place, rows, _, kind = row  # Any: its columns have many types
    content = [whole(row)]
    if kind == 1 and (parts := bucket.parts_of(rows)) > 1:
        rest = driver.execute(REST, (survey, number, place, place + LAST)).fetchall()
        content += map(whole, rest)
        if len(content) != parts:
            raise Damaged(DAMAGED)
    return bucket.unpack(b"".join(content))


def whole(row: Sequence[Any]) -> bytes:
    """Return what is in a row; Damaged if it is not what was written."""
    *values, rows, digest, _ = row
    if digest_of(*values, rows) != digest:
        raise Damaged(DAMAGED)
    return bytes(rows)


def _keep_alone(driver: sqlite3.Connection, of: Round, coming: Sequence[Kept]) -> set[bytes]:
    """Keep envelopes that fit into no bucket. One whose id is in a bucket is there already."""
    coming = [each for each in coming if not _is_alone(driver, of, each.id)]
    if driver.execute(ANY, (*of, 0)).fetchone():
        coming = [each for each in coming if not _is_in_bucket(driver, of, each.id)]
    rows: dict[int, Row] = {}
    for each in coming:
        for place, part in bucket.parts(each):
            number = _free_number(driver, of, place, rows)
            rows[number] = _row(number, of, place, part)
    driver.executemany(KEEP, [rows[number] for number in sorted(rows)])
    return {each.id for each in coming}


def _is_alone(driver: sqlite3.Connection, of: Round, identifier: bytes) -> bool:
    return driver.execute(ALONE, (*of, bucket.own_place(identifier))).fetchone() is not None


def _is_in_bucket(driver: sqlite3.Connection, of: Round, identifier: bytes) -> bool:
    _, _, rows = _bucket(driver, of, identifier)
    return any(each.id == identifier for each in bucket.unpack(rows))


def _bucket(
    driver: sqlite3.Connection, of: Round, identifier: bytes
) -> tuple[int, int | None, bytes]:
    """Return the place of an id, and the number and content of the bucket there, if any."""
    asked = {"s": of[0], "r": of[1], "id": identifier}
    found = {bucket.place_of(row[3]): row for row in driver.execute(FIND, asked)}
    for place, row in found.items():
        if bucket.belongs(identifier, place):
            *values, digest, _ = row
            if digest_of(*values) != digest:
                raise StoreLost("envelopes in the store are damaged; restore a backup")
            return place, row[0], row[4]
    return bucket.place_between(identifier, found), None, bucket.EMPTY


def _with_more(
    place: int, rows: bytes, coming: Sequence[Kept]
) -> tuple[set[bytes], Mapping[int, bytes]]:
    """Return the ids that were not there yet, and the buckets that are there then."""
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
            stored = bucket.place_bytes(place)
            numbers[place] = _free_number(driver, of, stored, numbers.values())
    halved = [(numbers[place],) for place, rows in changed.items() if not rows and place in numbers]
    if halved:
        driver.executemany(DROP, halved)
    if changed:
        there = sorted((numbers[place], place, rows) for place, rows in changed.items() if rows)
        driver.executemany(KEEP, [_row(n, of, bucket.place_bytes(p), rows) for n, p, rows in there])


def _row(number: int, of: Round, place: bytes, rows: bytes) -> Row:
    values = (number, *of, place, rows)
    return *values, digest_of(*values)


def _free_number(
    driver: sqlite3.Connection, of: Round, place: bytes, others: Collection[int]
) -> int:
    """Return a free number for a new row.

    An attacker who chooses ids can find two places of one hash in an hour of computing: the later
    one takes the next hash, or it would overwrite the other's envelopes.
    """
    numbers = (_number(of, place, tries) for tries in count())
    return next(
        number
        for number in numbers
        if number not in others and driver.execute(TAKEN, (number,)).fetchone() is None
    )


def _number(of: Round, place: bytes, tries: int) -> int:
    """Return a hash of a row's key: rows do not lie in the order in which they were made."""
    again = (tries,) if tries else ()
    return int.from_bytes(digest_of(*of, place, *again), "big") >> 1
