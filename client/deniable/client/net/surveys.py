"""The choice of a survey from the server's list, which is fetched, verified and cached.

The list is the same for everyone and is fetched as a whole, so the request does not reveal which
survey the app needs. A survey counts only if a key of the policy has signed it, its bytes hash to
its id, the policy allows it, and its recomputed probabilities are proved private. All of that is
checked for a list from disk, too, once in each process, and only for the surveys that the app asks
for.

Only one fetch runs at a time, in a thread. A caller waits for it for at most two seconds. The fetch
itself may take longer, and its list is kept for the next call. A fetch that outlives its deadline
is abandoned: its list is not used, and the next fetch starts from the beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from deniable.client.diagnostics import escaped, log_failure, prepare_log
from deniable.client.fork_safety import ForkAware
from deniable.client.net.survey_list import ID, read_list, read_shipped, verified
from deniable.client.net.transport import Reply, Transport, Unreachable
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy, Settings
from deniable.client.signal_safety import lock_wait_of_call
from deniable.client.state import Transaction, outbox, survey_cache
from deniable.client.state.store import UNUSABLE, State
from deniable.client.state.survey_cache import KeptList, ListedSurvey, Pause
from deniable.shared.errors import DeniableError, UntrustedSurvey

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

FRESH_SECONDS = 3600
DAY_SECONDS = 86_400
SETTLED_SECONDS = 35 * DAY_SECONDS  # shows the server no more than a monthly survey does
FETCH_SECONDS = 2.0  # maximum wait of a caller
LIST_TIMES = 2.0  # multiple of the timeout of other exchanges, since a list is longer than a reply
MAX_PAUSE_SECONDS = 300.0
JUDGE_SECONDS = 1.0  # of CPU in one call, after which no other survey is judged
MAX_REFUSED = 100  # surveys whose refusal is remembered
UNJUDGED = "too many surveys have this name; the others are judged later"


class When(NamedTuple):
    """Round that answers are about: the one of today, or the last one that has ended."""

    today: date
    ended: bool = False

    def round_of(self, survey: Survey) -> int | None:
        return survey.round_to_answer(self.today, self.ended)

    def obstacle(self, survey: Survey) -> str:
        """Return why a survey has no such round."""
        if self.ended:
            return "has no ended round whose reports are still accepted"
        return f"is open from {survey.opens} to {survey.closes}"


class Found(NamedTuple):
    """Survey that may be answered now, according to its document."""

    id: str
    survey: Survey
    same: tuple[str, ...] = ()  # ids of other surveys of this name with the same questions
    shared: tuple[str, ...] = ()  # those of them whose drafts this survey may redraw
    key: str = ""  # that signed it


class Seen(NamedTuple):
    """List on disk, and the number of successful fetches in this process before it was read."""

    kept: KeptList
    fetches: int
    pause: Pause


Obstacle = Callable[["Survey"], str | None]  # the reason why the app cannot answer a survey


class Surveys:
    """Surveys of one server that the app's policy trusts."""

    def __init__(
        self, settings: Settings, state: State, transport: Transport, wake: Callable[[], None]
    ) -> None:
        """Prepare to fetch lists. `wake` starts the sender after a list that has epochs."""
        self._wake = wake
        self._state, self._policy, self._now = state, settings.policy, settings.now
        self._server = settings.server
        self._fetcher = ListFetcher(settings, transport, self._keep, self._pace)
        self._verified: dict[str, Survey] = {}
        self._refused: dict[ListedSurvey, str] = {}  # with the reason

    def seen(self, db: Transaction) -> Seen:
        fetches = self._fetcher.successes  # read first, or a fetch in between would be missed
        kept = survey_cache.kept_list(db, self._server, self._policy.fingerprint)
        return Seen(kept, fetches, survey_cache.kept_pause(db, self._server))

    def listed(self, kept: KeptList, wanted: str) -> list[ListedSurvey]:
        """Return the entries of this name or id."""
        by_id = ID.fullmatch(wanted) is not None  # a name never looks like an id
        return [entry for entry in kept.surveys if wanted == (entry.id if by_id else entry.name)]

    def known(self, wanted: str, when: When, seen: Seen, obstacle: Obstacle) -> Found | None:
        """Return the choice of `find` if it needs no network and no verification."""
        listed = self.listed(seen.kept, wanted)
        if all(self._is_judged(entry) for entry in listed):
            choice, fresh = self._choose(seen.kept, wanted, when, obstacle)
            if fresh and isinstance(choice, Found):
                return choice
        return None

    def find(self, wanted: str, when: When, seen: Seen, obstacle: Obstacle) -> Found | Outcome:
        """Return the newest open survey of this name without an obstacle, or the survey of this id.

        Return an Outcome with the reason if there is none. If the caller's list is stale or has no
        such survey, fetch a new list. After a failure, a stale list is used and refreshed behind
        the caller, so that no app waits again and again for a server that does not respond.
        """
        choice, fresh = self._choose(seen.kept, wanted, when, obstacle)
        if fresh and isinstance(choice, Found):
            return choice
        self._fetcher.resume(seen.pause)
        if isinstance(choice, Found) and self._fetcher.failures:
            self._fetcher.refresh(seen.fetches)
            return choice
        if self._fetcher.fetch(seen.fetches):
            with self._state.transaction(durable=False) as db:
                seen = self.seen(db)
            choice, fresh = self._choose(seen.kept, wanted, when, obstacle)
        self._pace(isinstance(choice, Found) and fresh)
        if isinstance(choice, Outcome) and choice.status == "no-survey" and not fresh:
            why = self._fetcher.failure or "the last attempt was a moment ago"
            detail = f"the list of surveys could not be fetched ({why}); try again later"
            return Outcome("unavailable", detail)
        return choice

    def on_disk(
        self, wanted: str, when: When, seen: Seen, obstacle: Obstacle = lambda _: None
    ) -> Found | Outcome:
        """Return the choice of `find` without a network."""
        if seen.kept.fetched is None:
            return Outcome("unavailable", "no list of surveys is on disk; call prefetch() first")
        return self._choose(seen.kept, wanted, when, obstacle)[0]

    def open_on_disk(self, when: When, seen: Seen, obstacle: Obstacle) -> Iterator[Found]:
        """Yield the listed surveys that may be answered, as far as they are judged in a second."""
        end = time.thread_time() + JUDGE_SECONDS
        for name in dict.fromkeys(entry.name for entry in seen.kept.surveys if entry.document):
            if time.thread_time() > end:
                return
            if isinstance(found := self.on_disk(name, when, seen, obstacle), Found):
                yield found

    def is_due(self, seen: Seen) -> bool:
        """Return whether to look for a new edition of an answered survey, a day after a failure."""
        rested = abs(self._now().timestamp() - seen.pause.until) >= DAY_SECONDS
        return rested and not seen.kept.is_fresh(self._now(), SETTLED_SECONDS)

    def prefetch(self, seen: Seen, timeout: float) -> bool:
        """Fetch a list unless a fresh one is on disk. Return whether a fresh one is there."""
        if seen.kept.is_fresh(self._now(), FRESH_SECONDS):
            return True
        self._fetcher.resume(seen.pause)
        self._fetcher.fetch(seen.fetches, timeout)
        with self._state.read() as db:
            fresh = self.seen(db).kept.is_fresh(self._now(), FRESH_SECONDS)
        self._pace(fresh)
        return fresh

    def forget(self) -> None:
        self._verified.clear()
        self._refused.clear()

    def _pace(self, helped: bool) -> None:
        """Pace the fetches, also those of later processes."""
        pause = self._fetcher.pace(helped)
        if pause is not None:
            with suppress(*UNUSABLE), self._state.transaction(durable=False) as db:
                if not self._state.consents.obstacle(db):
                    survey_cache.keep_pause(db, self._server, pause)

    # Choosing

    def _choose(
        self, kept: KeptList, wanted: str, when: When, obstacle: Obstacle
    ) -> tuple[Found | Outcome, bool]:
        """Return the choice from this list, and whether the list is fresh."""
        fresh = kept.is_fresh(self._now(), FRESH_SECONDS)
        return self._newest(self.listed(kept, wanted), wanted, when, obstacle), fresh

    def _newest(
        self, listed: list[ListedSurvey], wanted: str, when: When, obstacle: Obstacle
    ) -> Found | Outcome:
        if not listed:
            detail = f"the server lists no survey with the name or id {wanted!r}"
            return Outcome("no-survey", detail)
        sound = self._sound(listed)
        if not sound:
            detail = escaped(self._refused.get(listed[-1]) or listed[-1].problem or UNJUDGED)
            return Outcome("refused", detail, listed[-1].id)
        answerable = [
            (e, s) for e, s in sound if e.state == "open" and when.round_of(s) is not None
        ]
        fitting = [(e, s) for e, s in answerable if obstacle(s) is None]
        entry, survey = max(
            fitting or answerable or sound, key=lambda pair: (pair[1].opens, pair[0].position)
        )
        if fitting:
            others = [(e.id, s) for e, s in sound if e.id != entry.id]
            same = tuple(id_ for id_, other in others if survey.asks_the_same(other))
            shared = tuple(id_ for id_, other in others if survey.shares_drafts_with(other))
            return Found(entry.id, survey, same, shared, entry.key)
        if answerable:
            return Outcome("refused", obstacle(survey) or "", entry.id)
        closed = "was closed by its owner" if entry.state != "open" else when.obstacle(survey)
        return Outcome("closed", f"survey {survey.name!r} {closed}", entry.id)

    def _sound(self, listed: list[ListedSurvey]) -> list[tuple[ListedSurvey, Survey]]:
        """Return the surveys that may be answered.

        The newest are judged first, for a limited time. A later call judges the others.
        """
        end, judged = time.thread_time() + JUDGE_SECONDS, False
        for entry in reversed(listed):
            if not self._is_judged(entry) and not (judged and time.thread_time() > end):
                self._judge(entry)
                judged = True
        return [(entry, self._verified[entry.id]) for entry in listed if entry.id in self._verified]

    def _is_judged(self, entry: ListedSurvey) -> bool:
        return entry.document is None or entry.id in self._verified or entry in self._refused

    def _judge(self, entry: ListedSurvey) -> None:
        """Verify a survey, or keep the reason why it must not be answered."""
        try:
            self._verified[entry.id] = verified(entry, self._policy)
        except DeniableError as error:
            if len(self._refused) >= MAX_REFUSED:
                self._refused.clear()
            self._refused[entry] = str(error)

    def _keep(self, reply: Reply) -> None:
        listed = read_list(reply, self._policy)
        with self._state.transaction() as db:
            if not self._state.consents.obstacle(db):
                now = self._now()
                survey_cache.keep_list(db, self._server, listed, self._policy.fingerprint, now)
                outbox.send_again(db, self._server, now)
        if any(survey.epochs for survey in listed):
            self._wake()


