"""Monitor of results: forged reports always, and the alerts that the operator has set.

Once a minute, it checks every round that can still change. Each event is claimed in the store
before it is announced, so one node announces it, at most once, even after restarts.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from hashlib import sha256

from msgspec import UNSET, Struct, UnsetType

from deniable.server.alerts.rules import FORGED, MAX_WATCHED_ROUNDS, AlertSettings, Verdict
from deniable.server.http.context import Parts
from deniable.server.results import SurveyEstimates, select_rounds, sentences, stored_estimates
from deniable.server.results.answers import round_fits, warning
from deniable.server.results.display import difference_figures
from deniable.server.results.survey_estimates import (
    MAX_ROWS,
    estimated_tallies,
    rounds_per_response,
    shown_tallies,
)
from deniable.server.store import PublishedSurvey, RoundState
from deniable.server.store.records import ID_DIGITS
from deniable.server.surveys.catalogue import UnknownSurvey
from deniable.shared.errors import StoreUnusable, WrongUse

CHECK_INTERVAL_SECONDS = 60.0
STATES: tuple[RoundState, ...] = ("open", "collecting", "final")
BEGAN, CEASED = "began", "ceased"

HIDDEN_FORGERY = "this round, whose results are not shown yet, contains forged reports"
log = logging.getLogger("deniable.server")


class Event(Struct, frozen=True, kw_only=True):
    """Announcement for the log and the webhook."""

    id: str  # the same whenever the same event is sent again
    event: str  # rule, change, forgery or silence
    state: str  # began or ceased
    survey: str
    name: str
    round: int
    text: str
    estimate: float | UnsetType = UNSET  # only for rules: the judged interval
    low: float | UnsetType = UNSET
    high: float | UnsetType = UNSET


class Finding(Struct, frozen=True, kw_only=True):
    """Present state of one alert of a survey."""

    event: str
    subject: str  # distinguishes the survey's alerts of this kind
    state: str
    round: int
    text: str
    verdict: Verdict | None = None

    @property
    def key(self) -> str:
        return f"{self.event} {self.subject}".strip()

    def is_news(self, announced: str) -> bool:
        return self.state != announced and (bool(announced) or self.state != CEASED)


class Monitor:
    """Background check of every round that can still change, once a minute.

    It sets a gauge of forged rounds, and logs each forged round once a day. With settings, it also
    announces events. Checks of unchanged counts are cached. Failed checks are logged and repeated.
    """

    def __init__(
        self,
        parts: Parts,
        settings: AlertSettings | None = None,
        post: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        self._store, self._catalogue, self._clock = parts.store, parts.catalogue, parts.clock
        self._gauge, self._cache = parts.metrics.forged, parts.estimates
        self._settings, self._post = settings, post
        self._logged: dict[tuple[str, int], date] = {}
        self._shown = dict[str, tuple[str, str]]()  # labels in the gauge, by survey id
        self._unfit = set[tuple[str, str]]()  # rules whose faults have been logged

    def start(self) -> None:
        """Start a background thread that checks until the process ends."""
        threading.Thread(target=self._run, name="monitor", daemon=True).start()

    def check(self) -> None:
        """Check every round that can still change; log and post what is new."""
        kept, warnings, events = self._store.unsealed_rounds(), list[str](), list[Event]()
        announced = self._store.alert_states() if self._settings else {}
        watched: dict[str, set[int]] = {}
        for published in self._catalogue.surveys():
            numbers = set(kept.get(published.sequence, ()))
            with _logging_failures(f"survey {published.name}"):
                forged = self._forged(published, numbers) if numbers else {}
                if numbers:
                    watched[published.id] = numbers
                    warnings += self._count(published, forged)
                if self._settings and (numbers or published.state_at(self._clock.now()) == "open"):
                    events += self._events(self._settings, published, forged, announced)
        self._forget_all_but(watched)
        if warnings:
            log.warning("%s", "; ".join(warnings))
        if news := [event.text for event in events if event.event != "forgery"]:
            log.warning("alert: %s", "; ".join(news))
        if events and self._post:
            self._post(events)

    def _run(self) -> None:
        while True:
            with _logging_failures("rounds"):
                self.check()
            threading.Event().wait(CHECK_INTERVAL_SECONDS)

    # Forgery

    def _forged(self, published: PublishedSurvey, numbers: set[int]) -> dict[int, str]:
        """Return the warning about each forged round."""
        survey, now = published.survey, self._clock.now()
        tallies, _ = shown_tallies(self._store, published, now, min(numbers), max(numbers))
        kept = [tally for tally in tallies.values() if tally.round in numbers]
        fits = round_fits(survey, kept, self._cache)
        warnings = {
            tally.round: warning(survey, tally, fit) for tally, fit in zip(kept, fits, strict=True)
        }
        shown = estimated_tallies(published, tallies, now)
        return {
            number: words if number in shown else HIDDEN_FORGERY
            for number, words in warnings.items()
            if words
        }

    def _count(self, published: PublishedSurvey, forged: Mapping[int, str]) -> list[str]:
        """Set the gauge, and return the warnings to log today."""
        flagged, news, now = Counter(dict.fromkeys(STATES, 0)), list[str](), self._clock.now()
        for number, words in forged.items():
            flagged[published.round_state(number, now)] += 1
            if self._logged.get((published.id, number)) != now.date():
                news.append(f"survey {published.name}, round {number}: {words}")
            self._logged[published.id, number] = now.date()
        labels = self._shown[published.id] = published.name, published.id[:ID_DIGITS]
        for state, count in flagged.items():
            self._gauge.labels(*labels, state).set(count)
        return news

    def _forget_all_but(self, watched: Mapping[str, set[int]]) -> None:
        for survey in self._shown.keys() - watched.keys():
            labels = self._shown.pop(survey)
            for state in STATES:
                self._gauge.remove(*labels, state)
        for survey, number in [*self._logged]:
            if number not in watched.get(survey, ()):
                del self._logged[survey, number]

    # Alerts

    def _events(
        self,
        settings: AlertSettings,
        published: PublishedSurvey,
        forged: Mapping[int, str],
        announced: Mapping[tuple[int, str], str],
    ) -> Iterator[Event]:
        """Claim the survey's news, and yield those that no other node has claimed."""
        for finding in self._findings(settings, published, forged):
            before = announced.get((published.sequence, finding.key), "")
            if finding.is_news(before) and self._store.change_alert(
                published.sequence, finding.key, before, finding.state
            ):
                yield _event(published, finding, before)

    def _findings(
        self, settings: AlertSettings, published: PublishedSurvey, forged: Mapping[int, str]
    ) -> Iterator[Finding]:
        survey, now = published.survey, self._clock.now()
        most = min(MAX_WATCHED_ROUNDS, rounds_per_response(survey))
        selection = select_rounds(survey, now, max_rounds=most)
        estimates = stored_estimates(self._store, published, now, selection, self._cache, MAX_ROWS)
        for number, words in forged.items():
            yield Finding(
                event="forgery", subject=str(number), state=BEGAN, round=number, text=words
            )
        yield from self._rules(settings, published, estimates)
        yield from _changes(estimates)
        if settings.silent_rounds and published.state_at(now) == "open":
            yield from _silence(estimates, settings.silent_rounds)

    def _rules(
        self, settings: AlertSettings, published: PublishedSurvey, estimates: SurveyEstimates
    ) -> Iterator[Finding]:
        for name, rule in settings.rules():
            try:
                if self._catalogue.find(name).id != published.id:
                    continue
                rule.check(estimates.header.about)
                newest = estimates.newest(rule.question, MAX_WATCHED_ROUNDS)
                verdict = newest and rule.judge(estimates.header, newest)
            except (UnknownSurvey, WrongUse) as error:
                if (name, rule.text) not in self._unfit:
                    log.warning("the alert %r for %s cannot be judged: %s", rule.text, name, error)
                self._unfit.add((name, rule.text))
                continue
            if verdict and (verdict.holds or verdict.is_refuted):
                state, verb = (BEGAN, "holds") if verdict.holds else (CEASED, "no longer holds")
                yield Finding(
                    event="rule",
                    subject=rule.text,
                    state=state,
                    round=verdict.period.round,
                    text=f"{rule.text} {verb}: {verdict.sentence}",
                    verdict=verdict,
                )


