"""The history of what left this device, for the person whose device it is.

It holds reports, which are randomized, and never an answer. The day is kept, not the hour.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from deniable.client.state import Transaction
from deniable.client.state.people import OWN

if TYPE_CHECKING:
    from deniable.shared.survey.kinds.base import Question

MOST_KEPT = 1_000
MOST_TEXT = 200  # characters of what one symbol says
Delivery = Literal["waiting", "accepted", "relayed", "refused", "given-up", "dropped", "withdrawn"]


@dataclass(frozen=True)
class ReportedSymbol:
    """What a report says about one question, in words. Its fields are keys on disk and in JSON."""

    question: str
    epsilon: str
    says: str
    odds: str
    drawn_from: int = 1  # so many questions, of which only this one was asked
    repeats: int | None = None  # the round whose report is sent again


@dataclass(frozen=True)
class HistoryEntry:
    """One report. `symbols` and `delivery` are the columns `said` and `verdict`."""

    survey: str
    name: str
    round: int
    day: str
    symbols: tuple[ReportedSymbol, ...]
    delivery: Delivery = "waiting"
    detail: str = ""


def reported(
    questions: Iterable[Question],
    symbols: Iterable[int | None],
    drawn_from: int = 1,
    repeats: int | None = None,
) -> tuple[ReportedSymbol, ...]:
    """What a report says, question by question, and how far that can be believed."""
    pairs = zip(questions, symbols, strict=True)
    return tuple(
        _reported(question, symbol, drawn_from, repeats)
        for question, symbol in pairs
        if symbol is not None
    )


def _reported(
    question: Question, symbol: int, drawn_from: int, repeats: int | None
) -> ReportedSymbol:
    text, odds = question.describe(symbol), question.mechanism.explain(symbol)
    says = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
    return ReportedSymbol(question.name, str(question.epsilon), says, odds, drawn_from, repeats)


def add(db: Transaction, entry: HistoryEntry, person: bytes = OWN) -> None:
    """A report that is queued now. The person's oldest entries make room."""
    said = json.dumps([asdict(each) for each in entry.symbols], ensure_ascii=False)
    db.execute(
        "INSERT OR REPLACE INTO history"
        " (person, survey, name, round, day, said, verdict, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            person,
            entry.survey,
            entry.name,
            entry.round,
            entry.day,
            said,
            entry.delivery,
            entry.detail,
        ),
    )
    db.execute(
        "DELETE FROM history WHERE person = :person AND number <= (SELECT number FROM history"
        " WHERE person = :person ORDER BY number DESC LIMIT 1 OFFSET :most)",
        {"person": person, "most": MOST_KEPT},
    )


def settle(
    db: Transaction,
    person: bytes,
    survey: str,
    round_: int,
    delivery: Delivery,
    detail: str = "",
) -> None:
    """What became of a report. What the server said once is not overwritten."""
    db.execute(
        "UPDATE history SET verdict = ?, detail = ?"
        " WHERE person = ? AND survey = ? AND round = ? AND verdict NOT IN"
        " ('accepted', 'relayed', 'refused')",
        (delivery, detail, person, survey, round_),
    )


def entries(db: Transaction, person: bytes = OWN) -> list[HistoryEntry]:
    """A person's, oldest first."""
    rows = db.execute(
        "SELECT survey, name, round, day, said, verdict, detail FROM history"
        " WHERE person = ? ORDER BY number",
        (person,),
    )
    return [
        HistoryEntry(survey, name, round_, day, _symbols(said), delivery, detail)
        for survey, name, round_, day, said, delivery, detail in rows
    ]


def _symbols(said: str) -> tuple[ReportedSymbol, ...]:
    return tuple(ReportedSymbol(**each) for each in json.loads(said))