def shipped_survey(wanted: str, entry: bytes | str, policy: Policy) -> Found | Outcome:
    """Return the survey that ships with an app, if it is the wanted one."""
    try:
        found = Found(*read_shipped(entry, policy))
    except UntrustedSurvey as error:
        return Outcome("refused", str(error))
    if wanted not in (found.id, found.survey.name):
        return Outcome("no-survey", f"the survey that ships with the app is not {wanted!r}")
    return found


class _Fetch:
    def __init__(self, deadline: float, awaited: bool) -> None:
        self.deadline, self.awaited = deadline, awaited
        self.lock_wait = lock_wait_of_call()  # the caller waits for this thread's locks
        self.done, self.succeeded = threading.Event(), False


class ListFetcher(ForkAware):
    """Fetcher of the list. `keep` stores the list of a reply, or raises Unreachable.

    `paced` records whether a fetch helped that no caller waited for.
    """

    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        keep: Callable[[Reply], None],
        paced: Callable[[bool], None],
    ) -> None:
        self.list_seconds = LIST_TIMES * settings.timeout  # for the whole list, on a slow line
        self._transport, self._keep, self._paced = transport, keep, paced
        self._now, self._monotonic = settings.now, settings.monotonic
        super().__init__()

    def remake(self) -> None:
        self._lock = threading.Lock()
        self._fetch: _Fetch | None = None
        self.successes = 0  # number of successful fetches in this process
        self.failures = 0  # number of fetches in a row that did not help
        self._resumed = False
        self.failure = ""  # the reason why the last fetch brought no list
        self._pause_until = 0.0

    def fetch(self, seen: int, wait: float | None = None) -> bool:
        """Fetch a list unless one was fetched since `seen`. Return whether there is a newer one."""
        fetch = self._begin(seen, awaited=True)
        if isinstance(fetch, bool):
            return fetch
        if not fetch.done.wait(FETCH_SECONDS if wait is None else wait):
            self.failure = "no reply yet; the fetch continues in the background"
        return fetch.succeeded

    def refresh(self, seen: int) -> None:
        """Fetch a list in the background."""
        self._begin(seen, awaited=False)

    def resume(self, pause: Pause) -> None:
        """Continue the pause of an earlier process."""
        self.same_process()
        with self._lock:
            if not self._resumed:
                self._resumed, self.failures = True, pause.failures
                rest = min(max(0.0, pause.until - self._now().timestamp()), MAX_PAUSE_SECONDS)
                self._pause_until = self._monotonic() + rest

    def _begin(self, seen: int, awaited: bool) -> _Fetch | bool:
        """Return the fetch in progress, or whether a newer list came without one."""
        self.same_process()
        _load_libraries()
        with self._lock:
            if self.successes > seen:
                return True  # by another thread, in the meantime
            if self._monotonic() < self._pause_until:
                return False
            fetch = self._fetch
            if fetch is None or fetch.done.is_set() or self._monotonic() >= fetch.deadline:
                fetch = self._fetch = self._start(awaited)
            fetch.awaited = fetch.awaited or awaited
        return fetch

    def pace(self, helped: bool) -> Pause | None:
        """Slow down fetches that did not help: no pause at first, then 2, 4, 8 ... seconds.

        Return the pause, unless there was none before and there is none now.
        """
        self.same_process()
        with self._lock:
            before, self.failures = self.failures, 0 if helped else self.failures + 1
            doublings = min(self.failures - 1, 20)
            pause = min(MAX_PAUSE_SECONDS, 2.0**doublings) if self.failures > 1 else 0
            if self._monotonic() >= self._pause_until:
                self._pause_until = self._monotonic() + pause
            rest = max(0.0, self._pause_until - self._monotonic())
        if not before and not self.failures:
            return None
        return Pause(self.failures, self._now().timestamp() + rest)

    def _start(self, awaited: bool) -> _Fetch:
        fetch = _Fetch(self._monotonic() + self.list_seconds, awaited)
        try:
            threading.Thread(
                target=self._run, args=(fetch,), name="deniable-surveys", daemon=True
            ).start()
        except RuntimeError:  # the interpreter is ending
            fetch.done.set()
        return fetch

    def _run(self, fetch: _Fetch) -> None:
        try:
            reply = self._transport.request("GET", "/v1/surveys", None, None, self.list_seconds)
            with self._lock:
                abandoned = self._fetch is not fetch
            if abandoned:
                return
            fetch.lock_wait.share(partial(self._keep, reply))
            with self._lock:
                self.successes += 1
            fetch.succeeded = True
        except Unreachable as error:
            self.failure = escaped(str(error))
            log_failure(error.kind, f"the list of surveys could not be fetched: {self.failure}")
        except UNUSABLE:
            self.failure = "the state on disk cannot be used"
            log_failure("state", self.failure)
        finally:
            fetch.done.set()
            if not fetch.awaited:
                self._paced(fetch.succeeded)


def _load_libraries() -> None:
    """Load the libraries first, so that the two seconds are spent on the network alone."""
    import certifi  # noqa: F401
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401

    from deniable.client.net import exchange  # noqa: F401

    prepare_log()
