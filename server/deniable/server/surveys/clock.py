"""The time, as an argument that tests set, and a survey's state at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from deniable.shared.survey.periods import Period

# This clock also runs while the machine sleeps; Linux's monotonic clock does not.
WITH_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

State = Literal["waiting", "open", "closed"]


@dataclass(frozen=True)
class Clock:
    """Two clocks: `now` may be corrected at any moment, and `seconds` measures durations."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for rounds, grace, retention, tokens
    seconds: Callable[[], float] = lambda: time.clock_gettime(WITH_SLEEP)


def state_of(closed: bool, asked: Period, opens: date, closes: date, now: datetime) -> State:
    """Return the survey's state: waiting for its first round, open, or closed.

    A survey is closed by its operator (`closed`) or when its last round ends.
    """
    if closed or now >= asked.ends(asked.round_of(closes), closes):
        return "closed"
    return "open" if now >= asked.starts(asked.round_of(opens), opens) else "waiting"
