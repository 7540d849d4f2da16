"""Which envelope is sent next, and how often one is: rarely, in no order, at no moment that tells.

A server that never says yes sees the same id again and again, and so links the addresses from which
it comes. So an envelope is sent ten times at most, and after that once a day at most. A try is
counted before it is made: an app that is ended while it waits for a reply has tried as well. Each
envelope waits for a random moment of its own, and of those that are due any may be the next.
"""

from __future__ import annotations

from datetime import datetime
from random import SystemRandom

from deniable.client.state import Transaction
from deniable.client.state.outbox import THEIRS, QueuedEnvelope

MOST_TRIES = 10
MOST_DRAWN_FROM = 1_000  # so that a hundred thousand that are due are not sorted each time
DAY = 86_400.0
_uniform = SystemRandom().uniform

# Nothing waits of who has withdrawn; still, nothing of theirs leaves.
_AGREED = """EXISTS (SELECT 1 FROM settings
    WHERE settings.person = outbox.person AND name = 'consent' AND value = 'yes')"""

# A moment beyond all that can be drawn now was drawn before the clock was set back.
_READY = ("due <= :now", "due > :farthest", f"tries < {MOST_TRIES} AND number <= :fence")
_CANDIDATES = " UNION ALL ".join(
    f"""SELECT * FROM (SELECT number FROM outbox
        WHERE {THEIRS} AND {_AGREED} AND {ready} LIMIT {MOST_DRAWN_FROM})"""  # noqa: S608 - constants
    for ready in _READY
)


def moment(now: datetime, within: float) -> float:
    """When to send what is queued now, in seconds since 1970."""
    return now.timestamp() + _uniform(0, within)


def take(
    db: Transaction, server: str, now: datetime, fence: int, within: float
) -> QueuedEnvelope | None:
    """Any one that may be sent now, with its try counted. Up to the fence a flush hurries them."""
    query = f"""
        SELECT number, person, survey, round, envelope, due, tries FROM outbox
        WHERE number IN ({_CANDIDATES}) ORDER BY random() LIMIT 1"""  # noqa: S608 - constants
    second = now.timestamp()
    times = {"now": second, "farthest": second + 2 * DAY + within}
    row = db.execute(query, {"server": server, "fence": fence, **times}).fetchone()
    if row is None:
        return None
    *envelope, tries = row
    taken = QueuedEnvelope(*envelope)
    due = taken.due if tries + 1 < MOST_TRIES else second + _uniform(DAY, 1.5 * DAY)
    _update(db, taken, tries + 1, due)
    return taken


def untake(db: Transaction, taken: QueuedEnvelope) -> None:
    """It never reached the server."""
    db.execute(
        "UPDATE outbox SET tries = tries - 1, due = ? WHERE number = ?", (taken.due, taken.number)
    )


def rest(db: Transaction, server: str, now: datetime) -> float | None:
    """Seconds until the next one is due; None if none waits."""
    first = db.execute(
        f"SELECT due FROM outbox WHERE {THEIRS} ORDER BY due LIMIT 1",  # noqa: S608 - a constant
        {"server": server},
    ).fetchone()
    return None if first is None else max(0.0, first[0] - now.timestamp())


def scatter(db: Transaction, server: str, now: datetime, within: float, fence: int) -> None:
    """After a pause many are due at once: each waits for a new moment of its own."""
    due = db.execute(
        f"SELECT number FROM outbox WHERE {THEIRS} AND due <= :now AND number > :fence",  # noqa: S608 - a constant
        {"server": server, "now": now.timestamp(), "fence": fence},
    ).fetchall()
    for (number,) in due:
        db.execute("UPDATE outbox SET due = ? WHERE number = ?", (moment(now, within), number))


def _update(db: Transaction, taken: QueuedEnvelope, tries: int, due: float) -> None:
    db.execute("UPDATE outbox SET tries = ?, due = ? WHERE number = ?", (tries, due, taken.number))
