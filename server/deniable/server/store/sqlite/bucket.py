"""Buckets: envelopes whose ids begin alike, as bytes that depend on nothing but them.

As rows of their own they would show which came first: SQLite lays a new row before the last one of
its page. In a bucket they lie in the order of their ids, padded with zeros to a fixed size, so that
it is overwritten where it lies. It begins with their number (u16), then has of each envelope

    id (16) · reports - 1 (u16) · length (u32)

and then their payloads. A bucket that grows beyond its size is halved by the next bit of its ids,
so that the set of buckets also depends only on what came, and not on the order. None is empty.

A larger envelope is kept alone, in parts of one size, and the buckets are as if it were not there.
SQLite would put a row that does not fit into a page at the end of its file, in order of arrival.

The place of a bucket is the middle of the ids that belong in it: the bits that they begin with, and
a one. Such places sort as the ids do. An envelope that is kept alone lies at the place where only
its id belongs, and all but the first of its parts at that place and their number (u16).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from deniable.server.store.records import Kept

SIZE = 960  # with what stands around it, a page
PART = 936  # of an envelope that is kept alone: the same, as its place is longer
ID_BYTES = 16
PLACE_BYTES = ID_BYTES + 1  # at most: one bit more than of an id is used
PART_BYTES = 2
BITS = 8 * PLACE_BYTES
_ROWS = struct.Struct("<H")
_HEAD = struct.Struct(f"<{ID_BYTES}sHI")
MOST_BYTES = SIZE - _ROWS.size - _HEAD.size  # of a payload: what has more is kept alone

EMPTY = bytes(SIZE)  # what is written nowhere


def pack(envelopes: Sequence[Kept]) -> bytes:
    """Return the bucket of these envelopes, which are in the order of their ids."""
    heads = (_HEAD.pack(each.id, each.reports - 1, len(each.payload)) for each in envelopes)
    payloads = (each.payload for each in envelopes)
    return b"".join((_ROWS.pack(len(envelopes)), *heads, *payloads)).ljust(SIZE, b"\0")


def with_one_more(bucket: bytes, envelope: Kept) -> bytes | None:
    """Return what `pack` makes of a bucket's envelopes and one more, without unpacking them.

    The same bytes if it is there already; None if it does not fit.
    """
    number = rows(bucket)
    heads, body = bucket[_ROWS.size :], _ROWS.size + number * _HEAD.size
    index = bisect_left(range(number), envelope.id, key=lambda each: _id_at(heads, each))
    if index < number and _id_at(heads, index) == envelope.id:
        return bucket
    lengths = [length for _, _, length in _HEAD.iter_unpack(bucket[_ROWS.size : body])]
    end = body + sum(lengths)
    if end + _HEAD.size + len(envelope.payload) > SIZE:
        return None
    before, here = _ROWS.size + index * _HEAD.size, body + sum(lengths[:index])
    parts = (
        _ROWS.pack(number + 1),
        bucket[_ROWS.size : before],
        _HEAD.pack(envelope.id, envelope.reports - 1, len(envelope.payload)),
        bucket[before:here],
        envelope.payload,
        bucket[here:end],
    )
    return b"".join(parts).ljust(SIZE, b"\0")


def _id_at(heads: bytes, index: int) -> bytes:
    return heads[index * _HEAD.size : index * _HEAD.size + ID_BYTES]


def rows(bucket: bytes) -> int:
    """Return the number of envelopes in a bucket."""
    (number,) = _ROWS.unpack_from(bucket)
    return int(number)


def unpack(bucket: bytes) -> list[Kept]:
    start = _ROWS.size + rows(bucket) * _HEAD.size
    envelopes = []
    for identifier, more, length in _HEAD.iter_unpack(bucket[_ROWS.size : start]):
        envelopes.append(Kept(identifier, more + 1, bucket[start : start + length]))
        start += length
    return envelopes


def parted(place: int, envelopes: Sequence[Kept]) -> Iterator[tuple[int, Sequence[Kept]]]:
    """Yield the buckets that these envelopes make, in order, each with its place."""
    if len(envelopes) == 1 or _bytes(envelopes) <= SIZE:
        yield place, envelopes
        return
    index = bisect_left(envelopes, place, key=lambda each: _number(each.id))
    quarter = _unit(place) >> 1
    if envelopes[:index]:
        yield from parted(place - quarter, envelopes[:index])
    if envelopes[index:]:
        yield from parted(place + quarter, envelopes[index:])


def belongs(identifier: bytes, place: int) -> bool:
    """Return whether an id belongs in the bucket at a place."""
    return _number(identifier) ^ place < 2 * _unit(place)


def last_id(place: int) -> bytes:
    """Return the last id that belongs at a place."""
    return ((place | (_unit(place) - 1)) >> 8).to_bytes(ID_BYTES, "big")


def own_place(identifier: bytes) -> bytes:
    """Return the place, as it is stored, where no other id belongs."""
    return identifier + b"\x80"


def parts(envelope: Kept) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parts of an envelope that is kept alone, each with its place as it is stored."""
    content, place = pack([envelope]), own_place(envelope.id)
    for number, start in enumerate(range(0, len(content), PART)):
        part = content[start : start + PART].ljust(PART, b"\0")
        yield place + (number.to_bytes(PART_BYTES, "big") if number else b""), part


def parts_of(first: bytes) -> int:
    """Return the number of parts, by the first of them; 1 for a bucket with a single id."""
    _, _, length = _HEAD.unpack_from(first, _ROWS.size)
    missing = _ROWS.size + _HEAD.size + int(length) - len(first)
    return 1 + max(0, -(-missing // PART))


def place_between(identifier: bytes, neighbours: Iterable[int]) -> int:
    """Return the place of a new bucket for an id: as large as its neighbours leave room."""
    number = _number(identifier)
    differs = min(((number ^ place).bit_length() for place in neighbours), default=BITS + 1)
    unit = 1 << (differs - 2)
    return number & -2 * unit | unit


def place_bytes(place: int) -> bytes:
    return place.to_bytes(PLACE_BYTES, "big").rstrip(b"\0")


def place_of(stored: bytes) -> int:
    return int.from_bytes(stored.ljust(PLACE_BYTES, b"\0"), "big")


def _unit(place: int) -> int:
    """Return the last bit of a place that is set: half of how many ids belong there."""
    return place & -place


def _bytes(envelopes: Sequence[Kept]) -> int:
    return _ROWS.size + sum(_HEAD.size + len(each.payload) for each in envelopes)


def _number(identifier: bytes) -> int:
    return int.from_bytes(identifier, "big") << 8
