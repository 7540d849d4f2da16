"""Surveys: the server's whole list, fetched now and then, verified and kept.

The list is the same for everyone, and asked for as a whole: the request does not tell which survey
the app means. A survey counts only if a key of the policy has signed it, its bytes hash to its id,
the policy's pins name it, and its probabilities, computed anew, prove to be private. All of
that is checked again for what comes from disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from deniable.client.consent import Consents
from deniable.client.escaping import escaped
from deniable.client.net.fetching import Fetching
from deniable.client.net.listing import ID, read_list, verified
from deniable.client.net.transport import Reply, Transport
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import Transaction
from deniable.client.state.connection import State
from deniable.client.state.surveys import KeptList, ListedSurvey, keep_list, kept_list
from deniable.shared.errors import DeniableError

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

FRESH_SECONDS = 3600


@dataclass(frozen=True)
class Found:
    """A survey that may be answered today, as far as its own document says."""

    id: str
    survey: Survey
    same: tuple[str, ...] = ()  # ids of others of this name that ask the same


@dataclass(frozen=True)
class Seen:
    """The list on disk, and how many fetches had ended well in this process when it was read."""

    kept: KeptList
    fetches: int


Obstacle = Callable[["Survey"], str | None]  # why the app cannot answer a survey


class Surveys:
    def __init__(
        self,
        state: State,
        policy: Policy,
        server: str,
        transport: Transport,
        consents: Consents,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        timeout: float,
    ) -> None:
        self._state, self._policy, self._consents, self._now = state, policy, consents, now
        self.server = server
        self._fetching = Fetching(transport, self._keep, monotonic, timeout)
        self._verified: dict[str, Survey] = {}

    def seen(self, db: Transaction) -> Seen:
        # Before the list is read, or a fetch in between would be missed.
        fetches = self._fetching.ended_well
        return Seen(kept_list(db, self.server, self._policy.fingerprint), fetches)

    def known(self, wanted: str, today: date, seen: Seen, obstacle: Obstacle) -> Found | None:
        """What `find` would find without the network, where that takes no time."""
        meant = self._meant(seen.kept, wanted)
        if all(each.document is None or each.id in self._verified for each in meant):
            choice, fresh = self._choose(seen.kept, wanted, today, obstacle)
            if fresh and isinstance(choice, Found):
                return choice
        return None

    def find(self, wanted: str, today: date, seen: Seen, obstacle: Obstacle) -> Found | Outcome:
        """The newest open survey of this name that has no obstacle, or the one of this id; else
        why there is none.

        If the list that the caller has seen on disk does not do, a new one is fetched.
        """
        choice, fresh = self._choose(seen.kept, wanted, today, obstacle)
        if fresh and isinstance(choice, Found):
            return choice
        if self._fetching.fetch(seen.fetches):
            with self._state.transaction(durable=False) as db:
                seen = self.seen(db)
            choice, fresh = self._choose(seen.kept, wanted, today, obstacle)
        self._fetching.pace(isinstance(choice, Found) and fresh)
        if isinstance(choice, Outcome) and choice.status == "no-survey" and not fresh:
            why = self._fetching.failure or "it is not asked for again so soon"
            return Outcome(
                "unavailable", f"the list of surveys could not be fetched ({why}); try again later"
            )
        return choice

    def on_disk(self, wanted: str, today: date, seen: Seen) -> Found | Outcome:
        """As `find`, whatever the survey asks for, and without a network."""
        if seen.kept.fetched is None:
            return Outcome("unavailable", "no list of surveys is on disk; call prefetch() first")
        return self._choose(seen.kept, wanted, today, lambda _: None)[0]

    def prefetch(self, seen: Seen, timeout: float) -> bool:
        """Whether a fresh list is on disk, fetched if need be."""
        kept = seen.kept
        if not kept.is_fresh(self._now(), FRESH_SECONDS):
            self._fetching.fetch(seen.fetches, timeout)
            with self._state.transaction() as db:
                kept = self.seen(db).kept
            self._fetching.pace(kept.is_fresh(self._now(), FRESH_SECONDS))
        return kept.is_fresh(self._now(), FRESH_SECONDS)

    def forget(self) -> None:
        self._verified.clear()

    # Choosing

    def _choose(
        self, kept: KeptList, wanted: str, today: date, obstacle: Obstacle
    ) -> tuple[Found | Outcome, bool]:
        """The choice from this list, and whether the list is fresh."""
        fresh = kept.is_fresh(self._now(), FRESH_SECONDS)
        return self._newest(self._meant(kept, wanted), wanted, today, obstacle), fresh

    def _meant(self, kept: KeptList, wanted: str) -> list[ListedSurvey]:
        by_id = ID.fullmatch(wanted) is not None  # and then no name is meant
        return [each for each in kept.surveys if wanted == (each.id if by_id else each.name)]

    def _newest(
        self, meant: list[ListedSurvey], wanted: str, today: date, obstacle: Obstacle
    ) -> Found | Outcome:
        if not meant:
            return Outcome(
                "no-survey", f"the server lists no survey with the name or id {wanted!r}"
            )
        sound = [(each, survey) for each in meant if (survey := self._verify(each))]
        if not sound:
            return Outcome(
                "refused",
                escaped(meant[-1].problem or "") or "the copy of the survey on disk was changed",
                meant[-1].id,
            )
        answerable = [(e, s) for e, s in sound if e.state == "open" and s.is_open(today)]
        fitting = [(e, s) for e, s in answerable if obstacle(s) is None]
        entry, survey = max(
            fitting or answerable or sound, key=lambda pair: (pair[1].opens, pair[0].position)
        )
        if fitting:
            others = [(e.id, s) for e, s in sound if e.id != entry.id]
            same = tuple(id_ for id_, other in others if survey.asks_the_same(other))
            return Found(entry.id, survey, same)
        if answerable:
            return Outcome("refused", obstacle(survey) or "", entry.id)
        closed = (
            "was closed by its owner"
            if entry.state != "open"
            else (f"is open from {survey.opens} to {survey.closes}")
        )
        return Outcome("closed", f"survey {survey.name!r} {closed}", entry.id)

    def _verify(self, listed: ListedSurvey) -> Survey | None:
        """Memoized in each process, as the policy does not change; None: a survey not to answer."""
        if listed.document is None:
            return None
        if listed.id not in self._verified:
            try:
                self._verified[listed.id] = verified(listed, self._policy)
            except DeniableError:
                return None  # it is not as it was verified: fetched again
        return self._verified[listed.id]

    def _keep(self, reply: Reply) -> None:
        listed = read_list(reply, self._policy)
        with self._state.transaction() as db:
            if not self._consents.obstacle(db):
                keep_list(db, self.server, listed, self._policy.fingerprint, self._now())
