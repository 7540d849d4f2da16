"""Rows of envelopes in SQLite: read, written and deleted one bucket at a time."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Purged, Round, digest_of
from deniable.server.store.sqlite import bucket

Row = tuple[int | bytes, ...]
AFTER_PARTS = b"\xff" * (bucket.PART_BYTES + 1)  # sorts after the number of any part
DAMAGED = "envelopes in the store are damaged"
LOST = f"{DAMAGED}; restore a backup"

# The neighbours of an id. If the id has a bucket, it is one of them.
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
# Only first parts are counted; `rows` is NULL for later parts and for rows with a damaged place.
SOME = """
SELECT number, CASE WHEN kind <= 1 THEN rows END FROM envelopes
WHERE survey = ? AND round = ? LIMIT ?
"""
NEXT = """
SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 0 AND place > :after
UNION ALL
SELECT * FROM envelopes WHERE survey = :s AND round = :r AND kind = 1 AND place > :after
ORDER BY place LIMIT :most
"""
DROP = "DELETE FROM envelopes WHERE number = ?"
TAKEN = "SELECT 1 FROM envelopes WHERE number = ?"


def keep_envelopes(driver: sqlite3.Connection, of: Round, arrived: Sequence[Kept]) -> set[bytes]:
    """Store envelopes, given in the order of their ids, and return the ids of the new ones."""
    large = [envelope for envelope in arrived if len(envelope.payload) > bucket.MAX_PAYLOAD_BYTES]
    small = [envelope for envelope in arrived if len(envelope.payload) <= bucket.MAX_PAYLOAD_BYTES]
    if driver.execute(ANY, (*of, 1)).fetchone():
        small = [envelope for envelope in small if not _is_alone(driver, of, envelope.id)]
    new = _keep_in_buckets(driver, of, small)
    return new | _keep_alone(driver, of, large) if large else new


def stored_ids(driver: sqlite3.Connection, of: Round, identifiers: Iterable[bytes]) -> set[bytes]:
    """Return those ids of a round whose envelopes are stored."""
    return {
        identifier
        for identifier in identifiers
        if _is_alone(driver, of, identifier) or _is_in_bucket(driver, of, identifier)
    }


def _keep_in_buckets(driver: sqlite3.Connection, of: Round, arrived: Sequence[Kept]) -> set[bytes]:
    new: set[bytes] = set()
    changed: dict[int, bytes] = {}  # buckets by place; empty if the bucket was split
    numbers: dict[int, int] = {}  # row numbers of existing buckets, by place
    start = 0
    while start < len(arrived):
        place, number, rows = _bucket(driver, of, arrived[start].id)
        end = bisect_right(arrived, bucket.last_id(place), start, key=attrgetter("id"))
        added, buckets = _grow(place, rows, arrived[start:end])
        if added:
            new |= added
            changed |= buckets
            if number is not None:
                numbers[place] = number
        start = end
    _write(driver, of, changed, numbers)
    return new


def delete_envelopes(driver: sqlite3.Connection, rounds: Iterable[Round], most: int) -> Purged:
    """Delete up to `most` rows of the rounds' envelopes."""
    rows: list[tuple[int, object]] = []
    for of in rounds:
        if len(rows) == most:
            break
        rows += driver.execute(SOME, (*of, most - len(rows)))
    if rows:
        driver.executemany(DROP, [(number,) for number, _ in rows])
    buckets = [packed for _, packed in rows if isinstance(packed, bytes) and len(packed) > 1]
    return Purged(sum(map(bucket.rows, buckets)), len(rows))


def next_buckets(
    driver: sqlite3.Connection, of: Round, after: bytes, most: int
) -> tuple[bytes, list[Kept]]:
    """Return the envelopes of the next buckets after a place, and the last bucket's place."""
    asked = {"s": of[0], "r": of[1], "after": after, "most": most}
    rows = driver.execute(NEXT, asked).fetchall()
    kept = [envelope for row in rows for envelope in unpacked(driver, row)]
    return (rows[-1][3] if rows else after), kept


def unpacked(driver: sqlite3.Connection, row: Sequence[Any]) -> list[Kept]:
    """Return the envelopes of a bucket, or the large envelope whose first part this row is."""
    _, survey, number, place, rows, _, kind = row  # Any: columns of many types
    content = [whole(row)]
    if kind == 1 and (parts := bucket.part_count(rows)) > 1:
        rest = driver.execute(REST, (survey, number, place, place + AFTER_PARTS)).fetchall()
        content += map(whole, rest)
        if len(content) != parts:
            raise Damaged(DAMAGED)
    return bucket.unpack(b"".join(content))


