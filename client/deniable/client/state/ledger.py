"""The ledger of the ε that each person has spent, and the reports that are kept to be sent again.

A round is charged before its noise is drawn.

Each person, survey and round is one row, written once, with the cost of each question. Where the
whole is not the sum of the costs, it is stored under TOTAL. Totals are sums over the rows, in whole
billionths of ε, so no total can drift from the charges. Every row carries a seal: a hash of itself
and the previous seal in that person's ledger; the first seal covers the person. The number of rows
and the last seal are stored separately. So a row that was changed, lost, reordered or repeated
makes the ledger unreadable, and an unreadable ledger means no report.

A person's rows are read when a connection first charges that person, and again after another
connection has written. As long as no one else writes, the cost of a charge does not grow.

Neither a crash nor a power cut spends twice, or draws two noises for one round:

1. Noise for a round is drawn only after the transaction that inserts its row is durable. A second
   row for the same person, survey and round is refused inside that transaction and by UNIQUE.
2. Transactions are serial, and SQLite's recovery keeps a prefix of them. So once noise was drawn,
   the row is there in every state that can follow.
3. The report is written after the charge. If it is lost, the budget was spent for no report.

Where a survey latches reports (`repeat = "latched"`), the rounds that share one report are a span.
The first answer of a span is charged under the span's first round, and its report is kept:

1. Only the call that has charged the span draws noise. Every other call sends the kept report, or
   nothing.
2. Only that call keeps a report, together with the first envelope, and its bytes never change. If
   the kept report is erased, withdrawn, expired or lost, the other rounds are `already-answered`.
3. A round is marked as used, durably, before its report is queued. Rounds only go up, so a round is
   queued once, also when the clock is set back.

Only the first answer of a span is looked at, so time, disk and network cannot show whether a later
one differs. A kept report links its rounds to this device, as a survey's key does. It is deleted
when the span ends.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deniable.client.policy import Policy
from deniable.client.state import Transaction
from deniable.client.state.people import OWN
from deniable.shared.errors import StoreUnusable
from deniable.shared.privacy.epsilon import decimal_text

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Survey

TOTAL = ""  # no question has this name
MAX_CACHED_PEOPLE = 1_000  # whose totals are kept in memory


@dataclass(frozen=True)
class Ledger:
    """All charges of a person, as read within one transaction."""

    charges: int = 0
    questions: Mapping[str, int] = field(default_factory=dict)  # billionths by question name
    total: int = 0
    seal: str = ""

    def obstacle(self, costs: Mapping[str, int], total: int, policy: Policy) -> str | None:
        """Return the reason why these costs exceed the policy's caps, or None if they fit."""
        if self.total + total > policy.total_cap:
            return _sentence("this install", self.total, total, policy.total_cap)
        cap = policy.question_cap
        for name, cost in costs.items():
            spent = self.questions.get(name, 0)
            if cap is not None and spent + cost > cap:
                return _sentence(f"question {name!r}", spent, cost, cap)
        return None


def read_ledger(db: Transaction, person: bytes = OWN) -> Ledger:
    """Read and verify a person's ledger; raise StoreUnusable if any row was changed."""
    (version,) = db.execute("PRAGMA data_version").fetchone()
    if version != db.data_version:
        db.verified.clear()
        db.data_version = version
    ledger = db.verified.get(person)
    if ledger is None:
        ledger = _verified(db, person)
        _cache(db, person, ledger)
    return ledger


def is_charged(db: Transaction, person: bytes, survey: str, round_number: int) -> bool:
    """Return whether a round was charged, in a ledger that was read in this transaction."""
    query = "SELECT 1 FROM charges WHERE person = ? AND survey = ? AND round = ?"
    return db.execute(query, (person, survey, round_number)).fetchone() is not None


