"""Cache of each server's list of surveys, as last fetched and verified, and of forecast outcomes.

If an entry is unreadable, the list is fetched again. In a forecast outcome, nothing is charged or
sent, so forging one achieves no more than withdrawing consent in the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import date, datetime
from typing import Any, NamedTuple

from deniable.client.outcome import Outcome
from deniable.client.state import Transaction
from deniable.client.state.ledger import OWN, read_setting, write_setting

PAUSE = "pause"  # begins the name of a setting
ForecastDay = tuple[date, Outcome | None]  # the outcome from a day on, unless it is open


class ListedSurvey(NamedTuple):
    """Entry of the list, with its fields in the order of the table's columns.

    An entry with a problem has no document. Two fields are not columns: `closes` is the end of the
    last day, and `epochs` holds pairs of a round and its signed epoch.
    """

    id: str
    position: int
    name: str
    state: str
    document: bytes | None
    signature: str
    key: str
    problem: str | None = None
    closes: datetime | None = None
    epochs: tuple[tuple[int, int], ...] = ()


class KeptList(NamedTuple):
    """List of a server, and the time of its fetch in seconds since 1970; None without a list."""

    surveys: tuple[ListedSurvey, ...] = ()
    fetched: int | None = None

    def is_fresh(self, now: datetime, seconds: int) -> bool:
        """Return whether it was fetched in the last `seconds`, unless the clock was set back."""
        return self.fetched is not None and 0 <= now.timestamp() - self.fetched < seconds


class Pause(NamedTuple):
    """Pause after failed fetches from a server. It outlives the process."""

    failures: int = 0  # in a row
    until: float = 0.0  # in seconds since 1970


def keep_list(
    db: Transaction, server: str, surveys: Sequence[ListedSurvey], policy: str, now: datetime
) -> None:
    """Replace this server's list. `policy` is the fingerprint of the policy that verified it."""
    db.lock(OWN)
    _remember_closed(db, surveys, now)
    for table in ("surveys", "lists", "epochs"):
        db.execute(f"DELETE FROM {table} WHERE server = ?", (server,))  # noqa: S608 - see above
    for survey in {survey.id: survey for survey in surveys}.values():
        row = (server, *survey[:-2])
        db.execute("INSERT INTO surveys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for epoch in survey.epochs:
            db.execute("INSERT INTO epochs VALUES (?, ?, ?, ?)", (server, survey.id, *epoch))
    db.execute("INSERT INTO lists VALUES (?, ?, ?)", (server, int(now.timestamp()), policy))


def kept_list(db: Transaction, server: str, policy: str) -> KeptList:
    """Return this server's list, unless it was verified under another policy."""
    row = db.execute(
        "SELECT fetched FROM lists WHERE server = ? AND policy = ?", (server, policy)
    ).fetchone()
    if row is None:
        return KeptList()
    query = (
        "SELECT id, listed, name, CASE WHEN survey IS NULL THEN state ELSE 'closed' END, document,"
        " signature, key, problem FROM surveys LEFT JOIN closed ON survey = id"
        " WHERE server = ? ORDER BY listed"
    )
    try:
        surveys = tuple(_survey(values) for values in db.execute(query, (server,)).fetchall())
        return KeptList(surveys, int(row[0]))
    except ValueError:
        return KeptList()


def keep_pause(db: Transaction, server: str, pause: Pause) -> None:
    """Store a pause, as one of the settings of the install."""
    name = f"{PAUSE} {server}"
    db.execute("DELETE FROM settings WHERE person = ? AND name = ?", (OWN, name))
    if pause.failures:
        value = f"{pause.failures} {pause.until}"
        db.execute("INSERT INTO settings VALUES (?, ?, ?)", (OWN, name, value))


def kept_pause(db: Transaction, server: str) -> Pause:
    try:
        failures, until = (read_setting(db, OWN, f"{PAUSE} {server}") or "0 0").split()
        return Pause(int(failures), float(until))
    except ValueError:
        return Pause()


FORESEEN = ("not-drawn", "already-answered")


def keep_forecast(db: Transaction, wanted: str, basis: str, days: Iterable[ForecastDay]) -> None:
    """Store the outcomes of the coming days; `basis` is a hash of everything that decides them."""
    rows = [(day.isoformat(), outcome and astuple(outcome)[:4]) for day, outcome in days]
    write_setting(db, OWN, f"forecast {wanted}", json.dumps([basis, rows]))


def forecast(db: Transaction, wanted: str, basis: str, today: date) -> Outcome | None:
    """Return the outcome of a day, if it was stored on the same basis and can be read."""
    try:
        kept, rows = json.loads(read_setting(db, OWN, f"forecast {wanted}") or '["", []]')
        begun = [fields for day, fields in rows if day <= today.isoformat()]
        outcome = Outcome(*begun[-1]) if kept == basis and begun and begun[-1] else None
    except (ValueError, TypeError, RecursionError):
        return None
    return outcome if outcome and outcome.status in FORESEEN else None


def _remember_closed(db: Transaction, surveys: Sequence[ListedSurvey], now: datetime) -> None:
    """Record closed surveys: an entry's state is not signed, so a later list must not reopen it."""
    db.execute("DELETE FROM closed WHERE until <= ?", (int(now.timestamp()),))
    for survey in surveys:
        if survey.state == "closed" and survey.closes is not None and survey.closes > now:
            until = int(survey.closes.timestamp())
            row = (survey.id, until)
            db.execute("INSERT INTO closed VALUES (?, ?) ON CONFLICT DO NOTHING", row)


def _survey(row: tuple[Any, ...]) -> ListedSurvey:  # Any: SQLite's kinds of value
    """Convert a row; raise ValueError if a value has an unexpected type."""
    listed = ListedSurvey(*row)
    texts = (listed.id, listed.name, listed.state, listed.signature, listed.key)
    if not (
        all(isinstance(text, str) for text in texts)
        and isinstance(row[1], int)
        and isinstance(row[4], bytes | None)
    ):
        raise ValueError("a listed survey is damaged")
    return listed
