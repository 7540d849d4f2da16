"""Whether the clock can be believed: a wrong one would refuse reports for good and delete others.

The store keeps the latest day on which a server ran. A start much later or earlier than that, or a
clock that leaps while the server runs, is doubted: nothing is taken, sealed or deleted until the
clock is put right, or the operator says that it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from deniable.server.store import Store
from deniable.server.surveys.clock import Clock

AHEAD = timedelta(days=8)  # a server that was off for a week starts without being asked
BEHIND = timedelta(days=1)


class Calendar:
    """`doubt` may be asked in any thread, `keep` in the writer's."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest, now = store.latest_day(), clock.now()
        begin = now
        if self._latest is not None:
            last = datetime.combine(self._latest, time(), UTC)
            begin = now if _believable(now, last) else last
        self._known = begin, clock.seconds()  # a moment that was believed, and its seconds

    def doubt(self) -> str | None:
        """Why the clock is not believed, in words for the operator; None while it is."""
        (moment, then), now = self._known, self._clock.now()
        expected = moment + timedelta(seconds=self._clock.seconds() - then)
        if _believable(now, expected):
            return None
        return (
            f"the clock says {now.date()}, where about {expected.date()} is expected: until it is "
            "put right no report is taken and none is deleted; if it is right, start the server "
            "again with --trust-clock"
        )

    def keep(self) -> None:
        """Note the day, if it is a new one that is believed."""
        now = self._clock.now()
        if now.date() != self._latest and self.doubt() is None:
            self._known = now, self._clock.seconds()
            self._store.keep_day(now.date())
            self._latest = now.date()


def _believable(now: datetime, expected: datetime) -> bool:
    return -BEHIND <= now - expected <= AHEAD
