"""Buckets: envelopes whose ids share a prefix, packed into bytes that reveal no order of arrival.

Separate rows would show which envelope came first, since SQLite puts a new row before the last one
of its page. A bucket holds its envelopes in the order of their ids, padded with zeros to a fixed
size, so that it can be overwritten in place. It starts with their number (u16), followed for each
envelope by

    id (16) · reports - 1 (u16) · length (u32)

and then by the payloads. A bucket that outgrows its size is split by the next bit of its ids, so
the set of buckets depends only on the stored envelopes. No bucket is empty.

The payload of an envelope that is too large for a bucket is stored separately, in parts (see
`part_slots`). In the bucket, its length (u32) and the slots of its parts (u32 each) replace it, and
the length in the entry's head has a mark.

The place of a bucket is the middle of its range of ids: their common prefix, followed by a one bit.
Places sort as ids do.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import Kept

SIZE = 960  # with the rest of its row, a bucket of this size fills a page
PART = 1_964  # size of a part of a large payload; with the rest of its row, it fills two pages
ID_BYTES = 16
PLACE_BYTES = ID_BYTES + 1  # maximum: a place has one bit more than an id
BITS = 8 * PLACE_BYTES
_ROWS = struct.Struct("<H")
_HEAD = struct.Struct(f"<{ID_BYTES}sHI")
MAX_PAYLOAD_BYTES = SIZE - _ROWS.size - _HEAD.size  # larger payloads are stored separately
SEPARATE = 2**31  # mark in the length of a payload that is stored separately
_LENGTH = struct.Struct("<I")
SLOT = struct.Struct("<I")
SLOTS_PER_PART = PART // SLOT.size
MAX_SLOTS = 8  # in an entry; it lists up to 8 * 491 parts, which is more than a request can have

EMPTY = bytes(SIZE)  # never stored


class Separate(bytes):
    """Length of a payload that is stored separately, and its slots, as a bucket holds them."""

    @property
    def length(self) -> int:
        return int(_LENGTH.unpack_from(self)[0])

    @property
    def slots(self) -> list[int]:
        return [slot for (slot,) in SLOT.iter_unpack(self[_LENGTH.size :])]


def entry_of(envelope: Kept) -> Kept:
    """Return the envelope as a bucket holds it; its parts have no slots yet."""
    length = len(envelope.payload)
    if length <= MAX_PAYLOAD_BYTES:
        return envelope
    count = part_count(length)
    slots = count if count <= MAX_SLOTS else -(-count // SLOTS_PER_PART)
    return envelope._replace(payload=Separate(_LENGTH.pack(length) + bytes(slots * SLOT.size)))


def part_count(length: int) -> int:
    """Return the number of parts of a payload of this length, without lists of slots."""
    return -(-length // PART)


def pack(envelopes: Sequence[Kept]) -> bytes:
    """Pack envelopes, given in the order of their ids, into a bucket."""
    heads = map(_head, envelopes)
    payloads = (kept.payload for kept in envelopes)
    return b"".join((_ROWS.pack(len(envelopes)), *heads, *payloads)).ljust(SIZE, b"\0")


def with_one_more(bucket: bytes, envelope: Kept) -> bytes | None:
    """Add an envelope to a packed bucket, with the same result as `pack`.

    Return the same object if the bucket contains the envelope, and None if it does not fit.
    """
    index, is_there = _search(bucket, envelope.id)
    if is_there:
        return bucket
    number, lengths = rows(bucket), _lengths(bucket)
    body = _ROWS.size + number * _HEAD.size
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


def with_slots(
    bucket: bytes, identifier: bytes, slots: Mapping[int, int]
) -> tuple[bytes, Separate]:
    """Change slots of an entry, by their position in it; return the bucket and the new entry."""
    index, is_there = _search(bucket, identifier)
    if not is_there:
        raise Damaged("a part in the store belongs to no envelope")
    lengths, changed = _lengths(bucket), bytearray(bucket)
    start = _ROWS.size + len(lengths) * _HEAD.size + sum(lengths[:index])
    for position, slot in slots.items():
        SLOT.pack_into(changed, start + _LENGTH.size + position * SLOT.size, slot)
    return bytes(changed), Separate(changed[start : start + lengths[index]])


def _search(bucket: bytes, identifier: bytes) -> tuple[int, bool]:
    """Return the index at which an id is or belongs, and whether it is there."""
    number, heads = rows(bucket), bucket[_ROWS.size :]
    index = bisect_left(range(number), identifier, key=lambda row: _id_at(heads, row))
    return index, index < number and _id_at(heads, index) == identifier


def _lengths(bucket: bytes) -> list[int]:
    """Return the lengths of all entries without their heads."""
    heads = bucket[_ROWS.size : _ROWS.size + rows(bucket) * _HEAD.size]
    return [length & ~SEPARATE for _, _, length in _HEAD.iter_unpack(heads)]


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
