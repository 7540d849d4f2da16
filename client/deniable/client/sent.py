"""What `deniable sent` shows: every report of this install in words, and what was spent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from deniable.client.consent import Consent
from deniable.client.escaping import escaped
from deniable.client.state import outbox
from deniable.client.state.connection import State
from deniable.client.state.history import HistoryEntry, entries
from deniable.client.state.ledger import Ledger, read_ledger
from deniable.client.state.people import Identity, known
from deniable.shared.privacy.epsilon import decimal_text

DELIVERIES = {
    "waiting": "waiting to be sent",
    "accepted": "sent, and the server took it",
    "relayed": "sent to the relay, which passes it on among others",
    "refused": "sent, and the server refused it",
    "given-up": "not sent",
    "dropped": "not sent",
    "withdrawn": "deleted before it was sent, because consent was withdrawn",
}


@dataclass(frozen=True)
class Summary:
    """`entries` are as they are on disk; `text` is fit for a screen."""

    consent: bool = False
    entries: tuple[HistoryEntry, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    dropped: int = 0
    others: int = 0  # people beside the install's own

    @property
    def text(self) -> str:
        """For a screen, in lines: what `deniable sent` prints."""
        return "\n".join(as_text(self))


def read_summary(folder: str | os.PathLike[str], person: str | None = None) -> Summary:
    """Of a person by the app's id, or of the install's own."""
    return summary(State(folder), Identity(person))


def summary(state: State, identity: Identity) -> Summary:
    if not state.begun:
        return Summary()
    with state.transaction(durable=False) as db:
        given, whose = Consent(identity).obstacle(db) is None, identity.person(db)
        ledger, lost = read_ledger(db, whose), outbox.dropped(db, whose)
        others = known(db) if identity == Identity(None) else 0
        return Summary(given, tuple(entries(db, whose)), ledger, lost, others)


def as_json(summary: Summary) -> dict[str, Any]:  # Any: a JSON document
    spent = summary.ledger.questions
    return {
        "consent": summary.consent,
        "reports": [_entry(entry) for entry in summary.entries],
        "dropped": summary.dropped,
        "spent": {
            "epsilon": decimal_text(summary.ledger.total),
            "questions": {name: decimal_text(cost) for name, cost in sorted(spent.items())},
        },
    }


def _entry(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "survey": entry.survey,
        "name": entry.name,
        "round": entry.round,
        "day": entry.day,
        "said": [asdict(each) for each in entry.symbols],
        "verdict": entry.delivery,
        "detail": entry.detail,
    }


def as_text(summary: Summary) -> Iterator[str]:
    yield f"Consent: {'given' if summary.consent else 'not given; nothing is stored or sent'}."
    if not summary.entries:
        yield "There is no report to show: none was made, or the history was erased."
    for entry in summary.entries:
        yield from _entry_lines(entry)
    if summary.dropped:
        yield f"\n{summary.dropped} reports were dropped because too many were waiting."
    if summary.others:
        yield f"\nNot shown: what {summary.others} other people said; name one with --person ID."
    if summary.ledger.questions:
        yield from _spent_lines(summary.ledger)


def _entry_lines(entry: HistoryEntry) -> Iterator[str]:
    delivery = DELIVERIES.get(entry.delivery) or escaped(entry.delivery)
    reason = f" ({escaped(entry.detail)})" if entry.detail else ""
    yield f"\n{escaped(entry.day)}  {escaped(entry.name)}, round {entry.round}: {delivery}{reason}"
    repeats = next((part.repeats for part in entry.symbols), None)
    if repeats is not None:
        yield f"    the same report as in round {repeats}, at no further ε:"
    for part in entry.symbols:
        drawn = f" (was asked 1 of {part.drawn_from} questions)" if part.drawn_from > 1 else ""
        yield escaped(
            f"    {part.question}{drawn}: says {part.says}; {part.odds} (ε {part.epsilon})", 1000
        )


def _spent_lines(ledger: Ledger) -> Iterator[str]:
    yield f"\nSpent so far: ε {decimal_text(ledger.total)} over all surveys and rounds."
    for name, cost in sorted(ledger.questions.items()):
        yield f"    {escaped(name)}: ε {decimal_text(cost)}"
    if sum(ledger.questions.values()) > ledger.total:
        yield "    (where one question was drawn, each is charged: any might have been the one)"
