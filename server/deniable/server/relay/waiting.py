"""How long a batch has waited, also across restarts, and whatever the calendar does meanwhile.

    "494663 13"    began in this hour of the calendar, since 1970; has been seen to wait so long

both in whole hours, as they are kept. A relay that runs counts by a clock that never leaps; what
passed while none ran, only the calendar tells. After a restart the longer of the two is believed,
each rounded down: the batch waits for up to an hour more, and leaves early only where the calendar
has leapt ahead. Where it went back, the hours are lost that were not seen.
"""

from __future__ import annotations

import re

from deniable.server.surveys.clock import Clock

HOUR = 3_600
KEPT = re.compile(rb"(\d{1,9}) (\d{1,9})")


class Wait:
    """Begins now, or goes on from what was kept of it; what cannot be read begins now too."""

    def __init__(self, clock: Clock, kept: bytes = b"") -> None:
        self._clock, self._begun, self._before = clock, clock.seconds(), 0.0
        calendar = clock.now().timestamp()
        self._hour = int(calendar // HOUR)
        if told := KEPT.fullmatch(kept):
            self._hour, seen = map(int, told.groups())
            self._before = max(calendar - HOUR * (self._hour + 1), float(HOUR * seen))

    def seconds(self) -> float:
        return self._before + self._clock.seconds() - self._begun

    def pack(self) -> bytes:
        return b"%d %d" % (self._hour, self.seconds() // HOUR)
