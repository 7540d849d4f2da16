"""The outbox: envelopes on disk, from the moment they are made until their fate is known."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deniable.client.state.connection import read_setting, write_setting
from deniable.client.state.history import settle

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope

MOST_WAITING = 500


@dataclass(frozen=True)
class Waiting:
    number: int
    survey: str
    round: int
    envelope: bytes


def put(db: sqlite3.Connection, envelope: Envelope, until: int) -> None:
    """One more envelope to send. Beyond the bound the oldest is dropped, counted and recorded."""
    db.execute(
        "INSERT INTO outbox (survey, round, envelope, until) VALUES (?, ?, ?, ?)",
        (envelope.survey, envelope.round, envelope.pack(), until),
    )
    surplus = waiting(db) - MOST_WAITING
    if surplus > 0:
        oldest = db.execute("SELECT number FROM outbox ORDER BY number LIMIT ?", (surplus,))
        _remove(db, [number for (number,) in oldest], "dropped", "too many reports were waiting")
        write_setting(db, "dropped", str(dropped(db) + surplus))


def waiting(db: sqlite3.Connection, fence: int | None = None) -> int:
    """How many envelopes wait, up to a number."""
    row = db.execute(
        "SELECT count(*) FROM outbox WHERE ? IS NULL OR number <= ?", (fence, fence)
    ).fetchone()
    return int(row[0])


def dropped(db: sqlite3.Connection) -> int:
    return int(read_setting(db, "dropped") or 0)


def newest(db: sqlite3.Connection) -> int:
    """The number of the last envelope; 0 if there is none."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM outbox").fetchone()[0])


def oldest(db: sqlite3.Connection) -> Waiting | None:
    row = db.execute(
        "SELECT number, survey, round, envelope FROM outbox ORDER BY number LIMIT 1"
    ).fetchone()
    return None if row is None else Waiting(*row)


def finish(db: sqlite3.Connection, sent: Waiting, verdict: str, detail: str = "") -> None:
    """Its fate is known, and recorded even if it was withdrawn while it was on its way."""
    settle(db, sent.survey, sent.round, verdict, detail)
    db.execute("DELETE FROM outbox WHERE number = ?", (sent.number,))


def give_up_late(db: sqlite3.Connection, now: int) -> None:
    """Drop what no server takes any more: the grace of its round is over."""
    late = db.execute("SELECT number FROM outbox WHERE until <= ?", (now,)).fetchall()
    _remove(db, [number for (number,) in late], "given-up", "it could not be sent in time")


def withdraw_all(db: sqlite3.Connection) -> None:
    everything = db.execute("SELECT number FROM outbox").fetchall()
    _remove(db, [number for (number,) in everything], "withdrawn", "")


def _remove(db: sqlite3.Connection, numbers: list[int], verdict: str, detail: str) -> None:
    for number in numbers:
        rows = db.execute("SELECT survey, round FROM outbox WHERE number = ?", (number,)).fetchall()
        for survey, round_ in rows:
            settle(db, survey, round_, verdict, detail)
        db.execute("DELETE FROM outbox WHERE number = ?", (number,))
