"""The time, as an argument: tests set it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Two, since the calendar may be put right at any moment, and a span must not change by it."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for rounds, grace, retention, tokens
    seconds: Callable[[], float] = time.monotonic  # for intervals and durations
