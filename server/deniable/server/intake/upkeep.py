"""The writer's other work: forgetting order, counters, the calendar and retention.

After each group, or a tenth of a second under load, the order in which groups came is forgotten.
Counters are kept every second, and retention is due every hour: raw reports are deleted when their
survey's time for them ends; tallies stay. Their rounds are sealed first, and then a slice is
deleted after each group, so that uploads never wait for it.

The calendar guards against a wrong clock, which would refuse reports and delete others permanently.
The store keeps the latest day on which a server ran. If a server starts much later or earlier than
that, or its clock leaps while it runs, the clock is doubted: nothing is accepted, sealed or deleted
until the clock is right, or the operator vouches for it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from deniable.server.intake.commit import recover
from deniable.server.store import PublishedSurvey, Store, StoreLost
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable

MAX_DOWNTIME = timedelta(days=8)  # a server that was off for a week starts without a question
MAX_LEAP = timedelta(days=1)
FLUSH_SECONDS = 1.0
PURGE_SECONDS = 3_600.0
FORGET_SECONDS = 10.0
SETTLE_SECONDS = 0.1  # under load, until groups come into the tables and their order is forgotten
PAUSE_SECONDS = 0.02  # the same, if nothing comes meanwhile
IDLE_SECONDS = 1.0  # until it is looked what else is due
ROWS_PER_SLICE = 32  # deleted between two groups: about a thousand envelopes
MARGIN = timedelta(hours=1)  # whatever was taken in the last moment has long been counted

log = logging.getLogger("deniable.server")


class Calendar:
    """Guard against a wrong clock. `doubt` may be called in any thread, `keep` in the writer's."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest, now = store.latest_day(), clock.now()
        last = now if self._latest is None else datetime.combine(self._latest, time_of_day(), UTC)
        trusted = -MAX_LEAP <= now - last <= MAX_DOWNTIME
        # A moment that was trusted, its seconds, and how much later it may be by now.
        moment, ahead = (now, MAX_LEAP) if trusted else (last, MAX_DOWNTIME)
        self._known = moment, clock.seconds(), ahead

    def doubt(self) -> str | None:
        """Return why the clock is doubted, for the operator; None while it is trusted."""
        (moment, then, ahead), now = self._known, self._clock.now()
        expected = moment + timedelta(seconds=self._clock.seconds() - then)
        if -MAX_LEAP <= now - expected <= ahead:
            return None
        return (
            f"the clock says {now.date()}, where about {expected.date()} is expected: until it is "
            "put right no report is taken and none is deleted; if it is right, start the server "
            "again with --trust-clock"
        )

    def keep(self) -> None:
        """Keep the day in the store, if it is a new one that is trusted."""
        now = self._clock.now()
        if now.date() != self._latest and self.doubt() is None:
            self._known = now, self._clock.seconds(), MAX_LEAP
            self._store.keep_day(now.date())
            self._latest = now.date()


class Upkeep:
    """The work that is due between groups. `count` may be called from any thread."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock
        self.calendar = Calendar(store, clock)
        self._doubt: str | None = None
        self._outcomes: Counter[tuple[int, str]] = Counter()
        self._lock = threading.Lock()
        self._flush_at = self._purge_at = clock.seconds()
        self._settle_at = math.inf
        self._purging, self._gone = False, 0

    def count(self, outcomes: Mapping[tuple[int, str], int]) -> None:
        """Add reports by a survey's sequence and outcome; the next flush stores them."""
        with self._lock:
            self._outcomes.update(outcomes)

    def do_what_is_due(self, *, later: bool = False) -> float:
        """Do it, never for long. Return the seconds until more is due, if nothing comes.

        With `later`, the last group need not be in the tables yet.
        """
        seconds = self._clock.seconds()
        if seconds >= self._flush_at:
            self.flush()
            self._flush_at = seconds + FLUSH_SECONDS
        if self._clock_is_trusted() and seconds >= self._purge_at:
            self._purging = True
            self._try(self._seal)
            self._purge_at = seconds + PURGE_SECONDS
        if self._purging:
            self._try(self._purge)
        else:
            self._settle_at = min(self._settle_at, seconds + SETTLE_SECONDS)
            if later and seconds < self._settle_at:
                return PAUSE_SECONDS
        self._try(self._settle)
        return 0.0 if self._purging else IDLE_SECONDS

    def end(self) -> None:
        """Flush and settle: nothing comes any more."""
        self.flush()
        try:
            self._settle()
        except StoreUnusable as error:
            log.warning("%s; the next start tries it again", error)

    def _settle(self) -> None:
        self._settle_at = math.inf
        recover(self._store, self._catalogue, serves=True)
        self._store.forget_order()

    def flush(self) -> None:
        with self._lock:
            outcomes, self._outcomes = self._outcomes, Counter()
        try:
            if outcomes:
                self._store.add_counters(outcomes)
        except StoreUnusable as error:
            self.count(outcomes)  # the next flush takes them along
            log.warning("%s", error)

    def _clock_is_trusted(self) -> bool:
        before, self._doubt = self._doubt, self.calendar.doubt()
        if self._doubt is None:
            self._try(self.calendar.keep)
        elif before is None:
            log.critical("%s", self._doubt)
        return self._doubt is None

    def _seal(self) -> None:
        """Seal ended rounds, but not before what a killed server has left is counted."""
        recover(self._store, self._catalogue, serves=True)
        seal_ended(self._store, self._catalogue, self._clock.now())

    def _purge(self) -> None:
        gone = self._store.purge(ROWS_PER_SLICE)
        self._purging = gone.rows > 0
        self._gone += gone.envelopes
        if self._gone and not self._purging:
            log.info("retention: %d envelopes deleted", self._gone)
            self._gone = 0

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except StoreLost:
            raise
        except StoreUnusable as error:
            self._purging = False
            log.warning("%s; it is tried again", error)


def seal_ended(store: Store, catalogue: Catalogue, now: datetime) -> None:
    """Seal the rounds that are past their time, so that their envelopes can be deleted."""
    kept = store.unsealed_rounds()
    for published in catalogue.surveys():
        ended = [n for n in kept.get(published.sequence, ()) if purged_from(published, n) <= now]
        if ended:
            store.seal(published.sequence, ended)


def purge_sealed(store: Store) -> bool:
    """Delete all sealed envelopes, in slices, also next to a running server.

    Return whether nothing of them is left in a log, either: a long read may delay that.
    """
    while store.purge(ROWS_PER_SLICE).rows:
        pass
    end = time.monotonic() + FORGET_SECONDS
    while not (forgotten := store.forget_order()) and time.monotonic() < end:
        time.sleep(0.05)
    return forgotten


def purged_from(published: PublishedSurvey, number: int) -> datetime:
    """Return the moment from which on a round's envelopes are deleted."""
    survey = published.survey
    return survey.taken_until(number) + timedelta(days=survey.retention_days) + MARGIN
