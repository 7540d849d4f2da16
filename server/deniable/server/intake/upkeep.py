"""The writer's other work: order of arrival, counters, steps, calendar and retention.

Every trace of the order of arrival is removed after each group or, under load, every tenth of a
second. The counts that readers see change in steps (`release_steps`). With `looks = "twice"`, they
do not change between the first look and the final one. A survey with `close_at` is closed once it
has that many reports. That depends on their number alone, which is at least a step.

Retention runs every hour: it seals the rounds whose retention has ended, then deletes a slice of
their raw reports after each group, so that uploads wait for one slice at most. Tallies remain.

The calendar guards against a wrong clock, which would refuse reports and delete others permanently.
The store keeps the latest day on which a server ran. If a server starts much later or earlier than
that, or its clock leaps while it runs, the clock is not trusted. In that case, nothing is accepted,
sealed or deleted until the clock is right or the operator confirms it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from deniable.server.intake.commit import recover
from deniable.server.intake.release_steps import Steps
from deniable.server.store import SERVER, PublishedSurvey, Store, StoreLost, Upload
from deniable.server.store.records import Round
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable

MAX_DOWNTIME = timedelta(days=8)  # a server that was off for a week needs no confirmation
MAX_LEAP = timedelta(days=1)
FLUSH_SECONDS = 1.0
PURGE_SECONDS = 3_600.0
FORGET_SECONDS = 10.0
SETTLE_SECONDS = 0.1  # under load: time until groups reach the tables and their order is removed
PAUSE_SECONDS = 0.02  # time until the same if no request arrives
IDLE_SECONDS = 1.0  # time until the next check for due work
ROWS_PER_SLICE = 32  # number of rows deleted between two groups: about a thousand envelopes
AUDIT_DAYS = 400  # retention of the audit log
MARGIN = timedelta(hours=1)  # after this time the last accepted reports have been counted

log = logging.getLogger("deniable.server")


class Calendar:
    """Guard against a wrong clock. Only the writer's thread may call `keep`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest, now = store.latest_day(), clock.now()
        last = now if self._latest is None else datetime.combine(self._latest, time_of_day(), UTC)
        trusted = -MAX_LEAP <= now - last <= MAX_DOWNTIME
        # A trusted time, the monotonic seconds at that time, and how far ahead the clock may be.
        moment, ahead = (now, MAX_LEAP) if trusted else (last, MAX_DOWNTIME)
        self._reference = moment, clock.seconds(), ahead

    def clock_fault(self) -> str | None:
        """Return why the clock is not trusted, or None."""
        (moment, then, ahead), now = self._reference, self._clock.now()
        expected = moment + timedelta(seconds=self._clock.seconds() - then)
        if -MAX_LEAP <= now - expected <= ahead:
            return None
        return (
            f"the clock shows {now.date()}, but about {expected.date()} is expected: no report is "
            "accepted or deleted until it is corrected; if it is right, restart the server with "
            "--trust-clock"
        )

    def keep(self) -> None:
        """Store the current day if it is new and the clock is trusted."""
        now = self._clock.now()
        if now.date() != self._latest and self.clock_fault() is None:
            self._reference = now, self._clock.seconds(), MAX_LEAP
            self._store.keep_day(now.date())
            self._latest = now.date()


