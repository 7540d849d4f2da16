"""What the writer does beside uploads: after each group the order in which groups came is
forgotten, counters are kept every second, and every hour retention is due.

Retention: raw reports are deleted when their survey's time for them ends; tallies stay. Their
rounds are sealed first, and then a slice goes after each group, so that uploads never wait for it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from deniable.server.intake.calendar import Calendar
from deniable.server.intake.commit import recover
from deniable.server.store import PublishedSurvey, Store, StoreLost
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable

FLUSH_SECONDS = 1.0
PURGE_SECONDS = 3_600.0
FORGET_SECONDS = 10.0
SETTLE_SECONDS = 0.1  # under load, until groups come into the tables and their order is forgotten
PAUSE_SECONDS = 0.02  # the same, if nothing comes meanwhile
IDLE_SECONDS = 1.0  # until it is looked what else is due
SLICE = 32  # rows that are deleted between two groups: about a thousand envelopes
MARGIN = timedelta(hours=1)  # whatever was taken in the last moment has long been counted

log = logging.getLogger("deniable.server")


class Upkeep:
    """`count` may be called from any thread, the rest from the writer's."""

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
        """Add reports by survey's sequence and outcome, to be kept with the next flush."""
        with self._lock:
            self._outcomes.update(outcomes)

    def do_what_is_due(self, *, later: bool = False) -> float:
        """Never for long: in how many seconds more is due, if nothing comes. `later`: what has just
        come need not be in the tables yet."""
        seconds = self._clock.seconds()
        if seconds >= self._flush_at:
            self.flush()
            self._flush_at = seconds + FLUSH_SECONDS
        if self._clock_is_believed() and seconds >= self._purge_at:
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
        """Nothing comes any more."""
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

    def _clock_is_believed(self) -> bool:
        before, self._doubt = self._doubt, self.calendar.doubt()
        if self._doubt is None:
            self._try(self.calendar.keep)
        elif before is None:
            log.critical("%s", self._doubt)
        return self._doubt is None

    def _seal(self) -> None:
        """Not before what a killed server has left is counted."""
        recover(self._store, self._catalogue, serves=True)
        seal_ended(self._store, self._catalogue, self._clock.now())

    def _purge(self) -> None:
        gone = self._store.purge(SLICE)
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
    """Count nothing more in a round that is past its time: its envelopes go next."""
    kept = store.unsealed_rounds()
    for published in catalogue.surveys():
        ended = [n for n in kept.get(published.sequence, ()) if purged_from(published, n) <= now]
        if ended:
            store.seal(published.sequence, ended)


def purge_sealed(store: Store) -> bool:
    """Delete all that is sealed, in slices, beside a server that goes on. Whether nothing of it is
    left in a log, either: whoever reads for long may delay that."""
    while store.purge(SLICE).rows:
        pass
    end = time.monotonic() + FORGET_SECONDS
    while not (forgotten := store.forget_order()) and time.monotonic() < end:
        time.sleep(0.05)
    return forgotten


def purged_from(published: PublishedSurvey, number: int) -> datetime:
    """From when on a round's envelopes are deleted."""
    survey = published.survey
    return survey.taken_until(number) + timedelta(days=survey.retention_days) + MARGIN
