"""The time, as an argument: tests set it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

# It goes on while the machine sleeps: of the others Linux's does not.
WITH_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Clock:
    """Two, since the calendar may be put right at any moment, and a span must not change by it."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for rounds, grace, retention, tokens
    seconds: Callable[[], float] = lambda: time.clock_gettime(WITH_SLEEP)  # for durations
