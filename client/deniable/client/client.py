"""The client: what an app calls to let its users answer surveys that hold nobody's answer."""

from __future__ import annotations

import atexit
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from deniable.client.answering import Answering
from deniable.client.consent import NOT_GIVEN, Consents
from deniable.client.ephemeral import thrown_away
from deniable.client.net.surveys import Found, Seen, Surveys
from deniable.client.net.transport import HttpTransport, Transport, checked_address
from deniable.client.net.uploader import Uploader
from deniable.client.outcome import Outcome
from deniable.client.person import Person
from deniable.client.policy import Policy
from deniable.client.state import outbox
from deniable.client.state.connection import State
from deniable.client.state.people import Identity
from deniable.shared.errors import InvalidPolicy, StoreUnusable, UntrustedSurvey
from deniable.shared.privacy.randomness import Draw, kernel_draw

CLOSE_SECONDS = 1.0
LONGEST_TIMEOUT = 3600.0
EXIT_SECONDS = 2.0  # for all clients together, when the process ends

if TYPE_CHECKING:
    from deniable.client.describing import Description
    from deniable.shared.survey.document import Survey


def utc_now() -> datetime:
    return datetime.now(UTC)


class Client(Person):
    """One install of an app. Make one in each process; threads may share it, forks too.

    server       the address that surveys come from and reports go to, https but on this machine
    policy       the app's own limits
    state        the folder for ledger, keys and reports: kept, and of this machine alone
    send_within  seconds: each report waits for a random moment within them
    ca           a file of certificates instead of the usual authorities
    proxy        an HTTP proxy that is asked for a tunnel
    timeout      seconds for one exchange as a whole
    relay        where sealed reports are sent, and nothing else

    The other arguments replace clock, noise and network, and are for tests.

    No method raises for what a network, a disk, a server or a survey does. A mistake in the app's
    own code raises: InvalidPolicy for a policy or address that makes no sense, InvalidAnswer for a
    name that the policy does not declare, InvalidPerson for an id that names nobody.
    """

    def __init__(
        self,
        server: str,
        *,
        policy: Policy,
        state: str | os.PathLike[str],
        now: Callable[[], datetime] = utc_now,
        draw: Draw = kernel_draw,
        transport: Transport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        send_within: float = 60.0,
        ca: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
        timeout: float = 10.0,
        relay: str | None = None,
    ) -> None:
        if not 0 <= send_within < math.inf:
            raise InvalidPolicy(f"send_within: give seconds, 0 or more, got {send_within!r}")
        if not 0 < timeout <= LONGEST_TIMEOUT:
            raise InvalidPolicy(f"timeout: give seconds above 0, up to an hour, got {timeout!r}")
        if not isinstance(policy, Policy):
            raise InvalidPolicy(
                f"policy: pass a deniable.client.Policy, got {type(policy).__name__}"
            )
        server = self._server = checked_address(server)
        if reason := thrown_away():
            raise InvalidPolicy(reason)
        carrier = transport or HttpTransport(server, ca=ca, proxy=proxy)
        between = None if relay is None else HttpTransport(relay, ca=ca, proxy=proxy)
        kept, consents = State(state), Consents()
        self._now = now
        self._surveys = Surveys(kept, policy, server, carrier, consents, now, monotonic, timeout)
        answering = Answering(kept, policy, self._surveys, now, draw, send_within)
        self._uploader = Uploader(
            kept, server, carrier, consents, now, monotonic, timeout, send_within, between
        )
        super().__init__(Identity(None), kept, policy, answering, consents, self._report_queued)
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._server!r}, state={str(self._state.folder)!r})"

    def person(self, id: str, /) -> Person:  # noqa: A002 - positional
        """One of many people who share this client, by the app's own id for them.

        Their ledger, consent, keys, reports and history are theirs alone; the id is kept nowhere,
        only a keyed hash of it. Nobody's id is the install's own person: that is the client itself.
        """
        if not isinstance(id, str):
            raise TypeError(f"a person's id is a text, got {type(id).__name__}")
        identity = Identity(id)
        return Person(
            identity, self._state, self._policy, self._answering, self._consents, self._queued
        )

    def prefetch(self, timeout: float = 10.0) -> bool:
        """Fetch the list of surveys ahead of the first answer, if consent is given.

        Returns whether a fresh list is on disk, after `timeout` seconds at most.
        """
        try:
            seen = self._listed()
            return not isinstance(seen, Outcome) and self._surveys.prefetch(seen, timeout)
        except StoreUnusable:
            return False

    def describe(
        self, survey: str, /, *, shipped: bytes | str | None = None
    ) -> Description | Outcome:
        """What a person is told about a survey: what it asks, why, and what it gives away.

        It is read from the list on disk, without a network. Before consent there is none: pass the
        survey that ships with the app, as `deniable survey show NAME --json` has printed it.
        Returns an Outcome that says why, where there is none to describe.
        """
        from deniable.client.describing import describe

        found = self._listed_survey(survey) if shipped is None else self._shipped(survey, shipped)
        return (
            found if isinstance(found, Outcome) else describe(found.id, found.survey, self._policy)
        )

    def survey(self, survey: str, /) -> Survey | Outcome:
        """The survey itself, verified, from the list on disk: for an app that builds its questions
        from it. Returns an Outcome that says why, where there is none."""
        found = self._listed_survey(survey)
        return found if isinstance(found, Outcome) else found.survey

    def flush(self, timeout: float = 2.0) -> int:
        """Send what waits now, for at most `timeout` seconds; returns how many reports still wait.

        Also 0 if the state cannot be used: then nothing can be sent.
        """
        try:
            if not self._state.begun:
                return 0
            with self._state.transaction(durable=False) as db:
                outbox.delete_expired(db, self._now())
                if self._consents.obstacle(db):
                    return outbox.waiting(db, self._server)
            return self._uploader.flush(timeout)
        except StoreUnusable:
            return 0

    def close(self) -> None:
        """Flush for a second at most and end the background thread. What still waits is on disk."""
        _remove_exit_hook(self)
        self.flush(CLOSE_SECONDS)
        self._uploader.stop(CLOSE_SECONDS)
        self._state.close()

    def forget(self) -> bool:
        """Erase keys, unsent reports, the history of what was sent, cached surveys and consent of
        the install's own person.

        What was spent, and for which surveys and rounds, stays: erasing must not refill a budget,
        or anyone could be asked again and again. Returns whether it is done. A damaged database is
        deleted, with all people's, and the client then stays unavailable in this folder.
        """
        self._surveys.forget()
        return super().forget()

    def _given_up(self) -> bool:
        return self._state.destroy()

    def _report_queued(self) -> None:
        _register_exit_hook(self)
        self._uploader.wake()

    def _listed(self) -> Seen | Outcome:
        """The list on disk, if anyone has agreed."""
        if not self._state.begun:
            return Outcome("no-consent", NOT_GIVEN)
        with self._state.transaction(durable=False) as db:
            return self._consents.obstacle(db) or self._surveys.seen(db)

    def _listed_survey(self, wanted: str) -> Found | Outcome:
        try:
            seen = self._listed()
            if isinstance(seen, Outcome):
                return seen
            return self._surveys.on_disk(wanted, self._now().astimezone(UTC).date(), seen)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))

    def _shipped(self, wanted: str, entry: bytes | str) -> Found | Outcome:
        from deniable.client.net.listing import read_shipped

        try:
            found = Found(*read_shipped(entry, self._policy))
        except UntrustedSurvey as error:
            return Outcome("refused", str(error))
        if wanted not in (found.id, found.survey.name):
            return Outcome("no-survey", f"the survey that ships with the app is not {wanted!r}")
        return found

    def _resume(self) -> None:
        """Go on sending what an earlier process has left."""
        if not self._state.begun:
            return
        with suppress(StoreUnusable):
            with self._state.transaction(durable=False) as db:
                outbox.delete_expired(db, self._now())
                left = not self._consents.obstacle(db) and outbox.waiting(db, self._server)
            if left:
                self._uploader.wake()


# The end of the process: what was queued in it gets a last, short try

_queued_in: WeakKeyDictionary[Client, int] = WeakKeyDictionary()  # the process that queued


def _register_exit_hook(client: Client) -> None:
    """For a client that has queued something; it may be garbage-collected before the end."""
    if not _queued_in:
        atexit.unregister(_exit_hook)
        atexit.register(_exit_hook)
    _queued_in[client] = os.getpid()


def _remove_exit_hook(client: Client) -> None:
    _queued_in.pop(client, None)


def _exit_hook(monotonic: Callable[[], float] = time.monotonic) -> None:
    """A forked child leaves to its parent what the parent queued."""
    deadline = monotonic() + EXIT_SECONDS
    for client, process in list(_queued_in.items()):
        if process == os.getpid() and (rest := deadline - monotonic()) > 0:
            client.flush(rest)
