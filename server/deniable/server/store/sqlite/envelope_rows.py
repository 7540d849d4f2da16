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
from deniable.server.store.sqlite.part_slots import (
    DAMAGED,
    Owner,
    all_slots,
    delete_parts,
    insert_parts,
    read_payload,
    slots_of_round,
)

Row = tuple[int | bytes, ...]
LOST = f"{DAMAGED}; restore a backup"

MAX_BUCKETS_PER_READ = 64
MAX_BYTES_PER_READ = 2**20  # of payloads; the last one may exceed it

# The neighbours of an id. If the id has a bucket, it is one of them.
FIND = """
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r
               AND place <= :id ORDER BY place DESC LIMIT 1)
UNION ALL
SELECT * FROM (SELECT * FROM envelopes WHERE survey = :s AND round = :r
               AND place > :id ORDER BY place LIMIT 1)
"""
KEEP = """
INSERT INTO envelopes VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET rows = excluded.rows, digest = excluded.digest
"""
NEXT = """
SELECT * FROM envelopes WHERE survey = ? AND round = ? AND place > ?
ORDER BY place LIMIT ?
"""
ROUNDS = "SELECT DISTINCT round FROM envelopes WHERE survey = ?"
SOME = "SELECT * FROM envelopes WHERE survey = ? AND round = ? LIMIT 1"
SWEEP = "DELETE FROM envelopes WHERE survey = ? AND round = ?"
DROP = "DELETE FROM envelopes WHERE number = ?"
TAKEN = "SELECT 1 FROM envelopes WHERE number = ?"


def keep_envelopes(driver: sqlite3.Connection, of: Round, arrived: Sequence[Kept]) -> set[bytes]:
    """Store envelopes, given in the order of their ids, and return the ids of the new ones."""
    entries = [bucket.entry_of(envelope) for envelope in arrived]
    new = _keep_in_buckets(driver, of, entries)
    pairs = zip(arrived, entries, strict=True)
    large = [envelope for envelope, entry in pairs if entry is not envelope and envelope.id in new]
    if large:
        insert_parts(driver, of, large, partial(_list_slots, driver))
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
        # One at a time: a deletion moves parts, and so changes the slots in other entries.
        while (row := driver.execute(SOME, of).fetchone()) is not None:
            if deleted >= most:
                return Purged(envelopes, deleted)
            try:
                entries = bucket.unpack(whole(row))
                slots = [slot for entry in entries for slot in _slots(driver, of, entry)]
            except Damaged:  # the parts that it names are not known
                slots = slots_of_round(driver, of)
                deleted += driver.execute(SWEEP, of).rowcount + len(slots)
                delete_parts(driver, slots, partial(_list_slots, driver))
                break
            driver.execute(DROP, (row[0],))
            delete_parts(driver, slots, partial(_list_slots, driver))
            envelopes, deleted = envelopes + len(entries), deleted + 1 + len(slots)
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
    *values, rows, digest = row
    if digest_of(*values, rows) != digest:
        raise Damaged(DAMAGED)
    return bytes(rows)


def _with_payload(driver: sqlite3.Connection, of: Round, entry: Kept) -> Kept:
    """Return the envelope of a bucket's entry, with a payload that is stored separately."""
    if not isinstance(entry.payload, bucket.Separate):
        return entry
    owner = Owner(*of, entry.id, entry.payload.length)
    return entry._replace(payload=read_payload(driver, owner, entry.payload.slots))


def _slots(driver: sqlite3.Connection, of: Round, entry: Kept) -> list[int]:
    """Return the slots of an entry's parts."""
    if not isinstance(entry.payload, bucket.Separate):
        return []
    owner = Owner(*of, entry.id, entry.payload.length)
    return all_slots(driver, owner, entry.payload.slots)


def _list_slots(
    driver: sqlite3.Connection, owner: Owner, slots: Mapping[int, int]
) -> Sequence[int]:
    """Change slots in an envelope's entry, by their position there; return all of its slots."""
    of = owner.survey, owner.round
    place, number, rows = _bucket(driver, of, owner.id)
    if number is None:
        raise StoreLost(LOST)
    rows, entry = bucket.with_slots(rows, owner.id, slots)
    if slots:
        driver.execute(KEEP, _row(number, of, bucket.place_bytes(place), rows))
    return entry.slots


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
            *values, digest = row
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
