"""The ledger: what this install has spent, charged before any noise is drawn.

Each survey and round is one row, written once, with what each question cost, and the whole where
that is not the sum of them: it stands under TOTAL. Totals are sums over the rows, in whole
billionths of ε, so no total can drift from what was charged. Every row carries a
seal, a hash over itself and the seal before it: a row that was changed, lost from the middle or
repeated makes the ledger unreadable, and an unreadable ledger means no report.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from deniable.client.policy import Policy
from deniable.client.state import Transaction
from deniable.shared.errors import StoreUnusable
from deniable.shared.privacy.epsilon import decimal_text

TOTAL = ""  # no question has this name


@dataclass(frozen=True)
class Ledger:
    """Everything that was ever charged, as read within one transaction."""

    answered: frozenset[tuple[str, int]] = frozenset()
    questions: Mapping[str, int] = field(default_factory=dict)  # billionths by question name
    total: int = 0
    seal: str = ""

    @property
    def charges(self) -> int:
        return len(self.answered)

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


def read_ledger(db: Transaction) -> Ledger:
    """The whole ledger, or StoreUnusable if any of it is not as it was written."""
    answered, questions, total, seal = set(), Counter[str](), 0, ""
    rows = db.execute("SELECT number, survey, round, costs, seal FROM charges ORDER BY number")
    for position, (number, survey, round_number, costs, sealed) in enumerate(rows, 1):
        seal = _seal(seal, survey, round_number, costs)
        if sealed != seal or number != position:
            raise StoreUnusable(
                "the ledger was changed from outside, so what was spent is not known"
            )
        charged = json.loads(costs)
        whole = charged.pop(TOTAL, None)
        total += sum(charged.values()) if whole is None else whole
        questions.update(charged)
        answered.add((survey, round_number))
    return Ledger(frozenset(answered), dict(questions), total, seal)


def count_charges(db: Transaction) -> int:
    """Without reading them, so that every transaction can afford it."""
    return int(db.execute("SELECT count(*) FROM charges").fetchone()[0])


def write_charge(
    db: Transaction,
    ledger: Ledger,
    survey: str,
    round_number: int,
    costs: Mapping[str, int],
    total: int,
) -> int:
    """One more row; returns how many there are now. On disk only when the transaction has ended."""
    whole = {} if total == sum(costs.values()) else {TOTAL: total}
    text = json.dumps(dict(costs) | whole)
    seal = _seal(ledger.seal, survey, round_number, text)
    db.execute(
        "INSERT INTO charges VALUES (?, ?, ?, ?, ?)",
        (ledger.charges + 1, survey, round_number, text, seal),
    )
    return ledger.charges + 1


def _seal(before: str, survey: str, round_number: int, costs: str) -> str:
    row = json.dumps([before, survey, round_number, costs])
    return hashlib.sha256(row.encode()).hexdigest()


def _sentence(spender: str, spent: int, asked: int, cap: int) -> str:
    return (
        f"{spender} has spent ε {decimal_text(spent)} of the {decimal_text(cap)} that the app "
        f"allows, and this survey asks for {decimal_text(asked)} more; nothing was charged"
    )
