"""Drafts: reports of rounds that have not ended, in a file whose slots are overwritten in place.

Where a survey asks over `last`, `any` or `all`, each answer of a round may replace its report until
the round ends (`Question.redraw`). No earlier version may be readable then: two different versions
of an `any` report prove a yes, and copies of a `last` report are several reports. The database and
its log keep old pages, so a draft's bytes are never written to them before the report is frozen.
Until then the outbox row is empty, and names a slot.

A slot holds a checksum and the packed envelope, whose size depends on the survey alone. Each answer
writes it with one call and syncs it, inside a transaction: its lock admits one thread of one
process at a time. If a write is torn, the checksum does not match, and the report is lost: another
one would be a second draw of noise for one state.

1. The charge, the empty row and its slot are durable before noise is drawn.
2. A draft is frozen when it is due, after its round: one durable transaction writes the bytes to
   send into its row, counts the first try and releases the slot. After that nothing is redrawn.
3. A slot that no row names is zeroed after each transaction that deletes private rows, and by the
   first transaction of each connection: a withdrawal, an expiry or a crash leaves such slots. If
   the disk refuses that, the next transaction tries again.

A file system that copies on write, a snapshot or a flash disk may keep old blocks, which no program
can prevent.
"""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.client.state import Transaction, outbox
from deniable.client.state.outbox import QueuedEnvelope
from deniable.shared.errors import InvalidEnvelope, InvalidSurvey

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Survey

BLOCK_BYTES = 512
CHECKSUM_BYTES = 32
DAMAGED = "the report was damaged before it was sent"

_sync = getattr(os, "fdatasync", os.fsync)  # not on every system
_BINARY = getattr(os, "O_BINARY", 0)  # on Windows

# in use, but named by no row of the outbox
_RELEASED = "used AND slot NOT IN (SELECT slot FROM outbox WHERE slot IS NOT NULL)"


class DraftFile:
    """File of slots. Use it only inside a transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, slot: int) -> Envelope | None:
        """Return the envelope in a slot; None if it was never written completely."""
        from deniable.shared.envelope import parse_envelopes

        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            file.seek(slot)
            checksum = file.read(CHECKSUM_BYTES)
            length = int.from_bytes(file.read(4), "little")
            packed = file.read(min(length, self.path.stat().st_size))
        if checksum != _checksum(slot, packed):
            return None
        try:
            (envelope,) = parse_envelopes(packed)
        except (InvalidEnvelope, ValueError):
            return None
        return envelope

    def write(self, slot: int, envelope: Envelope) -> None:
        packed = envelope.pack()
        length = len(packed).to_bytes(4, "little")
        content = _checksum(slot, packed) + length + packed
        self._overwrite(slot, content.ljust(slot_bytes(len(envelope.payload)), b"\0"))

    def clear(self, slot: int, size: int) -> None:
        if self.path.exists():
            self._overwrite(slot, bytes(size))

    def destroy(self) -> None:
        """Zero the whole file, and delete it."""
        if self.path.exists():
            self._overwrite(0, bytes(self.path.stat().st_size))
            self.path.unlink()

    def _overwrite(self, slot: int, content: bytes) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        try:
            os.lseek(file, slot, os.SEEK_SET)
            if os.write(file, content) < len(content):
                raise OSError(f"{self.path.name} could not be written completely")
            _sync(file)
        finally:
            os.close(file)


def slot_bytes(payload_bytes: int) -> int:
    """Return the size of a slot for an envelope with this payload, in whole blocks."""
    from deniable.shared.envelope import HEADER

    needed = CHECKSUM_BYTES + 4 + HEADER.size + payload_bytes
    return -(-needed // BLOCK_BYTES) * BLOCK_BYTES


def take_slot(db: Transaction, person: bytes, survey: Survey, id_: str) -> int:
    """Return a slot for a report of this survey, and keep the document to freeze it with."""
    from deniable.shared.survey.document import render_document

    until = int(survey.taken_until(survey.last_round).timestamp())
    db.execute(
        "INSERT OR IGNORE INTO draft_surveys VALUES (?, ?, ?, ?)",
        (person, id_, render_document(survey), until),
    )
    size = slot_bytes(survey.report_size)
    free = db.execute(
        "SELECT slot FROM slots WHERE NOT used AND size = ? LIMIT 1", (size,)
    ).fetchone()
    end = db.execute("SELECT slot + size FROM slots ORDER BY slot DESC LIMIT 1").fetchone()
    slot = int((free or end or (0,))[0])
    db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, 1)", (slot, size))
    return slot


def clear_released_slots(db: Transaction, drafts: DraftFile) -> None:
    """Zero the slots that no row of the outbox names."""
    db.execute("BEGIN IMMEDIATE")
    released = db.execute(f"SELECT slot, size FROM slots WHERE {_RELEASED}").fetchall()  # noqa: S608 - a constant
    for slot, size in released:
        drafts.clear(slot, size)
        db.execute("UPDATE slots SET used = 0 WHERE slot = ?", (slot,))
    db.execute("COMMIT")


def freeze(db: Transaction, drafts: DraftFile, taken: QueuedEnvelope) -> QueuedEnvelope | None:
    """Write the bytes to send into a draft's row, and the report into the history.

    Return None, and give up the report, if its slot or its survey is damaged.
    """
    from deniable.shared.envelope import decode_report
    from deniable.shared.survey.document import parse_document

    envelope = draft_of(drafts, taken)
    row = db.execute(
        "SELECT document FROM draft_surveys WHERE person = ? AND survey = ?",
        (taken.person, taken.survey),
    ).fetchone()
    db.erased = True  # the slot is released
    try:
        if envelope is None or row is None:
            raise InvalidEnvelope("bad-payload", DAMAGED)
        survey = parse_document(row[0])
        symbols = decode_report(survey, envelope.payload)
    except (InvalidEnvelope, InvalidSurvey):
        outbox.finish(db, taken, "given-up", DAMAGED)
        return None
    packed = pack_envelope(survey, envelope)
    outbox.freeze(db, taken, packed, outbox.describe_envelope(survey, envelope.payload, symbols))
    return taken._replace(packed=packed, slot=None)


def draft_of(drafts: DraftFile, row: QueuedEnvelope) -> Envelope | None:
    """Return the envelope of a draft; None if it is frozen or damaged."""
    envelope = None if row.slot is None else drafts.read(row.slot)
    if envelope is None or (envelope.survey, envelope.round) != (row.survey, row.round):
        return None
    return envelope


def pack_envelope(survey: Survey, envelope: Envelope) -> bytes:
    """Return the bytes to send on every try, which are sealed if the survey has a key."""
    if survey.sealed_to is None:
        return envelope.pack()
    from deniable.shared.sealed_envelope import seal

    return seal(envelope, survey.sealed_to).pack()


def due_after_round(survey: Survey, round_: int) -> float:
    """Draw the time at which a draft leaves, in seconds since 1970."""
    ends: datetime = survey.round_ends(round_)
    return outbox.random_moment(ends, (survey.leaves_until(round_) - ends).total_seconds())


def _checksum(slot: int, packed: bytes) -> bytes:
    return hashlib.sha256(slot.to_bytes(8, "little") + packed).digest()
