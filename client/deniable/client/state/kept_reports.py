"""Reports that are kept to be sent again, where a survey latches them (`repeat = "latched"`).

The rounds that share one report are a span. The span's first answer charges it under the number of
its first round, so that UNIQUE in the ledger allows one charge, and one draw of noise, for a span.
Its report is kept here with the round it was drawn in, and the last that it was queued for.

Why there are never two noises for a span, nor two charges, whatever ends in between:

1. Noise is drawn only after the span's charge is on disk (ledger.py), and only by the call that has
   charged it. Whoever finds the span charged sends what is kept here, or nothing.
2. Nothing puts a report here but that one call, together with the first envelope, and nothing
   changes its bytes. What is erased, withdrawn or expired, or lost with the power as it need not
   wait for the disk, is lost for the span: its other rounds are `already-answered`.
3. A round is marked as used, in the transaction that waits for the disk, before its report is
   queued. Rounds only go up: a round is queued once, and a clock set back brings none again.

No answer is looked at but the first, so time, disk and network cannot tell whether another differs.
A kept report ties its rounds to this device, like a survey's key; it is deleted with the span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deniable.client.state import Transaction

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Survey


@dataclass(frozen=True, repr=False)
class KeptReport:
    drawn_in: int  # the round
    payload: bytes


def keep(db: Transaction, person: bytes, survey: Survey, envelope: Envelope) -> None:
    """The report of a span, drawn in this envelope's round and queued with it."""
    span, drawn = survey.span_of(envelope.round), envelope.round
    until = int(survey.round_ends(span[-1]).timestamp())
    db.execute(
        "INSERT INTO kept_reports VALUES (?, ?, ?, ?, ?, ?, ?)",
        (person, envelope.survey, span[0], drawn, drawn, envelope.payload, until),
    )


def use(
    db: Transaction, person: bytes, survey: str, span: range, round_number: int
) -> KeptReport | None:
    """The span's report, for a round after all that it was used for; None if there is none."""
    which = "WHERE person = :person AND survey = :survey AND first = :first AND used < :round"
    values = {"person": person, "survey": survey, "first": span[0], "round": round_number}
    row = db.execute(f"SELECT drawn, payload FROM kept_reports {which}", values).fetchone()  # noqa: S608 - a constant
    db.execute(f"UPDATE kept_reports SET used = :round {which}", values)  # noqa: S608 - the same
    return None if row is None else KeptReport(int(row[0]), bytes(row[1]))


def delete_theirs(db: Transaction, person: bytes) -> None:
    """A person's; in the database they are overwritten."""
    db.execute("DELETE FROM kept_reports WHERE person = ?", (person,))
    db.erased = True


def delete_expired(db: Transaction, second: int) -> None:
    """Those whose span is over."""
    if db.execute("DELETE FROM kept_reports WHERE until <= ?", (second,)).rowcount:
        db.erased = True
