"""Looks for forged reports once a minute, for the log and a gauge, in every round still counted."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import NamedTuple

from prometheus_client import Gauge

from deniable.server.results.forgery import round_fits, warning
from deniable.server.store import PublishedSurvey, RoundTally, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable

PAUSE_SECONDS = 60.0
STATES = ("open", "closed")

log = logging.getLogger("deniable.server")


class _Seen(NamedTuple):
    reports: int
    warning: str | None


class ForgeryWatch:
    """Rounds whose envelopes are purged change no more, and only their results say it.

    A look that fails, for whatever reason, is written to the log and taken again: reports are
    counted without it, so it is no reason to end the process.
    """

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock, rounds: Gauge) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock
        self._rounds = rounds
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._said: dict[tuple[str, int], date] = {}
        self._shown = set[str]()

    def start(self) -> None:
        """In a thread of its own, for as long as the process lives."""
        threading.Thread(target=self._run, name="forgery", daemon=True).start()

    def look(self) -> None:
        """At every round whose reports have become more. The log names each once a day; all that
        one look has found are one record, since of one line of code it has one a minute."""
        kept, found = self._store.unsealed_rounds(), list[str]()
        watched: dict[str, set[int]] = {}
        for published in self._catalogue.surveys():
            if numbers := kept.get(published.sequence):
                watched[published.id] = set(numbers)
                with _going_on(f"survey {published.name}"):
                    found += self._look_at(published, watched[published.id])
        self._forget_all_but(watched)
        if found:
            log.warning("%s", "; ".join(found))

    def _run(self) -> None:
        while True:
            with _going_on("rounds"):
                self.look()
            threading.Event().wait(PAUSE_SECONDS)

    def _forget_all_but(self, watched: Mapping[str, set[int]]) -> None:
        for survey in self._shown - watched.keys():
            for state in STATES:
                self._rounds.remove(survey, state)
        self._shown &= watched.keys()
        for known in (self._seen, self._said):
            for survey, number in [*known]:
                if number not in watched.get(survey, ()):
                    del known[survey, number]

    def _look_at(self, published: PublishedSurvey, numbers: set[int]) -> list[str]:
        """What is to be said today of its rounds."""
        flagged, found = Counter(dict.fromkeys(STATES, 0)), list[str]()
        tallies = self._store.tallies(published.sequence)
        kept = [tally for tally in tallies if tally.round in numbers]
        for tally, words in zip(kept, self._warnings(published, kept), strict=True):
            if words:
                flagged[self._state(published, tally.round)] += 1
                if self._is_news(published, tally.round):
                    found.append(f"survey {published.name}, round {tally.round}: {words}")
        for state, count in flagged.items():
            self._rounds.labels(published.id, state).set(count)
        self._shown.add(published.id)
        return found

    def _warnings(
        self, published: PublishedSurvey, tallies: Sequence[RoundTally]
    ) -> list[str | None]:
        """Of each; those whose reports have become more are tested again, all at once."""
        keys, survey = [(published.id, tally.round) for tally in tallies], published.survey
        news = {
            key: tally
            for key, tally in zip(keys, tallies, strict=True)
            if key not in self._seen or self._seen[key].reports != tally.reports
        }
        fits = round_fits(survey, [*news.values()])
        for (key, tally), each in zip(news.items(), fits, strict=True):
            self._seen[key] = _Seen(tally.reports, warning(survey, tally, each))
        return [self._seen[key].warning for key in keys]

    def _state(self, published: PublishedSurvey, number: int) -> str:
        taken = self._clock.now() < published.survey.taken_until(number)
        return "open" if taken and not published.closed else "closed"

    def _is_news(self, published: PublishedSurvey, number: int) -> bool:
        key, today = (published.id, number), self._clock.now().date()
        said, self._said[key] = self._said.get(key), today
        return said != today


@contextmanager
def _going_on(where: str) -> Iterator[None]:
    try:
        yield
    except StoreUnusable as error:
        log.warning("%s; forged reports are looked for again in %s", error, where)
    except Exception:
        log.exception("no forged reports could be looked for in %s", where)