def whole(row: Sequence[Any]) -> bytes:
    """Return the content of a row; raise Damaged if it is not what was written."""
    *values, rows, digest, _ = row
    if digest_of(*values, rows) != digest:
        raise Damaged(DAMAGED)
    return bytes(rows)


def _keep_alone(driver: sqlite3.Connection, of: Round, arrived: Sequence[Kept]) -> set[bytes]:
    """Store large envelopes, except those whose ids are already stored."""
    new = [envelope for envelope in arrived if not _is_alone(driver, of, envelope.id)]
    if driver.execute(ANY, (*of, 0)).fetchone():
        new = [envelope for envelope in new if not _is_in_bucket(driver, of, envelope.id)]
    rows: dict[int, Row] = {}
    for envelope in new:
        for place, part in bucket.parts(envelope):
            number = _free_number(driver, of, place, rows)
            rows[number] = _row(number, of, place, part)
    driver.executemany(KEEP, [rows[number] for number in sorted(rows)])
    return {envelope.id for envelope in new}


def _is_alone(driver: sqlite3.Connection, of: Round, identifier: bytes) -> bool:
    return driver.execute(ALONE, (*of, bucket.own_place(identifier))).fetchone() is not None


def _is_in_bucket(driver: sqlite3.Connection, of: Round, identifier: bytes) -> bool:
    _, _, rows = _bucket(driver, of, identifier)
    return any(envelope.id == identifier for envelope in bucket.unpack(rows))


def _bucket(
    driver: sqlite3.Connection, of: Round, identifier: bytes
) -> tuple[int, int | None, bytes]:
    """Return the place of an id's bucket, and the number and content of its row if it exists."""
    asked = {"s": of[0], "r": of[1], "id": identifier}
    rows = driver.execute(FIND, asked).fetchall()
    if any(type(row[3]) is not bytes for row in rows):
        raise StoreLost(LOST)
    neighbours = {bucket.place_of(row[3]): row for row in rows}
    for place, row in neighbours.items():
        if bucket.belongs(identifier, place):
            *values, digest, _ = row
            if digest_of(*values) != digest:
                raise StoreLost(LOST)
            return place, row[0], row[4]
    return bucket.place_between(identifier, neighbours), None, bucket.EMPTY


def _grow(
    place: int, rows: bytes, arrived: Sequence[Kept]
) -> tuple[set[bytes], Mapping[int, bytes]]:
    """Add envelopes to a bucket; return the ids of the new ones and the resulting buckets."""
    added, grown = set[bytes](), rows
    for envelope in arrived:
        more = bucket.with_one_more(grown, envelope)
        if more is None:  # it does not fit: split the bucket
            before = {kept.id: kept for kept in bucket.unpack(rows)}
            both = {kept.id: kept for kept in arrived} | before
            parts = bucket.split(place, sorted(both.values()))
            buckets = {place: b""} | {part: bucket.pack(kept) for part, kept in parts}
            return both.keys() - before.keys(), buckets
        if more is not grown:
            added.add(envelope.id)
        grown = more
    return added, {place: grown}


def _write(
    driver: sqlite3.Connection, of: Round, changed: Mapping[int, bytes], numbers: dict[int, int]
) -> None:
    for place, rows in changed.items():
        if rows and place not in numbers:
            stored = bucket.place_bytes(place)
            numbers[place] = _free_number(driver, of, stored, numbers.values())
    was_split = [
        (numbers[place],) for place, rows in changed.items() if not rows and place in numbers
    ]
    driver.executemany(DROP, was_split)
    grown = sorted((numbers[place], place, rows) for place, rows in changed.items() if rows)
    driver.executemany(KEEP, [_row(n, of, bucket.place_bytes(p), rows) for n, p, rows in grown])


def _row(number: int, of: Round, place: bytes, rows: bytes) -> Row:
    values = (number, *of, place, rows)
    return *values, digest_of(*values)


def _free_number(
    driver: sqlite3.Connection, of: Round, place: bytes, others: Collection[int]
) -> int:
    """Return a free number for a new row.

    An attacker who chooses ids can find two places with the same hash in an hour of computing. The
    second row then takes the next hash, because it would otherwise overwrite the first.
    """
    numbers = (_number(of, place, tries) for tries in count())
    return next(
        number
        for number in numbers
        if number not in others and driver.execute(TAKEN, (number,)).fetchone() is None
    )


def _number(of: Round, place: bytes, tries: int) -> int:
    """Return a hash of a row's key, so that rows are not stored in the order of creation."""
    again = (tries,) if tries else ()
    return int.from_bytes(digest_of(*of, place, *again), "big") >> 1
