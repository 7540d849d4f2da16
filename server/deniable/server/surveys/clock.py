"""Clock, as an argument that tests can set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

# This clock also runs while the machine sleeps; Linux's monotonic clock does not.
WITH_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Clock:
    """Two clocks: `now` may be corrected at any moment, and `seconds` measures durations."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for rounds, grace, retention, tokens
    seconds: Callable[[], float] = lambda: time.clock_gettime(WITH_SLEEP)
