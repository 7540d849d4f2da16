"""The outbox: envelopes on disk until it is known what became of them, and what makes their ids.

Each person has a random key for each survey. With it, ids of different rounds and surveys
cannot be linked; without it, nobody can tell any more which envelopes came from here. So it is
destroyed once no report of the survey is taken.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deniable.client.state import Transaction, history, kept_reports
from deniable.client.state.history import Delivery, HistoryEntry
from deniable.client.state.people import OWN
from deniable.client.state.settings import read_setting, write_setting

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope

MOST_WAITING = 500  # of one person: nobody who answers much pushes out what others have said
MOST_IN_ALL = 100_000
COUNTED_EACH = 100  # all are counted with every so manieth envelope, as that takes a while
KEY_BYTES = 32
# What version 1 left names no server: it goes to whoever comes first.
THEIRS = "server IN (:server, '')"


@dataclass(frozen=True)
class QueuedEnvelope:
    number: int
    person: bytes
    survey: str
    round: int
    packed: bytes
    due: float


def put(
    db: Transaction,
    person: bytes,
    envelope: Envelope,
    packed: bytes,
    until: datetime,
    entry: HistoryEntry,
    server: str,
    due: float = 0.0,
) -> None:
    """One more envelope to send to this server, and its entry in the history. Beyond the bounds
    the oldest of the person, and then of all, are dropped and counted."""
    number = db.execute(
        "INSERT INTO outbox (person, survey, round, envelope, until, server, due)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (person, envelope.survey, envelope.round, packed, int(until.timestamp()), server, due),
    ).lastrowid
    history.add(db, entry, person)
    _drop(db, "WHERE person = ?", (person,), MOST_WAITING)
    if (number or 0) % COUNTED_EACH == 0:
        _drop(db, "", (), MOST_IN_ALL)


def _drop(db: Transaction, which: str, values: tuple[bytes, ...], most: int) -> None:
    (count,) = db.execute(f"SELECT count(*) FROM outbox {which}", values).fetchone()  # noqa: S608
    if count <= most:
        return
    oldest = db.execute(
        f"SELECT number, person FROM outbox {which} ORDER BY number LIMIT ?",  # noqa: S608 - see put
        (*values, count - most),
    ).fetchall()
    _remove(db, [number for number, _ in oldest], "dropped", "too many reports were waiting")
    for person, losses in Counter(person for _, person in oldest).items():
        write_setting(db, person, "dropped", str(dropped(db, person) + losses))


def waiting(db: Transaction, server: str, fence: int | None = None) -> int:
    """How many envelopes wait for this server, up to a number."""
    row = db.execute(
        f"SELECT count(*) FROM outbox WHERE {THEIRS} AND (:fence IS NULL OR number <= :fence)",  # noqa: S608 - a constant
        {"server": server, "fence": fence},
    ).fetchone()
    return int(row[0])


def dropped(db: Transaction, person: bytes = OWN) -> int:
    return int(read_setting(db, person, "dropped") or 0)


def newest(db: Transaction) -> int:
    """The number of the last envelope, whoever it is for; 0 if there is none."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM outbox").fetchone()[0])


def finish(db: Transaction, sent: QueuedEnvelope, delivery: Delivery, detail: str = "") -> None:
    """What became of it is known, and kept even if it was withdrawn while it was on its way."""
    history.settle(db, sent.person, sent.survey, sent.round, delivery, detail)
    db.execute("DELETE FROM outbox WHERE number = ?", (sent.number,))


def survey_key(db: Transaction, person: bytes, survey: str, until: datetime) -> bytes:
    """A person's key of this survey, made on first use."""
    db.execute(
        "INSERT OR IGNORE INTO survey_keys VALUES (?, ?, ?, ?)",
        (person, survey, os.urandom(KEY_BYTES), int(until.timestamp())),
    )
    row = db.execute(
        "SELECT key FROM survey_keys WHERE person = ? AND survey = ?", (person, survey)
    ).fetchone()
    key = bytes(row[0])
    if len(key) != KEY_BYTES:
        raise ValueError("not as it was written")
    return key


def delete_expired(db: Transaction, now: datetime) -> None:
    """Give up what no server takes any more, as the grace of its round is over, and destroy the
    keys and kept reports that have passed their time; in the database they are overwritten."""
    second = int(now.timestamp())
    kept_reports.delete_expired(db, second)
    late = db.execute("SELECT number FROM outbox WHERE until <= ?", (second,)).fetchall()
    _remove(db, [number for (number,) in late], "given-up", "it could not be sent in time")
    if db.execute("DELETE FROM survey_keys WHERE until <= ?", (second,)).rowcount or late:
        db.erased = True


def withdraw_all(db: Transaction, person: bytes) -> None:
    """Delete what a person has not sent yet, and what would be sent again."""
    kept_reports.delete_theirs(db, person)
    theirs = db.execute("SELECT number FROM outbox WHERE person = ?", (person,)).fetchall()
    _remove(db, [number for (number,) in theirs], "withdrawn", "")
    db.erased = True


def _remove(db: Transaction, numbers: list[int], delivery: Delivery, detail: str) -> None:
    for number in numbers:
        query = "SELECT person, survey, round FROM outbox WHERE number = ?"
        for person, survey, round_ in db.execute(query, (number,)).fetchall():
            history.settle(db, person, survey, round_, delivery, detail)
        db.execute("DELETE FROM outbox WHERE number = ?", (number,))
