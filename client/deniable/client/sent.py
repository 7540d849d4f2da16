"""What `deniable sent` shows: every report of this install in words, and what was spent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from deniable.client.consent import Consent
from deniable.client.state import outbox
from deniable.client.state.connection import State
from deniable.client.state.history import Entry, entries
from deniable.client.state.ledger import Ledger, read_ledger
from deniable.shared.privacy.epsilon import decimal_text

VERDICTS = {
    "waiting": "waits to be sent",
    "accepted": "sent, and the server took it",
    "refused": "sent, and the server refused it",
    "given-up": "not sent",
    "dropped": "not sent",
    "withdrawn": "deleted before it was sent, because consent was withdrawn",
}


@dataclass(frozen=True)
class Record:
    consent: bool = False
    entries: tuple[Entry, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    dropped: int = 0


def read_record(folder: str | os.PathLike[str]) -> Record:
    state = State(folder)
    if not state.begun:
        return Record()
    with state.transaction() as db:
        given = Consent().obstacle(db) is None
        return Record(given, tuple(entries(db)), read_ledger(db), outbox.dropped(db))


def as_json(record: Record) -> dict[str, Any]:  # Any: a JSON document
    spent = record.ledger.questions
    return {
        "consent": record.consent,
        "reports": [asdict(entry) for entry in record.entries],
        "dropped": record.dropped,
        "spent": {
            "epsilon": decimal_text(record.ledger.total),
            "questions": {name: decimal_text(cost) for name, cost in sorted(spent.items())},
        },
    }


def as_text(record: Record) -> Iterator[str]:
    yield f"Consent: {'given' if record.consent else 'not given; nothing is recorded or sent'}."
    if not record.entries:
        yield "No report is on record: nothing was sent, or the record was erased."
    for entry in record.entries:
        yield from _entry_lines(entry)
    if record.dropped:
        yield f"\n{record.dropped} reports were dropped because too many were waiting."
    if record.ledger.questions:
        yield from _spent_lines(record.ledger)


def _entry_lines(entry: Entry) -> Iterator[str]:
    fate = VERDICTS.get(entry.verdict, entry.verdict)
    reason = f" ({entry.detail})" if entry.detail else ""
    yield f"\n{entry.day}  {entry.name}, round {entry.round}: {fate}{reason}"
    for part in entry.said:
        yield f"    {part.question}: says {part.says}; {part.odds} (ε {part.epsilon})"


def _spent_lines(ledger: Ledger) -> Iterator[str]:
    yield f"\nSpent so far: ε {decimal_text(ledger.total)} over all surveys and rounds."
    for name, cost in sorted(ledger.questions.items()):
        yield f"    {name}: ε {decimal_text(cost)}"