def count_charges(db: Transaction) -> int:
    """Count the charges of all people by the last number, which is fast; every transaction does."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM charges").fetchone()[0])


def has_gap(db: Transaction) -> bool:
    """Return whether a number is missing among the charges."""
    (charges,) = db.execute("SELECT count(*) FROM charges").fetchone()
    return bool(charges != count_charges(db))


def write_charge(
    db: Transaction,
    person: bytes,
    ledger: Ledger,
    survey: str,
    round_number: int,
    costs: Mapping[str, int],
    total: int,
) -> int:
    """Write one charge, and return the number of charges of all people."""
    whole = {} if total == sum(costs.values()) else {TOTAL: total}
    number, text = count_charges(db) + 1, json.dumps(dict(costs) | whole)
    seal = _seal(ledger.seal, survey, round_number, text)
    db.execute(
        "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)",
        (number, person, survey, round_number, text, seal),
    )
    questions = Counter(ledger.questions) + Counter(costs)
    after = Ledger(ledger.charges + 1, questions, ledger.total + total, seal)
    _cache(db, person, after)
    db.execute("INSERT OR REPLACE INTO ledgers VALUES (?, ?, ?)", (person, after.charges, seal))
    return number


@dataclass(frozen=True, repr=False)
class KeptReport:
    """The report of a span, to be sent again in its later rounds."""

    drawn_in: int  # the round
    payload: bytes


def keep_report(db: Transaction, person: bytes, survey: Survey, envelope: Envelope) -> None:
    """Keep the report of a span, drawn in this envelope's round and queued with it."""
    span, drawn = survey.span_of(envelope.round), envelope.round
    until = int(survey.round_ends(span[-1]).timestamp())
    db.execute(
        "INSERT INTO kept_reports VALUES (?, ?, ?, ?, ?, ?, ?)",
        (person, envelope.survey, span[0], drawn, drawn, envelope.payload, until),
    )


def use_kept_report(
    db: Transaction, person: bytes, survey: str, span: range, round_number: int
) -> KeptReport | None:
    """Return the span's report for a later round, and mark the round as used.

    Return None if there is no report, or the round is not later than all before.
    """
    where = "WHERE person = :person AND survey = :survey AND first = :first AND used < :round"
    values = {"person": person, "survey": survey, "first": span[0], "round": round_number}
    row = db.execute(f"SELECT drawn, payload FROM kept_reports {where}", values).fetchone()  # noqa: S608 - a constant
    db.execute(f"UPDATE kept_reports SET used = :round {where}", values)  # noqa: S608 - the same
    return None if row is None else KeptReport(int(row[0]), bytes(row[1]))


def _verified(db: Transaction, person: bytes) -> Ledger:
    questions, total, seal, charges = Counter[str](), 0, person.hex(), 0
    rows = db.execute(
        "SELECT survey, round, costs, seal FROM charges WHERE person = ? ORDER BY number", (person,)
    )
    for charges, (survey, round_number, costs, sealed) in enumerate(rows, 1):  # noqa: B007
        seal = _seal(seal, survey, round_number, costs)
        if sealed != seal:
            raise _changed()
        charged = json.loads(costs)
        whole = charged.pop(TOTAL, None)
        total += sum(charged.values()) if whole is None else whole
        questions.update(charged)
    last = db.execute("SELECT charges, seal FROM ledgers WHERE person = ?", (person,)).fetchone()
    if (last or (0, person.hex())) != (charges, seal):
        raise _changed()
    return Ledger(charges, questions, total, seal)


def _cache(db: Transaction, person: bytes, ledger: Ledger) -> None:
    """Cache with the connection, which is closed when a transaction fails."""
    if len(db.verified) >= MAX_CACHED_PEOPLE:
        db.verified.clear()
    db.verified[person] = ledger


def _changed() -> StoreUnusable:
    return StoreUnusable("the ledger was changed from outside, so the ε already spent is unknown")


def _seal(before: str, survey: str, round_number: int, costs: str) -> str:
    row = json.dumps([before, survey, round_number, costs])
    return hashlib.sha256(row.encode()).hexdigest()


def _sentence(spender: str, spent: int, asked: int, cap: int) -> str:
    return (
        f"{spender} has spent ε {decimal_text(spent)} of the {decimal_text(cap)} that the app "
        f"allows, and this survey asks for {decimal_text(asked)} more; nothing was charged"
    )
