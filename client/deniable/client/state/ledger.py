"""The ledger: what each person has spent, charged before any noise is drawn.

Each person, survey and round is one row, written once, with what each question cost, and the whole
where that is not the sum of them: it stands under TOTAL. Rounds that share one latched report are
one row, under the number of the first; why they have one noise is said in kept_reports.py. Totals
are sums over the rows, in whole billionths of ε, so no total can drift from what was charged. Every
row carries a seal, a hash over itself and the seal before it in that person's ledger; the first one
covers the person. How many rows there are, and the last seal, stand beside them. So a row that was
changed, lost from the middle or the end, reordered or repeated makes the ledger unreadable, and
an unreadable ledger means no report.

A person's rows are read whole when a connection first charges that person, and again after any
other connection has written: while nobody else writes, a charge costs the same after ten thousand
rows as after one.

Why neither a crash nor a loss of power spends twice, or draws two noises for one round:

1. Noise for a round is drawn only after the transaction that inserts its row has ended with
   the disk's word that it is written (`State.transaction`, durable), and a row for the same person,
   survey and round is refused, both by a look inside that transaction and by UNIQUE.
2. Transactions are serial, and none that is on disk is undone while one before it stays: SQLite's
   recovery keeps a prefix of them. So once noise was drawn, the row is there in every state
   that can follow, and the round is never charged, nor its noise drawn, again.
3. What is written without waiting for the disk comes after the charge: the report, and what became
   of it. Ended before that, or recovered to a prefix without it, the budget is spent for no report.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from deniable.client.policy import Policy
from deniable.client.state import Transaction
from deniable.client.state.people import OWN
from deniable.shared.errors import StoreUnusable
from deniable.shared.privacy.epsilon import decimal_text

TOTAL = ""  # no question has this name
MOST_REMEMBERED = 1_000  # people whose totals are kept in memory


@dataclass(frozen=True)
class Ledger:
    """Everything that a person was ever charged, as read within one transaction."""

    charges: int = 0
    questions: Mapping[str, int] = field(default_factory=dict)  # billionths by question name
    total: int = 0
    seal: str = ""

    def obstacle(self, costs: Mapping[str, int], total: int, policy: Policy) -> str | None:
        """Why these costs do not fit under the policy's caps any more, or None if they do."""
        if self.total + total > policy.total_cap:
            return _sentence("this install", self.total, total, policy.total_cap)
        cap = policy.question_cap
        for name, cost in costs.items():
            spent = self.questions.get(name, 0)
            if cap is not None and spent + cost > cap:
                return _sentence(f"question {name!r}", spent, cost, cap)
        return None


def read_ledger(db: Transaction, person: bytes = OWN) -> Ledger:
    """A person's whole ledger, or StoreUnusable if any of it is not as it was written."""
    (version,) = db.execute("PRAGMA data_version").fetchone()
    if version != db.data_version:
        db.verified.clear()
        db.data_version = version
    ledger = db.verified.get(person)
    if ledger is None:
        ledger = _verified(db, person)
        _remember(db, person, ledger)
    return ledger


def is_charged(db: Transaction, person: bytes, survey: str, round_number: int) -> bool:
    """Whether a round was paid for, in a ledger that was read in this transaction."""
    row = db.execute(
        "SELECT 1 FROM charges WHERE person = ? AND survey = ? AND round = ?",
        (person, survey, round_number),
    ).fetchone()
    return row is not None


def count_charges(db: Transaction) -> int:
    """Of all people, without reading them, so that every transaction can afford it."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM charges").fetchone()[0])


def none_is_missing(db: Transaction) -> bool:
    """Whether the numbers of all charges have no gap."""
    (charges,) = db.execute("SELECT count(*) FROM charges").fetchone()
    return bool(charges == count_charges(db))


def write_charge(
    db: Transaction,
    person: bytes,
    ledger: Ledger,
    survey: str,
    round_number: int,
    costs: Mapping[str, int],
    total: int,
) -> int:
    """One more row; returns how many there are now, of all people. On disk only when the
    transaction has ended."""
    whole = {} if total == sum(costs.values()) else {TOTAL: total}
    number, text = count_charges(db) + 1, json.dumps(dict(costs) | whole)
    seal = _seal(ledger.seal, survey, round_number, text)
    db.execute(
        "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)",
        (number, person, survey, round_number, text, seal),
    )
    questions = Counter(ledger.questions) + Counter(costs)
    _remember(
        db, person, after := Ledger(ledger.charges + 1, questions, ledger.total + total, seal)
    )
    db.execute("INSERT OR REPLACE INTO ledgers VALUES (?, ?, ?)", (person, after.charges, seal))
    return number


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
    beside = db.execute("SELECT charges, seal FROM ledgers WHERE person = ?", (person,)).fetchone()
    if (beside or (0, person.hex())) != (charges, seal):
        raise _changed()
    return Ledger(charges, questions, total, seal)


def _remember(db: Transaction, person: bytes, ledger: Ledger) -> None:
    """With the connection: it is closed where a transaction fails, and forgets with it."""
    if len(db.verified) >= MOST_REMEMBERED:
        db.verified.clear()
    db.verified[person] = ledger


def _changed() -> StoreUnusable:
    return StoreUnusable("the ledger was changed from outside, so what was spent is not known")


def _seal(before: str, survey: str, round_number: int, costs: str) -> str:
    row = json.dumps([before, survey, round_number, costs])
    return hashlib.sha256(row.encode()).hexdigest()


def _sentence(spender: str, spent: int, asked: int, cap: int) -> str:
    return (
        f"{spender} has spent ε {decimal_text(spent)} of the {decimal_text(cap)} that the app "
        f"allows, and this survey asks for {decimal_text(asked)} more; nothing was charged"
    )
