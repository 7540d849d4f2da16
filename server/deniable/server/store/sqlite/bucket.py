"""Buckets: envelopes whose ids share a prefix, packed into bytes that reveal no order of arrival.

Separate rows would show which envelope came first, since SQLite puts a new row before the last one
of its page. A bucket holds its envelopes in the order of their ids, padded with zeros to a fixed
size, so that it can be overwritten in place. It starts with their number (u16), followed for each
envelope by

    id (16) · reports - 1 (u16) · length (u32)

and then by the payloads. A bucket that outgrows its size is split by the next bit of its ids, so
the set of buckets depends only on the stored envelopes. No bucket is empty.

The payload of an envelope that is too large for a bucket is stored separately, in parts of equal
size. In the bucket, its length (u32) replaces it, and the length in the entry's head has a mark. A
row that is larger than a page would be at the end of SQLite's file, in the order of arrival. Parts
are in no index, because the entries in a page of an index are in the order of arrival too. The row
number of a part is a hash instead.

The place of a bucket is the middle of its range of ids: their common prefix, followed by a one bit.
Places sort as ids do. The place of a part is that of a bucket with only this id, followed by the
number of the part (u16).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from deniable.server.store.records import Kept

SIZE = 960  # with the rest of its row, a bucket of this size fills a page
PART = 936  # size of a part of a large envelope: smaller, because its place is longer
ID_BYTES = 16
PLACE_BYTES = ID_BYTES + 1  # maximum: a place has one bit more than an id
PART_BYTES = 2
BITS = 8 * PLACE_BYTES
_ROWS = struct.Struct("<H")
_HEAD = struct.Struct(f"<{ID_BYTES}sHI")
MAX_PAYLOAD_BYTES = SIZE - _ROWS.size - _HEAD.size  # larger payloads are stored separately
SEPARATE = 2**31  # mark in the length of a payload that is stored separately
_LENGTH = struct.Struct("<I")

EMPTY = bytes(SIZE)  # never stored


class Separate(bytes):
    """Length of a payload that is stored separately, as a bucket holds it."""

    @property
    def length(self) -> int:
        return int(_LENGTH.unpack(self)[0])


def entry_of(envelope: Kept) -> Kept:
    """Return the envelope as a bucket holds it."""
    if len(envelope.payload) <= MAX_PAYLOAD_BYTES:
        return envelope
    return envelope._replace(payload=Separate(_LENGTH.pack(len(envelope.payload))))


def pack(envelopes: Sequence[Kept]) -> bytes:
    """Pack envelopes, given in the order of their ids, into a bucket."""
    heads = map(_head, envelopes)
    payloads = (kept.payload for kept in envelopes)
    return b"".join((_ROWS.pack(len(envelopes)), *heads, *payloads)).ljust(SIZE, b"\0")


def with_one_more(bucket: bytes, envelope: Kept) -> bytes | None:
    """Add an envelope to a packed bucket, with the same result as `pack`.

    Return the same object if the bucket contains the envelope, and None if it does not fit.
    """
    number = rows(bucket)
    heads, body = bucket[_ROWS.size :], _ROWS.size + number * _HEAD.size
    index = bisect_left(range(number), envelope.id, key=lambda row: _id_at(heads, row))
    if index < number and _id_at(heads, index) == envelope.id:
        return bucket
    heads_of_all = _HEAD.iter_unpack(bucket[_ROWS.size : body])
    lengths = [length & ~SEPARATE for _, _, length in heads_of_all]
    end = body + sum(lengths)
    if end + _HEAD.size + len(envelope.payload) > SIZE:
        return None
    head_at, payload_at = _ROWS.size + index * _HEAD.size, body + sum(lengths[:index])
    parts = (
        _ROWS.pack(number + 1),
        bucket[_ROWS.size : head_at],
        _head(envelope),
        bucket[head_at:payload_at],
        envelope.payload,
        bucket[payload_at:end],
    )
    return b"".join(parts).ljust(SIZE, b"\0")


def _head(envelope: Kept) -> bytes:
    mark = SEPARATE if isinstance(envelope.payload, Separate) else 0
    return _HEAD.pack(envelope.id, envelope.reports - 1, len(envelope.payload) | mark)


def _id_at(heads: bytes, index: int) -> bytes:
    return heads[index * _HEAD.size : index * _HEAD.size + ID_BYTES]


def rows(bucket: bytes) -> int:
    """Return the number of envelopes in a bucket."""
    (number,) = _ROWS.unpack_from(bucket)
    return int(number)


def unpack(bucket: bytes) -> list[Kept]:
    start = _ROWS.size + rows(bucket) * _HEAD.size
    envelopes = []
    for identifier, more, marked in _HEAD.iter_unpack(bucket[_ROWS.size : start]):
        kind, end = Separate if marked & SEPARATE else bytes, start + (marked & ~SEPARATE)
        envelopes.append(Kept(identifier, more + 1, kind(bucket[start:end])))
        start = end
    return envelopes


def split(place: int, envelopes: Sequence[Kept]) -> Iterator[tuple[int, Sequence[Kept]]]:
    """Split envelopes into buckets, and yield (place, envelopes) in order."""
    size = _ROWS.size + sum(_HEAD.size + len(kept.payload) for kept in envelopes)
    if len(envelopes) == 1 or size <= SIZE:
        yield place, envelopes
        return
    index = bisect_left(envelopes, place, key=lambda kept: _number(kept.id))
    quarter = _unit(place) >> 1
    if envelopes[:index]:
        yield from split(place - quarter, envelopes[:index])
    if envelopes[index:]:
        yield from split(place + quarter, envelopes[index:])


def belongs(identifier: bytes, place: int) -> bool:
    """Return whether an id is in the range of a place."""
    return _number(identifier) ^ place < 2 * _unit(place)


def last_id(place: int) -> bytes:
    """Return the highest id in the range of a place."""
    return ((place | (_unit(place) - 1)) >> 8).to_bytes(ID_BYTES, "big")


def part_places(identifier: bytes, length: int) -> Iterator[bytes]:
    """Yield the places, in stored form, of the parts of a payload of this length."""
    for number in range(-(-length // PART)):
        yield identifier + b"\x80" + number.to_bytes(PART_BYTES, "big")


def parts(envelope: Kept) -> Iterator[tuple[bytes, bytes]]:
    """Split a large payload into parts, and yield (stored place, part)."""
    starts = range(0, len(envelope.payload), PART)
    contents = (envelope.payload[start : start + PART].ljust(PART, b"\0") for start in starts)
    yield from zip(part_places(envelope.id, len(envelope.payload)), contents, strict=True)


def place_between(identifier: bytes, neighbours: Iterable[int]) -> int:
    """Return the place of a new bucket for an id: the one with the largest free range."""
    number = _number(identifier)
    bits = min(((number ^ neighbour).bit_length() for neighbour in neighbours), default=BITS + 1)
    unit = 1 << (bits - 2)
    return number & -2 * unit | unit


def place_bytes(place: int) -> bytes:
    return place.to_bytes(PLACE_BYTES, "big").rstrip(b"\0")


def place_of(stored: bytes) -> int:
    return int.from_bytes(stored.ljust(PLACE_BYTES, b"\0"), "big")


def _unit(place: int) -> int:
    """Return the lowest set bit of a place, which is half the size of its range."""
    return place & -place


def _number(identifier: bytes) -> int:
    return int.from_bytes(identifier, "big") << 8
