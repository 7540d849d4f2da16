"""Rows of envelopes in SQLite: read, written and deleted one bucket at a time."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any

from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Purged, Round, digest_of
from deniable.server.store.sqlite import bucket

Row = tuple[int | bytes, ...]
DAMAGED = "envelopes in the store are damaged"
LOST = f"{DAMAGED}; restore a backup"

MAX_BUCKETS_PER_READ = 64
MAX_BYTES_PER_READ = 2**20  # of payloads; the last one may exceed it
MAX_TRIES = 1_000  # of numbers for one place

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
NEXT = """
SELECT * FROM envelopes WHERE survey = ? AND round = ? AND kind = 0 AND place > ?
ORDER BY place LIMIT ?
"""
ROUNDS = "SELECT DISTINCT round FROM envelopes WHERE survey = ? AND kind = 0"
SOME = "SELECT * FROM envelopes WHERE survey = ? AND round = ? AND kind = 0 LIMIT ?"
SWEEP = "DELETE FROM envelopes WHERE survey = ? AND round = ?"  # reads the whole table
DROP = "DELETE FROM envelopes WHERE number = ?"
ROW = "SELECT * FROM envelopes WHERE number = ?"
TAKEN = "SELECT 1 FROM envelopes WHERE number = ?"


def keep_envelopes(driver: sqlite3.Connection, of: Round, arrived: Sequence[Kept]) -> set[bytes]:
    """Store envelopes, given in the order of their ids, and return the ids of the new ones."""
    entries = [bucket.entry_of(envelope) for envelope in arrived]
    new = _keep_in_buckets(driver, of, entries)
    for envelope, entry in zip(arrived, entries, strict=True):
        if entry is not envelope and envelope.id in new:
            _keep_parts(driver, of, envelope)
    return new


def stored_ids(driver: sqlite3.Connection, of: Round, identifiers: Iterable[bytes]) -> set[bytes]:
    """Return those ids of a round whose envelopes are stored."""
    return {id_ for id_ in identifiers if _is_in_bucket(driver, of, id_)}


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
    """Delete envelopes of the rounds, in about this many rows."""
    envelopes = deleted = 0
    for of in rounds:
        for row in driver.execute(SOME, (*of, most)).fetchall():
            if deleted >= most:
                return Purged(envelopes, deleted)
            try:
                entries = bucket.unpack(whole(row))
                numbers = [row[0], *_part_numbers(driver, of, entries)]
            except Damaged:  # the parts that it names are not known
                deleted += driver.execute(SWEEP, of).rowcount
                break
            driver.executemany(DROP, [(number,) for number in numbers])
            envelopes, deleted = envelopes + len(entries), deleted + len(numbers)
    return Purged(envelopes, deleted)


def delete_survey(driver: sqlite3.Connection, survey: int) -> None:
    """Delete all envelopes of a survey."""
    rounds = [(survey, number) for (number,) in driver.execute(ROUNDS, (survey,)).fetchall()]
    while delete_envelopes(driver, rounds, MAX_BUCKETS_PER_READ).rows:
        pass


def next_envelopes(
    driver: sqlite3.Connection, of: Round, place: bytes, last: bytes
) -> tuple[tuple[bytes, bytes], list[Kept]]:
    """Return the next envelopes after a bucket's place and an id, and their last place and id."""
    kept, size = list[Kept](), 0
    for row in driver.execute(NEXT, (*of, place, MAX_BUCKETS_PER_READ)).fetchall():
        for entry in bucket.unpack(whole(row)):
            if entry.id > last:
                if size >= MAX_BYTES_PER_READ:
                    return (place, last), kept
                kept.append(_with_payload(driver, of, entry))
                last, size = entry.id, size + len(kept[-1].payload)
        place = row[3]
    return (place, last), kept


def unpacked(driver: sqlite3.Connection, row: Sequence[Any]) -> Iterator[Kept]:
    """Yield the envelopes of a bucket; raise Damaged if any of them cannot be read."""
    for entry in bucket.unpack(whole(row)):
        yield _with_payload(driver, (row[1], row[2]), entry)


def whole(row: Sequence[Any]) -> bytes:
    """Return the content of a row; raise Damaged if it is not what was written."""
    *values, rows, digest, _ = row
    if digest_of(*values, rows) != digest:
        raise Damaged(DAMAGED)
    return bytes(rows)


def _with_payload(driver: sqlite3.Connection, of: Round, entry: Kept) -> Kept:
    """Return the envelope of a bucket's entry, with a payload that is stored separately."""
    if not isinstance(entry.payload, bucket.Separate):
        return entry
    length = entry.payload.length
    rows = map(partial(_part, driver, of), bucket.part_places(entry.id, length))
    return entry._replace(payload=b"".join(map(whole, rows))[:length])


def _part(driver: sqlite3.Connection, of: Round, place: bytes) -> Sequence[Any]:
    """Return the row of a part. An earlier row with the same hash may have been deleted."""
    for tries in range(MAX_TRIES):
        row = driver.execute(ROW, (_number(of, place, tries),)).fetchone()
        if row is not None and tuple(row[1:4]) == (*of, place):
            found: Sequence[Any] = row  # Any: columns of many types
            return found
    raise Damaged(DAMAGED)


def _part_numbers(driver: sqlite3.Connection, of: Round, entries: Iterable[Kept]) -> Iterator[int]:
    for entry in entries:
        if isinstance(entry.payload, bucket.Separate):
            places = bucket.part_places(entry.id, entry.payload.length)
            yield from (row[0] for row in map(partial(_part, driver, of), places))


def _keep_parts(driver: sqlite3.Connection, of: Round, envelope: Kept) -> None:
    rows: dict[int, Row] = {}
    for place, part in bucket.parts(envelope):
        number = _free_number(driver, of, place, rows)
        rows[number] = _row(number, of, place, part)
    driver.executemany(KEEP, [rows[number] for number in sorted(rows)])


def _is_in_bucket(driver: sqlite3.Connection, of: Round, identifier: bytes) -> bool:
    _, _, rows = _bucket(driver, of, identifier)
    return any(entry.id == identifier for entry in bucket.unpack(rows))


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
