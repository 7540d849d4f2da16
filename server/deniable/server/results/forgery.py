"""Forgery check: rounds whose counts honest reports cannot give, for results, the log and a gauge.

A round is flagged with a lower bound on the number of forged reports and on how far these can move
an estimate. Forged reports that look like honest ones are not detected; only their leverage bounds
what they do.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from deniable.server.estimation.forgery_test import Fit as Misfit
from deniable.server.estimation.forgery_test import fits
from deniable.server.results.display import STYLES
from deniable.server.results.document import Fit
from deniable.server.results.estimate_cache import Counts, EstimateCache, per_round, stack
from deniable.server.results.round_selection import is_open
from deniable.server.store import PublishedSurvey, RoundTally, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

if TYPE_CHECKING:
    from prometheus_client import Gauge

NO_REPORT = Fit(p_value=1.0, forged=0, shift=0.0, sentence="There are no reports yet.")
CHECK_INTERVAL_SECONDS = 60.0
STATES = ("open", "closed")

log = logging.getLogger("deniable.server")


def round_fits(
    survey: Survey, tallies: Sequence[RoundTally | None], cache: EstimateCache
) -> list[dict[str, Fit]]:
    """Return the forgery check of every question, for each of these rounds."""
    checks = {
        question.name: _question_fits(survey, question, tallies, cache)
        for question in survey.questions
    }
    return [dict(zip(checks, row, strict=True)) for row in zip(*checks.values(), strict=True)]


def warning(survey: Survey, tally: RoundTally | None, found: Mapping[str, Fit]) -> str | None:
    """Return what to say before any figure of the round; None where honest reports can give it."""
    parts = [
        f"{question.name}: at least {fit.forged:,} of {tally.of(survey, question)[0]:,} reports "
        f"cannot be honest; these alone can move an estimate by up to {_shift(question, fit.shift)}"
        for question in survey.questions
        if tally is not None and (fit := found[question.name]).forged
    ]
    if not parts:
        return None
    return (
        "this round contains forged reports; do not rely on its figures. "
        f"{'; '.join(parts)}. There may be more that look like honest ones"
    )


def _question_fits(
    survey: Survey, question: Question, tallies: Sequence[RoundTally | None], cache: EstimateCache
) -> list[Fit]:
    def check(batch: Sequence[Counts]) -> list[Fit]:
        misfits = fits(question.mechanism, *stack(batch), len(survey.questions))
        pairs = zip(batch, misfits, strict=True)
        return [_fit(question, counts.reports, misfit) for counts, misfit in pairs]

    counts = [Counts.of(survey, question, tally) for tally in tallies if tally]
    purpose = "fit", len(survey.questions)
    known = iter(per_round(cache, purpose, question, counts, check, lambda _: 1))
    return [next(known) if tally else NO_REPORT for tally in tallies]


def _fit(question: Question, reports: int, misfit: Misfit) -> Fit:
    share = misfit.forged / reports if misfit.forged else 0.0
    shift = share * question.mechanism.leverage * question.span
    probability = "1" if misfit.p_value >= 1 else f"below {misfit.p_value:.1g}"
    if misfit.forged:
        sentence = (
            f"Honest reports are this far outside with probability {probability}: at least "
            f"{misfit.forged:,} of {reports:,} are forged, and these alone can move an estimate by "
            f"up to {_shift(question, shift)}."
        )
    else:
        sentence = (
            f"Honest reports can give these counts (p {probability}). Forgeries that mimic honest "
            "reports cannot be detected."
        )
    return Fit(p_value=misfit.p_value, forged=misfit.forged, shift=shift, sentence=sentence)


def _shift(question: Question, shift: float) -> str:
    style = STYLES[question.statistic]
    return f"{style.factor * shift:,.3g}{style.behind_margin(question.unit)}"


class _Checked(NamedTuple):
    reports: int
    warning: str | None


class ForgeryMonitor:
    """Checks every round that still counts reports, once a minute, for the log and a gauge.

    Rounds whose envelopes are purged no longer change; only their results show the warning. A check
    that fails is logged and repeated: reports are counted without it.
    """

    def __init__(
        self, store: Store, catalogue: Catalogue, clock: Clock, gauge: Gauge, cache: EstimateCache
    ) -> None:
        self._store, self._catalogue, self._clock = store, catalogue, clock
        self._gauge, self._cache = gauge, cache
        self._checked: dict[tuple[str, int], _Checked] = {}
        self._logged: dict[tuple[str, int], date] = {}
        self._shown = set[str]()

    def start(self) -> None:
        """Check in a thread of its own for as long as the process lives."""
        threading.Thread(target=self._run, name="forgery", daemon=True).start()

    def check(self) -> None:
        """Check every round that has new reports.

        Each round is logged at most once a day; all warnings of one check are one log record.
        """
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
        for known in (self._checked, self._logged):
            for survey, number in [*known]:
                if number not in watched.get(survey, ()):
                    del known[survey, number]

    def _check_survey(self, published: PublishedSurvey, numbers: set[int]) -> list[str]:
        """Return the warnings to log today, and set the gauge."""
        flagged, news = Counter(dict.fromkeys(STATES, 0)), list[str]()
        tallies = self._store.tallies(published.sequence, min(numbers), max(numbers))
        kept = [tally for tally in tallies if tally.round in numbers]
        for tally, words in zip(kept, self._warnings(published, kept), strict=True):
            if words:
                still_open = is_open(published, tally.round, self._clock.now())
                flagged[STATES[not still_open]] += 1
                if self._is_news(published, tally.round):
                    news.append(f"survey {published.name}, round {tally.round}: {words}")
        for state, count in flagged.items():
            self._gauge.labels(published.id, state).set(count)
        self._shown.add(published.id)
        return news

    def _warnings(
        self, published: PublishedSurvey, tallies: Sequence[RoundTally]
    ) -> list[str | None]:
        """Return the warning of each round; only those with new reports are checked again."""
        keys, survey = [(published.id, tally.round) for tally in tallies], published.survey
        news = {
            key: tally
            for key, tally in zip(keys, tallies, strict=True)
            if key not in self._checked or self._checked[key].reports != tally.reports
        }
        checked = round_fits(survey, [*news.values()], self._cache)
        for (key, tally), found in zip(news.items(), checked, strict=True):
            self._checked[key] = _Checked(tally.reports, warning(survey, tally, found))
        return [self._checked[key].warning for key in keys]

    def _is_news(self, published: PublishedSurvey, number: int) -> bool:
        key, today = (published.id, number), self._clock.now().date()
        last, self._logged[key] = self._logged.get(key), today
        return last != today


@contextmanager
def _logging_failures(place: str) -> Iterator[None]:
    try:
        yield
    except StoreUnusable as error:
        log.warning("%s; the forgery check of %s is repeated later", error, place)
    except Exception:
        log.exception("the forgery check of %s failed", place)
