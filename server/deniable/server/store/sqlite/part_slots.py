"""Slots for the parts of large payloads, in an order that shows nothing about their arrival.

SQLite adds pages at the end of its file. A part that stayed in its first page would therefore show
when it arrived. Instead, each slot has pages of its own, and a new part takes a random slot: one of
the existing slots, or a new one at the end. The part that had this slot moves to the new one. After
each insertion, all orders of the parts are equally likely, whatever the order of arrival: this is
the "inside-out" form of the Fisher-Yates shuffle. If a part is deleted, the last one takes its
slot, so slots have no gaps.

An envelope's entry in its bucket lists the slots of its parts. A payload with more than `MAX_SLOTS`
parts also has parts that list the slots of the others, and the entry lists only the slots of these.
They are numbered after the other parts.

All rows have the same size, so that SQLite overwrites them in place. A row consists of

    survey (u32) · round (u32) · envelope id (16) · payload length (u32) · number of the part (u16)

and of the part's content, padded with zeros, and a digest of the slot and of everything else.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from secrets import randbelow
from typing import Any, NamedTuple

from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import DIGEST_BYTES, Kept, Round, digest_of
from deniable.server.store.sqlite.bucket import MAX_SLOTS, PART, SLOT, SLOTS_PER_PART, part_count

DAMAGED = "envelopes in the store are damaged"
_HEAD = struct.Struct("<II16sIH")

LAST = "SELECT coalesce(max(slot), 0) FROM parts"
FIND = "SELECT content FROM parts WHERE slot = ?"
PUT = """
INSERT INTO parts VALUES (?, ?) ON CONFLICT (slot) DO UPDATE SET content = excluded.content
"""
OF_ROUND = f"SELECT slot FROM parts WHERE substr(content, 1, {2 * SLOT.size}) = ?"
DELETE = "DELETE FROM parts WHERE slot = ?"


class Owner(NamedTuple):
    """Envelope to which a part belongs."""

    survey: int
    round: int
    id: bytes
    length: int  # of the payload, in bytes


class Part(NamedTuple):
    owner: Owner
    number: int
    content: bytes = bytes(PART)

    def pack(self, slot: int) -> bytes:
        content = _HEAD.pack(*self.owner, self.number) + self.content
        return content + digest_of(slot, content)


# Changes slots in an envelope's entry, by their position there, and returns all slots of the entry.
ListSlots = Callable[[Owner, Mapping[int, int]], Sequence[int]]


def insert_parts(
    driver: sqlite3.Connection, of: Round, envelopes: Iterable[Kept], list_slots: ListSlots
) -> None:
    """Insert the parts of new envelopes, whose entries exist already."""
    parts = [part for envelope in envelopes for part in _parts(of, envelope)]
    placed: dict[int, Part] = {}
    for end, part in enumerate(parts, _last_slot(driver) + 1):
        slot = 1 + randbelow(end)
        if slot in placed:
            placed[end] = placed[slot]
        elif slot != end:
            try:
                placed[end] = _movable_part(driver, slot, list_slots)
            except (Damaged, StoreLost):  # leave the slot as it is
                slot = end
        placed[slot] = part
    _write(driver, placed, list_slots)


def delete_parts(driver: sqlite3.Connection, slots: Collection[int], list_slots: ListSlots) -> None:
    """Delete the parts in these slots, and move the last parts into them.

    If a part that has to move is damaged, or its entry is, leave the slots empty instead.
    """
    driver.execute("SAVEPOINT moving")
    try:
        freed, moved, last = set(slots), dict[int, Part](), _last_slot(driver)
        for slot in sorted(slots):
            while last in freed:
                last -= 1
            if last < slot:
                break
            moved[slot] = part_at(driver, last)
            freed.add(last)
        driver.executemany(DELETE, [(slot,) for slot in freed - moved.keys()])
        _write(driver, moved, list_slots)
    except (Damaged, StoreLost):
        driver.execute("ROLLBACK TO moving")
        driver.executemany(DELETE, [(slot,) for slot in slots])
    driver.execute("RELEASE moving")


def read_payload(driver: sqlite3.Connection, owner: Owner, slots: Sequence[int]) -> bytes:
    """Return a payload; its entry lists these slots."""
    listed = _listed(driver, owner, slots) or slots
    parts = (_checked_part(driver, slot, owner, n).content for n, slot in enumerate(listed))
    return b"".join(parts)[: owner.length]


def all_slots(driver: sqlite3.Connection, owner: Owner, slots: Sequence[int]) -> list[int]:
    """Return the slots of all parts of a payload; its entry lists these slots."""
    return [*slots, *_listed(driver, owner, slots)]


def slots_of_round(driver: sqlite3.Connection, of: Round) -> list[int]:
    """Return the slots of all parts of a round. This reads the whole table."""
    begin = b"".join(map(SLOT.pack, of))
    return [slot for (slot,) in driver.execute(OF_ROUND, (begin,))]


def part_at(driver: sqlite3.Connection, slot: int) -> Part:
    """Return the part in a slot; raise Damaged if it is not what was written."""
    row = driver.execute(FIND, (slot,)).fetchone()
    return unpacked_part(slot, row[0] if row else b"")


def _movable_part(driver: sqlite3.Connection, slot: int, list_slots: ListSlots) -> Part:
    """Return the part in a slot; raise an error unless what lists its slot can be read as well."""
    part = part_at(driver, slot)
    in_entry, count = list_slots(part.owner, {}), part_count(part.owner.length)
    if part.number < count > MAX_SLOTS:
        part_at(driver, in_entry[part.number // SLOTS_PER_PART])
    return part


def unpacked_part(slot: int, row: Any) -> Part:  # Any: damage can change the type of the column
    """Unpack the part in a slot; raise Damaged if it is not what was written."""
    if type(row) is not bytes or digest_of(slot, row[:-DIGEST_BYTES]) != row[-DIGEST_BYTES:]:
        raise Damaged(DAMAGED)
    *owner, number = _HEAD.unpack_from(row)
    return Part(Owner(*owner), number, row[_HEAD.size : -DIGEST_BYTES])


def _last_slot(driver: sqlite3.Connection) -> int:
    return int(driver.execute(LAST).fetchone()[0])


def _parts(of: Round, envelope: Kept) -> Iterator[Part]:
    """Yield the parts of an envelope; the slots in its lists are not known yet."""
    owner = Owner(*of, envelope.id, len(envelope.payload))
    count = part_count(owner.length)
    for number in range(count):
        content = envelope.payload[number * PART : (number + 1) * PART]
        yield Part(owner, number, content.ljust(PART, b"\0"))
    if count > MAX_SLOTS:
        for number in range(-(-count // SLOTS_PER_PART)):
            yield Part(owner, count + number)


def _write(driver: sqlite3.Connection, placed: Mapping[int, Part], list_slots: ListSlots) -> None:
    """Write parts to slots, and list these slots in their envelopes' entries and lists."""
    changed = dict(placed)
    slots_by_owner: dict[Owner, dict[int, int]] = {}
    for slot, part in placed.items():
        slots_by_owner.setdefault(part.owner, {})[part.number] = slot
    for owner, slots in slots_by_owner.items():
        count = part_count(owner.length)
        first = count if count > MAX_SLOTS else 0  # the first part that the entry lists
        in_entry = list_slots(owner, {n - first: slot for n, slot in slots.items() if n >= first})
        for number in slots.keys() & range(first):
            index, place = divmod(number, SLOTS_PER_PART)
            at = in_entry[index]
            part = changed.get(at) or part_at(driver, at)
            changed[at] = _with_slot(part, place, slots[number])
    driver.executemany(PUT, [(slot, part.pack(slot)) for slot, part in sorted(changed.items())])


def _with_slot(part: Part, place: int, slot: int) -> Part:
    at = place * SLOT.size
    content = part.content[:at] + SLOT.pack(slot) + part.content[at + SLOT.size :]
    return part._replace(content=content)


def _listed(driver: sqlite3.Connection, owner: Owner, slots: Sequence[int]) -> list[int]:
    """Return the slots that a payload's lists contain; nothing if it has no lists."""
    count = part_count(owner.length)
    if count <= MAX_SLOTS:
        return []
    lists = (_checked_part(driver, slot, owner, count + n) for n, slot in enumerate(slots))
    content = b"".join(part.content for part in lists)
    return [slot for (slot,) in SLOT.iter_unpack(content[: count * SLOT.size])]


def _checked_part(driver: sqlite3.Connection, slot: int, owner: Owner, number: int) -> Part:
    part = part_at(driver, slot)
    if (part.owner, part.number) != (owner, number):
        raise Damaged(DAMAGED)
    return part