def _event(published: PublishedSurvey, finding: Finding, before: str) -> Event:
    key = (published.id, finding.key, before, finding.state, str(finding.round))
    shown = finding.verdict and finding.verdict.figures
    return Event(
        id=sha256("\n".join(key).encode()).hexdigest()[:32],
        event=finding.event,
        state=CEASED if finding.state == CEASED else BEGAN,
        survey=published.id,
        name=published.name,
        round=finding.round,
        text=f"survey {published.name}, round {finding.round}: {finding.text}",
        estimate=shown.estimate if shown else UNSET,
        low=shown.low if shown else UNSET,
        high=shown.high if shown else UNSET,
    )


def _changes(estimates: SurveyEstimates) -> Iterator[Finding]:
    """Yield the clear changes of the newest round, for questions with one estimate.

    The intervals of several options do not hold jointly, so a change of one of them proves little.
    """
    for question in estimates.survey.questions:
        if len(question.labels) != 1:
            continue
        period = estimates.newest(question.name, MAX_WATCHED_ROUNDS)
        change = period and period.change
        rows = change.questions.get(question.name, ()) if change else ()
        if period and change and rows and not rows[0].low <= 0 <= rows[0].high:
            (shown,) = difference_figures(rows, question.statistic, question.unit)
            yield Finding(
                event="change",
                subject=question.name,
                state=f"{period.round:09}",
                round=period.round,
                text=f"{question.name}: {sentences.change(shown, f'round {change.since}')}"
                f"{FORGED if period.warning else ''}",
            )


def _silence(estimates: SurveyEstimates, rounds: int) -> Iterator[Finding]:
    """Yield whether the last `rounds` rounds whose reports are due have none."""
    due = estimates.due[-rounds:]
    if len(due) == rounds:
        is_silent = not any(number in estimates.arrived for number in due)
        text = (
            f"no reports in rounds {due[0]} to {due[-1]}" if is_silent else "reports arrive again"
        )
        state = BEGAN if is_silent else CEASED
        yield Finding(event="silence", subject="", state=state, round=due[-1], text=text)


@contextmanager
def _logging_failures(place: str) -> Iterator[None]:
    try:
        yield
    except StoreUnusable as error:
        log.warning("%s; will retry the check of %s", error, place)
    except Exception:
        log.exception("the check of %s failed", place)
