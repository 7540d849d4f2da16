"""Background check for forged reports in all rounds that can still change."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

from deniable.server.results.answers import round_fits, warning
from deniable.server.results.estimate_cache import EstimateCache, is_open
from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from prometheus_client import Gauge


CHECK_INTERVAL_SECONDS = 60.0
STATES = ("open", "closed")

log = logging.getLogger("deniable.server")


class ForgeryMonitor:
    """Background check for forged reports, once a minute, in every round that can still change.

    It logs warnings and sets a gauge. A round with purged envelopes no longer changes; only its
    results show the warning. Checks of unchanged counts are cached. Failed checks are logged and
    repeated.
    """

    def __init__(
        self, store: Store, catalogue: Catalogue, clock: Clock, gauge: Gauge, cache: EstimateCache
    ) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock
        self._gauge, self._cache = gauge, cache
        self._logged: dict[tuple[str, int], date] = {}
        self._shown = set[str]()

    def start(self) -> None:
        """Start a background thread that checks until the process ends."""
        threading.Thread(target=self._run, name="forgery", daemon=True).start()

    def check(self) -> None:
        """Check every round that can still change, and log each forged round at most once a day."""
        kept, warnings = self._store.unsealed_rounds(), list[str]()
        watched: dict[str, set[int]] = {}
        for published in self._catalogue.surveys():
            if numbers := kept.get(published.sequence):
                watched[published.id] = set(numbers)
                with _logging_failures(f"survey {published.name}"):
                    warnings += self._check_survey(published, watched[published.id])
        self._forget_all_but(watched)
        if warnings:
            log.warning("%s", "; ".join(warnings))

    def _run(self) -> None:
        while True:
            with _logging_failures("rounds"):
                self.check()
            threading.Event().wait(CHECK_INTERVAL_SECONDS)

    def _forget_all_but(self, watched: Mapping[str, set[int]]) -> None:
        for survey in self._shown - watched.keys():
            for state in STATES:
                self._gauge.remove(survey, state)
        self._shown &= watched.keys()
        for survey, number in [*self._logged]:
            if number not in watched.get(survey, ()):
                del self._logged[survey, number]

    def _check_survey(self, published: PublishedSurvey, numbers: set[int]) -> list[str]:
        """Set the gauge, and return the warnings to log today."""
        survey, flagged, news = published.survey, Counter(dict.fromkeys(STATES, 0)), list[str]()
        tallies = self._store.tallies(published.sequence, min(numbers), max(numbers))
        kept = [tally for tally in tallies if tally.round in numbers]
        for tally, fits in zip(kept, round_fits(survey, kept, self._cache), strict=True):
            if words := warning(survey, tally, fits):
                still_open = is_open(published, tally.round, self._clock.now())
                flagged[STATES[not still_open]] += 1
                key, today = (published.id, tally.round), self._clock.now().date()
                if self._logged.get(key) != today:
                    news.append(f"survey {survey.name}, round {tally.round}: {words}")
                self._logged[key] = today
        for state, count in flagged.items():
            self._gauge.labels(published.id, state).set(count)
        self._shown.add(published.id)
        return news


@contextmanager
def _logging_failures(place: str) -> Iterator[None]:
    try:
        yield
    except StoreUnusable as error:
        log.warning("%s; will retry the forgery check of %s", error, place)
    except Exception:
        log.exception("the forgery check of %s failed", place)
