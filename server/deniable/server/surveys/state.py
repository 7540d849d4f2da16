"""Whether a survey is asked now, in the words that pages, results and commands share."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from deniable.shared.survey.periods import Period

State = Literal["waiting", "open", "closed"]


def state_of(closed: bool, asked: Period, opens: date, closes: date, now: datetime) -> State:
    """Waiting for its first round, open, or closed: by its operator, or as its days are over."""
    if closed or now >= asked.ends(asked.round_of(closes), closes):
        return "closed"
    return "open" if now >= asked.starts(asked.round_of(opens), opens) else "waiting"
