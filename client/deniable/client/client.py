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
from deniable.client.consent import NOT_GIVEN, Consent, write_consent
from deniable.client.ephemeral import thrown_away
from deniable.client.net.surveys import Found, Seen, Surveys
from deniable.client.net.transport import HttpTransport, Transport, checked_address
from deniable.client.net.uploader import Uploader
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import outbox, schema
from deniable.client.state.connection import State, StateBusy
from deniable.client.state.ledger import Ledger, read_ledger
from deniable.shared.errors import InvalidAnswer, InvalidPolicy, StoreUnusable, UntrustedSurvey
from deniable.shared.privacy.randomness import Draw, kernel_draw

CLOSE_SECONDS = 1.0
LONGEST_TIMEOUT = 3600.0
EXIT_SECONDS = 2.0  # for all clients together, when the process ends

if TYPE_CHECKING:
    from deniable.client.budget import Budget
    from deniable.client.describing import Description
    from deniable.client.sent import Summary
    from deniable.shared.survey.document import Survey


def utc_now() -> datetime:
    return datetime.now(UTC)


class Client:
    """One install of an app. Make one in each process; threads may share it, forks too.

    No method raises for what a network, a disk, a server or a survey does. A mistake in the app's
    own code raises: InvalidPolicy for a policy or address that makes no sense, InvalidAnswer for a
    name that the policy does not declare.
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
        carrier = transport or HttpTransport(server, ca=ca, proxy=proxy)
        self._state, self._consent, self._now = State(state), Consent(), now
        if reason := thrown_away():
            raise InvalidPolicy(reason)
        self._policy = policy
        self._surveys = Surveys(
            self._state, policy, server, carrier, self._consent, now, monotonic, timeout
        )
        self._answering = Answering(
            self._state, policy, self._surveys, self._consent, now, draw, send_within
        )
        self._uploader = Uploader(
            self._state, server, carrier, self._consent, now, monotonic, timeout, send_within
        )
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._server!r}, state={str(self._state.folder)!r})"

    @property
    def consented(self) -> bool | None:
        """Whether the person agreed, or refused; None if nobody has asked: only then ask."""
        if self._consent.withdrawn or not self._state.begun:
            return False if self._consent.withdrawn else None
        try:
            with self._state.transaction() as db:
                return self._consent.recorded(db)
        except StoreUnusable:
            return None

    def consent(self, given: bool) -> bool:
        """Remember that the person agrees, or withdraw. Returns whether it is on disk.

        Until consent is given, nothing is stored, fetched or sent. Withdrawing deletes what was not
        sent yet; even if the disk fails, this object makes and sends no further report. Ask while
        `consented` is None: consent that is given at each start overrides a withdrawal.
        """
        if not isinstance(given, bool):
            raise TypeError(f"consent is True or False, got {type(given).__name__}")
        self._consent.unkept = ""
        if not given:
            self._consent.withdrawn = True
        if not given and not self._state.begun:
            return True
        try:
            with self._state.transaction(create=given) as db:
                write_consent(db, given)
                if not given:
                    outbox.withdraw_all(db)
        except StoreUnusable as error:
            self._consent.unkept = str(error) if given else ""
            return False
        self._consent.withdrawn = not given
        return True

    def answer(self, survey: str, /, **answers: object) -> Outcome:
        """Randomize the answers to a survey, by its name or id, and queue the report.

        Call it for everyone, whatever the answers are: whether anyone is asked must not depend on
        what is true. Every value is answered at the same charge: one that does not fit, None too,
        goes to the option that takes the others, or is drawn at random (`Outcome.unfit`).
        Waits at most 2 s for the network, and only if no fresh list is on disk. Raises nothing but
        InvalidAnswer, for a name that the app's own policy does not declare.
        """
        self._refuse_undeclared(answers)
        if self._consent.withdrawn:
            return Outcome("no-consent", "consent was withdrawn")
        try:
            outcome = self._answering.answer(survey, answers)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))
        if outcome.status == "queued":
            _register_exit_hook(self)
            self._uploader.wake()
        return outcome

    async def aanswer(self, survey: str, /, **answers: object) -> Outcome:
        """`answer` for asyncio: in a thread, so that the loop goes on whatever network or disk do.

        If it is cancelled, the answer may be on its way all the same; asked again in this round,
        it is `already-answered`, and charged once.
        """
        import asyncio

        self._refuse_undeclared(answers)
        return await asyncio.to_thread(self.answer, survey, **answers)

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

    def sent(self) -> Summary | Outcome:
        """What left this device, or waits to: every report in words. Needs no network."""
        from deniable.client.sent import summary

        try:
            return summary(self._state)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))

    def budget(self) -> Budget | Outcome:
        """What was spent and what is left, in all and per question. Needs no network."""
        from deniable.client.budget import budget

        try:
            if not self._state.begun:
                return budget(Ledger(), self._policy)
            with self._state.transaction() as db:
                return budget(read_ledger(db), self._policy)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))

    def flush(self, timeout: float = 2.0) -> int:
        """Send what waits now, for at most `timeout` seconds; returns how many reports still wait.

        Also 0 if the state cannot be used: then nothing can be sent.
        """
        try:
            if not self._state.begun or self._consent.withdrawn:
                return 0
            with self._state.transaction() as db:
                outbox.delete_expired(db, self._now())
                if self._consent.obstacle(db):
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
        """Erase keys, unsent reports, the history of what was sent, cached surveys and consent.

        What was spent, and for which surveys and rounds, stays: erasing must not refill a budget,
        or anyone could be asked again and again. Returns whether it is done. A damaged database is
        deleted, and the client then stays unavailable in this folder.
        """
        self._consent.withdrawn = True
        self._surveys.forget()
        if not self._state.begun:
            return True
        try:
            with self._state.transaction() as db:
                schema.erase(db)
        except StateBusy:
            return False
        except StoreUnusable:
            return self._state.destroy()
        return True

    def _listed(self) -> Seen | Outcome:
        """The list on disk, if there is consent."""
        if self._consent.withdrawn or not self._state.begun:
            return Outcome("no-consent", NOT_GIVEN)
        with self._state.transaction() as db:
            return self._consent.obstacle(db) or self._surveys.seen(db)

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

    def _refuse_undeclared(self, answers: dict[str, object]) -> None:
        if (name := self._policy.undeclared(answers)) is not None:
            answers.clear()  # a traceback shows this frame and the caller's
            raise InvalidAnswer(name)

    def _resume(self) -> None:
        """Go on sending what an earlier process has left."""
        if not self._state.begun:
            return
        with suppress(StoreUnusable):
            with self._state.transaction() as db:
                outbox.delete_expired(db, self._now())
                left = not self._consent.obstacle(db) and outbox.waiting(db, self._server)
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
