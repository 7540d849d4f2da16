"""The record of what left this device, for the person whose device it is.

It holds reports, which are randomized, and never an answer. The day is kept, not the hour.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date

from deniable.client.state import Transaction

MOST_KEPT = 1_000


@dataclass(frozen=True)
class Said:
    """About one question of one report."""

    question: str
    epsilon: str
    says: str
    odds: str


@dataclass(frozen=True)
class Entry:
    survey: str
    name: str
    round: int
    day: str
    said: tuple[Said, ...]
    verdict: str
    detail: str


def record(
    db: Transaction, survey: str, name: str, round_: int, day: date, said: Sequence[Said]
) -> None:
    """A report that now waits to be sent. The oldest records make room."""
    text = json.dumps([asdict(each) for each in said], ensure_ascii=False)
    db.execute(
        "INSERT OR REPLACE INTO history (survey, name, round, day, said, verdict, detail)"
        " VALUES (?, ?, ?, ?, ?, 'waiting', '')",
        (survey, name, round_, day.isoformat(), text),
    )
    db.execute(
        "DELETE FROM history WHERE number <= (SELECT max(number) FROM history) - ?", (MOST_KEPT,)
    )


def settle(db: Transaction, survey: str, round_: int, verdict: str, detail: str = "") -> None:
    """What became of a report. What the server said once is not overwritten."""
    db.execute(
        "UPDATE history SET verdict = ?, detail = ?"
        " WHERE survey = ? AND round = ? AND verdict NOT IN ('accepted', 'refused')",
        (verdict, detail, survey, round_),
    )


def entries(db: Transaction) -> list[Entry]:
    """Oldest first."""
    rows = db.execute(
        "SELECT survey, name, round, day, said, verdict, detail FROM history ORDER BY number"
    )
    return [
        Entry(survey, name, round_, day, _said(text), verdict, detail)
        for survey, name, round_, day, text, verdict, detail in rows
    ]


def _said(text: str) -> tuple[Said, ...]:
    return tuple(Said(**each) for each in json.loads(text))
