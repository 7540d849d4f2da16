"""The schedule of sending: which envelope is sent next, and how often it is tried.

A server that never accepts an envelope sees the same id again and again, and can link the addresses
it comes from. So an envelope is sent at most ten times, and after that at most once a day. A try is
counted before it is made: an app that ends while it waits for a reply has tried as well. Each
envelope waits for a random moment, and any of those that are due may be next.
"""

from __future__ import annotations

from datetime import datetime
from random import SystemRandom

from deniable.client.state import Transaction
from deniable.client.state.outbox import SENDABLE, QueuedEnvelope, random_moment

MAX_TRIES = 10
MAX_CANDIDATES = 1_000  # so that a hundred thousand due envelopes are not sorted each time
DAY_SECONDS = 86_400.0
_uniform = SystemRandom().uniform

# A moment after `latest` was drawn before the clock was set back.
_READY = ("due <= :now", "due > :latest", f"tries < {MAX_TRIES} AND number <= :up_to")
_CANDIDATES = " UNION ALL ".join(
    f"""SELECT * FROM (SELECT number FROM outbox
        WHERE {SENDABLE} AND {ready} LIMIT {MAX_CANDIDATES})"""  # noqa: S608 - constants
    for ready in _READY
)


def take(
    db: Transaction, server: str, now: datetime, up_to: int, within: float
) -> QueuedEnvelope | None:
    """Return an envelope that may be sent now, and count the try.

    A flush hurries all envelopes up to its number.
    """
    query = f"""
        SELECT number, person, survey, round, envelope, due, tries FROM outbox
        WHERE number IN ({_CANDIDATES}) ORDER BY random() LIMIT 1"""  # noqa: S608 - constants
    second = now.timestamp()
    times = {"now": second, "latest": second + 2 * DAY_SECONDS + within}
    row = db.execute(query, {"server": server, "up_to": up_to, **times}).fetchone()
    if row is None:
        return None
    *envelope, tries = row
    taken = QueuedEnvelope(*envelope)
    last = tries + 1 >= MAX_TRIES
    due = second + _uniform(DAY_SECONDS, 1.5 * DAY_SECONDS) if last else taken.due
    db.execute(
        "UPDATE outbox SET tries = ?, due = ? WHERE number = ?", (tries + 1, due, taken.number)
    )
    return taken


def restore_try(db: Transaction, taken: QueuedEnvelope) -> None:
    """Undo the count of a try that never reached the server."""
    db.execute(
        "UPDATE outbox SET tries = tries - 1, due = ? WHERE number = ?", (taken.due, taken.number)
    )


def seconds_until_due(db: Transaction, server: str, now: datetime) -> float | None:
    """Return the seconds until the next envelope is due; None if none waits."""
    first = db.execute(
        f"SELECT due FROM outbox WHERE {SENDABLE} ORDER BY due LIMIT 1",  # noqa: S608 - a constant
        {"server": server},
    ).fetchone()
    return None if first is None else max(0.0, first[0] - now.timestamp())


def reschedule(db: Transaction, server: str, now: datetime, within: float, up_to: int) -> None:
    """Give each due envelope after a number a new random moment: after a pause, many are due."""
    due = db.execute(
        f"SELECT number FROM outbox WHERE {SENDABLE} AND due <= :now AND number > :up_to",  # noqa: S608 - a constant
        {"server": server, "now": now.timestamp(), "up_to": up_to},
    ).fetchall()
    for (number,) in due:
        moment = random_moment(now, within)
        db.execute("UPDATE outbox SET due = ? WHERE number = ?", (moment, number))