class Upkeep:
    """Work that the writer does between groups. Any thread may call `count`."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock
        self.calendar = Calendar(store, clock)
        self._clock_fault: str | None = None
        self._outcomes: Counter[tuple[int, str]] = Counter()
        self._lock = threading.Lock()
        self._flush_at = self._purge_at = clock.seconds()
        self._settle_at = math.inf
        self._purging, self._deleted = False, 0
        self._steps = Steps(store)
        self._grown = dict[Round, tuple[PublishedSurvey, int]]()  # number of reports by round
        self._maybe_full = {published.id: published for published in catalogue.surveys()}

    def count(self, outcomes: Mapping[tuple[int, str], int]) -> None:
        """Add numbers of reports by (survey sequence, outcome); the next flush stores them."""
        with self._lock:
            self._outcomes.update(outcomes)

    def note_committed(self, uploads: Sequence[Upload]) -> None:
        """Note by how much rounds may have grown. Only the writer's thread may call this."""
        for upload in uploads:
            of = upload.key[:2]
            _, reports = self._grown.get(of, (None, 0))
            self._grown[of] = upload.survey, reports + upload.count
            self._maybe_full[upload.survey.id] = upload.survey

    def do_what_is_due(self, *, later: bool = False) -> float:
        """Do the work that is due, but only briefly. Return the seconds until more is due.

        With `later`, the last group may reach the tables later.
        """
        seconds, trusted = self._clock.seconds(), self._clock_is_trusted()
        if seconds >= self._flush_at:
            self.flush()
            self._flush_at = seconds + FLUSH_SECONDS
            if trusted:
                self._try(self._release)
                self._try(self._close_full)
        if trusted and seconds >= self._purge_at:
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
        """Flush and settle when no further uploads will come."""
        self.flush()
        try:
            self._settle()
        except StoreUnusable as error:
            log.warning("%s; will retry at the next start", error)

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
            self.count(outcomes)  # the next flush stores them
            log.warning("%s", error)

    def _release(self) -> None:
        """Advance the rounds that may have grown by half a step; other nodes may add the rest."""
        for of, (published, reports) in [*self._grown.items()]:
            survey, number = published.survey, of[1]
            if reports >= survey.step // 2:
                if survey.looks != "twice" or self._clock.now() < survey.first_look(number):
                    self._steps.advance(published, number)
                del self._grown[of]

    def _close_full(self) -> None:
        """Close the surveys that have enough reports, counting those of all nodes."""
        while self._maybe_full:
            _, published = self._maybe_full.popitem()  # a failure is retried at the next report
            enough = published.survey.close_at
            if enough and not published.closed:
                tallies = self._store.tallies(published.sequence)
                if sum(tally.reports for tally in tallies) >= enough:
                    self._catalogue.close(published, SERVER)

    def _clock_is_trusted(self) -> bool:
        before, self._clock_fault = self._clock_fault, self.calendar.clock_fault()
        if self._clock_fault is None:
            self._try(self.calendar.keep)
        elif before is None:
            log.critical("%s", self._clock_fault)
        return self._clock_fault is None

    def _seal(self) -> None:
        """Seal ended rounds, after counting the envelopes that a killed server left."""
        recover(self._store, self._catalogue, serves=True)
        seal_ended(self._store, self._catalogue, self._clock.now())
        self._store.purge_audit(self._clock.now().date() - timedelta(days=AUDIT_DAYS))

    def _purge(self) -> None:
        purged = self._store.purge(ROWS_PER_SLICE)
        self._purging = purged.rows > 0
        self._deleted += purged.envelopes
        if self._deleted and not self._purging:
            log.info("retention: %d envelopes deleted", self._deleted)
            self._deleted = 0

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except StoreLost:
            raise
        except StoreUnusable as error:
            self._purging = False
            log.warning("%s; will retry", error)


def seal_ended(store: Store, catalogue: Catalogue, now: datetime) -> None:
    """Seal the rounds whose retention has ended, so that their envelopes can be deleted."""
    unsealed = store.unsealed_rounds()
    for published in catalogue.surveys():
        rounds = unsealed.get(published.sequence, ())
        ended = [number for number in rounds if purged_from(published, number) <= now]
        if ended:
            store.seal(published.sequence, ended)


def purge_sealed(store: Store) -> bool:
    """Delete the envelopes of all sealed rounds in slices, even while a server runs.

    Return whether all traces of them are removed: a long read may delay that.
    """
    while store.purge(ROWS_PER_SLICE).rows:
        pass
    end = time.monotonic() + FORGET_SECONDS
    while not (forgotten := store.forget_order()) and time.monotonic() < end:
        time.sleep(0.05)
    return forgotten


def purged_from(published: PublishedSurvey, number: int) -> datetime:
    """Return the time from which a round's envelopes may be deleted."""
    survey = published.survey
    return survey.taken_until(number) + timedelta(days=survey.retention_days) + MARGIN
