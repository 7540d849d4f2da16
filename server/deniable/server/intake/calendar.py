"""Whether the clock can be believed: a wrong one would refuse reports for good and delete others.

The store keeps the latest day on which a server ran. A start much later or earlier than that, or a
clock that leaps while the server runs, is doubted: nothing is taken, sealed or deleted until the
clock is put right, or the operator says that it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from deniable.server.store import Store
from deniable.server.surveys.clock import Clock

OFF = timedelta(days=8)  # a server that was off for a week starts without being asked
LEAP = timedelta(days=1)


class Calendar:
    """`doubt` may be asked in any thread, `keep` in the writer's."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest, now = store.latest_day(), clock.now()
        last = now if self._latest is None else datetime.combine(self._latest, time(), UTC)
        believed = -LEAP <= now - last <= OFF
        # A moment that was believed, its seconds, and how much later it may be by now.
        self._known = (now, clock.seconds(), LEAP) if believed else (last, clock.seconds(), OFF)

    def doubt(self) -> str | None:
        """Why the clock is not believed, in words for the operator; None while it is."""
        (moment, then, ahead), now = self._known, self._clock.now()
        expected = moment + timedelta(seconds=self._clock.seconds() - then)
        if -LEAP <= now - expected <= ahead:
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
            self._known = now, self._clock.seconds(), LEAP
            self._store.keep_day(now.date())
            self._latest = now.date()
