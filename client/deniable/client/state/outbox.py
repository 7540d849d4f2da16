"""The outbox: envelopes on disk until it is known what became of them, and what makes their ids.

Each survey has a random key of its own on this device. With it, ids of different rounds and surveys
cannot be linked; without it, nobody can tell any more which envelopes came from here. So it is
destroyed once no report of the survey is taken.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deniable.client.state import Transaction, history
from deniable.client.state.history import Delivery, HistoryEntry
from deniable.client.state.settings import read_setting, write_setting

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope

MOST_WAITING = 500
KEY_BYTES = 32
THEIRS = (
    "server IN (:server, '')"  # what version 1 left names no server: it goes to whoever comes first
)


@dataclass(frozen=True)
class QueuedEnvelope:
    number: int
    survey: str
    round: int
    packed: bytes
    due: float


def put(
    db: Transaction,
    envelope: Envelope,
    until: datetime,
    entry: HistoryEntry,
    server: str,
    due: float = 0.0,
) -> None:
    """One more envelope to send to this server, and its entry in the history. Beyond the bound the
    oldest is dropped and counted."""
    db.execute(
        "INSERT INTO outbox (survey, round, envelope, until, server, due)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (envelope.survey, envelope.round, envelope.pack(), int(until.timestamp()), server, due),
    )
    history.add(db, entry)
    surplus = _count(db) - MOST_WAITING
    if surplus > 0:
        oldest = db.execute("SELECT number FROM outbox ORDER BY number LIMIT ?", (surplus,))
        _remove(db, [number for (number,) in oldest], "dropped", "too many reports were waiting")
        write_setting(db, "dropped", str(dropped(db) + surplus))


def waiting(db: Transaction, server: str, fence: int | None = None) -> int:
    """How many envelopes wait for this server, up to a number."""
    row = db.execute(
        f"SELECT count(*) FROM outbox WHERE {THEIRS} AND (:fence IS NULL OR number <= :fence)",  # noqa: S608 - a constant
        {"server": server, "fence": fence},
    ).fetchone()
    return int(row[0])


def dropped(db: Transaction) -> int:
    return int(read_setting(db, "dropped") or 0)


def newest(db: Transaction) -> int:
    """The number of the last envelope, whoever it is for; 0 if there is none."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM outbox").fetchone()[0])


def finish(db: Transaction, sent: QueuedEnvelope, delivery: Delivery, detail: str = "") -> None:
    """What became of it is known, and kept even if it was withdrawn while it was on its way."""
    history.settle(db, sent.survey, sent.round, delivery, detail)
    db.execute("DELETE FROM outbox WHERE number = ?", (sent.number,))


def survey_key(db: Transaction, survey: str, until: datetime) -> bytes:
    """The key of this survey, made on first use."""
    db.execute(
        "INSERT OR IGNORE INTO survey_keys VALUES (?, ?, ?)",
        (survey, os.urandom(KEY_BYTES), int(until.timestamp())),
    )
    row = db.execute("SELECT key FROM survey_keys WHERE survey = ?", (survey,)).fetchone()
    key = bytes(row[0])
    if len(key) != KEY_BYTES:
        raise ValueError("not as it was written")
    return key


def delete_expired(db: Transaction, now: datetime) -> None:
    """Give up what no server takes any more, as the grace of its round is over, and destroy the
    keys that have passed their time; in the database they are overwritten."""
    second = int(now.timestamp())
    late = db.execute("SELECT number FROM outbox WHERE until <= ?", (second,)).fetchall()
    _remove(db, [number for (number,) in late], "given-up", "it could not be sent in time")
    db.execute("DELETE FROM survey_keys WHERE until <= ?", (second,))


def withdraw_all(db: Transaction) -> None:
    everything = db.execute("SELECT number FROM outbox").fetchall()
    _remove(db, [number for (number,) in everything], "withdrawn", "")


def _count(db: Transaction) -> int:
    return int(db.execute("SELECT count(*) FROM outbox").fetchone()[0])


def _remove(db: Transaction, numbers: list[int], delivery: Delivery, detail: str) -> None:
    for number in numbers:
        rows = db.execute("SELECT survey, round FROM outbox WHERE number = ?", (number,)).fetchall()
        for survey, round_ in rows:
            history.settle(db, survey, round_, delivery, detail)
        db.execute("DELETE FROM outbox WHERE number = ?", (number,))
