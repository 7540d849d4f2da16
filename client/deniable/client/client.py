"""The client: an app calls it to let its users answer surveys without revealing their answers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from deniable.client.environment import ephemeral_reason
from deniable.client.net.batches import Batches
from deniable.client.net.surveys import Found, Seen, Surveys, When, shipped_survey
from deniable.client.net.transport import (
    AppTransport,
    HttpTransport,
    Transport,
    checked_address,
)
from deniable.client.net.uploader import Uploader
from deniable.client.outcome import Outcome
from deniable.client.person import Person
from deniable.client.pipeline import AnswerPipeline
from deniable.client.policy import Policy, Settings
from deniable.client.signal_safety import LockWait, lock_wait_of_call, signal_safe
from deniable.client.state import outbox
from deniable.client.state.ledger import NOT_GIVEN, SHOW, Identity, is_on, overruled
from deniable.client.state.store import UNUSABLE, open_state
from deniable.shared.errors import InvalidPolicy
from deniable.shared.privacy.mechanism import Draw, kernel_draw

CLOSE_SECONDS = 1.0
MAX_TIMEOUT_SECONDS = 3600.0
NO_LABELS: Mapping[str, str] = {}

Labels = Mapping[str, str]  # values by name
AnyPath = str | os.PathLike[str]
Address = str | None

if TYPE_CHECKING:
    from deniable.client.disclosure import Description
    from deniable.shared.survey.document import Survey
    from deniable.shared.survey.phrases import Texts


class Replaced(TypedDict, total=False):
    """Clocks, noise and network, which tests can replace."""

    now: Callable[[], datetime]
    draw: Draw
    transport: Transport | None
    monotonic: Callable[[], float]


class Client(Person):
    """One install of an app. Make one in each process; threads and forks may share it.

    server       the address of surveys and reports: https, or http on this machine
    policy       the app's own limits
    state        the folder for ledger, keys and reports: permanent, and not shared with others;
                 or the address of a PostgreSQL database, which many machines may share
    send_within  each report is sent at a random moment within this many seconds
    ca           a file of certificates that replaces the usual authorities
    proxy        an HTTP proxy that opens a tunnel
    timeout      seconds for one whole exchange
    relay        the address for sealed reports and the list of surveys, so that the server never
                 sees an address; a survey that is not sealed is then refused
    allow_ci     answer also in continuous integration, whose runs are not people
    labels       public properties, like {"version": "3.0.1"}; never set one from an answer
    state_key    with a database: the secret key (64 hex digits) that hashes people's ids.
                 It is the same on every machine, and is kept outside the database. If left out, it
                 is read from the variable DENIABLE_STATE_KEY
    token        an app token of the server: a backend sends the reports of many people in batches

    Tests replace the clocks `now` and `monotonic`, the noise `draw`, and the network `transport`.

    No method raises an error because of a network, a disk, a server or a survey. A mistake in the
    app's own code raises InvalidPolicy, InvalidAnswer (a name that the policy does not declare) or
    InvalidPerson (an id).
    """

    def __init__(
        self,
        server: str,
        *,
        policy: Policy,
        state: AnyPath,
        send_within: float = 60.0,
        ca: AnyPath | None = None,
        proxy: Address = None,
        timeout: float = 10.0,
        relay: Address = None,
        allow_ci: bool = False,
        labels: Labels = NO_LABELS,
        state_key: str | None = None,
        token: str | None = None,
        **replaced: Unpack[Replaced],
    ) -> None:
        if unknown := replaced.keys() - Replaced.__annotations__.keys():
            raise TypeError(f"Client has no argument {min(unknown)!r}")
        if not 0 <= send_within < math.inf:
            raise InvalidPolicy(f"send_within: give seconds, 0 or more, got {send_within!r}")
        if not 0 < timeout <= MAX_TIMEOUT_SECONDS:
            raise InvalidPolicy(f"timeout: give seconds above 0, up to an hour, got {timeout!r}")
        if not isinstance(policy, Policy):
            raise InvalidPolicy(f"policy: pass a client Policy, got {type(policy).__name__}")
        labels = policy.checked_labels(labels)
        server = self._server = checked_address(server)
        transport, draw = replaced.get("transport"), replaced.get("draw", kernel_draw)
        monotonic = replaced.get("monotonic", time.monotonic)
        kept = open_state(state, state_key, replaced.get("now"))
        kept.consents.allow_ci, self._now = allow_ci, kept.now
        folder = None if transport else kept.folder
        if folder is not None and (reason := ephemeral_reason(folder)):
            raise InvalidPolicy(reason)
        direct = transport or HttpTransport(server, ca=ca, proxy=proxy)
        relayed = None if relay is None else HttpTransport(relay, ca=ca, proxy=proxy)
        settings = Settings(
            server, policy, kept.now, monotonic, draw, timeout, send_within, relay is not None
        )
        batches = None
        if token is not None:
            if relay is not None:
                raise InvalidPolicy("token: a relay takes no batches; leave out token or relay")
            carrier = AppTransport(server, token, ca=ca, proxy=proxy)
            batches = Batches(kept, transport or carrier, timeout)
        self._uploader = Uploader(settings, kept, direct, relayed, batches)
        self._surveys = Surveys(settings, kept, relayed or direct, self._uploader.wake)
        pipeline = AnswerPipeline(settings, kept, self._surveys)
        self._draw, self._described = draw, dict[str, Found]()
        super().__init__(
            Identity(None, labels), pipeline, self._uploader.report_queued, self._print_example
        )
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._server!r}, state={self._state.address!r})"

    def person(self, id: str, /, *, labels: Labels = NO_LABELS) -> Person:  # noqa: A002 - positional
        """Return one person of the many who share this client, by the app's id for them.

        Each person has a ledger, consent, keys, reports and history of their own. Only a keyed hash
        of the id is stored. The install's own person has no id: it is the client itself. `labels`
        replace those of the client that have the same names.
        """
        if not isinstance(id, str):
            raise TypeError(f"a person's id must be text, got {type(id).__name__}")
        labels = {**self._consent.identity.labels, **self._policy.checked_labels(labels)}
        return Person(Identity(id, labels), self._pipeline, self._report_queued, self._show_example)

    @signal_safe
    def prefetch(self, timeout: float = 10.0) -> bool:
        """Fetch the list of surveys before the first answer, if consent is given.

        Returns whether a fresh list is on disk, after at most `timeout` seconds.
        """
        try:
            seen = self._listed()
            return not isinstance(seen, Outcome) and self._surveys.prefetch(seen, timeout)
        except UNUSABLE:
            return False

    @signal_safe
    def describe(
        self,
        survey: str,
        /,
        *,
        shipped: bytes | str | None = None,
        texts: Texts | None = None,
        language: str = "",
    ) -> Description | Outcome:
        """Describe a survey to a person: its questions, its purpose, and what it reveals.

        This reads the survey from the list on disk, without a network. Before consent there is no
        list, so pass the survey that ships with the app: the output of
        `deniable survey show NAME --json`. If there is no survey to describe, the Outcome states
        the reason.

        `language`, a tag such as "de-AT", chooses the survey's own texts, and `texts` replaces
        sentences of `deniable.shared.survey.phrases.ENGLISH`. Neither changes anything that is
        sent.
        """
        if shipped is None:
            found = self._listed_survey(survey)
        else:
            found = shipped_survey(survey, shipped, self._policy)
        if isinstance(found, Outcome):
            return found
        self._described[survey] = found
        try:
            from deniable.client.disclosure import describe
        except UNUSABLE as error:
            return Outcome("unavailable", str(error))
        return describe(found.id, found.survey, self._policy, texts, language)

    def ask(
        self,
        survey: str,
        /,
        *,
        shipped: bytes | str | None = None,
        texts: Texts | None = None,
        language: str = "",
    ) -> bool:
        """Ask for consent on a terminal, once, in the survey's own words; see `describe`.

        Return whether consent is given. Nothing is asked after an earlier choice, without a
        terminal for both input and errors, where the environment overrules consent, or where the
        choice could not be kept.
        """
        from deniable.client.disclosure import ask_on_terminal, is_terminal

        if is_on(SHOW):
            self.describe(survey, shipped=shipped)  # `answer` prints an example of this survey
        unasked = self.consented is None and not isinstance(self.budget(), Outcome)
        if unasked and is_terminal() and not overruled(self._consent.allow_ci):
            told = self.describe(survey, shipped=shipped, texts=texts, language=language)
            choice = None if isinstance(told, Outcome) else ask_on_terminal(told, texts or {})
            if choice is not None:
                self.consent(choice)
        return self.consented is True

    @signal_safe
    def survey(self, survey: str, /) -> Survey | Outcome:
        """Return the verified survey from the list on disk, or an Outcome with the reason."""
        found = self._listed_survey(survey)
        return found if isinstance(found, Outcome) else found.survey

    @signal_safe
    def flush(self, timeout: float = 2.0) -> int:
        """Send the waiting reports, for at most `timeout` seconds. Return the number still waiting.

        With a database, this sends and counts only reports that this process has queued.
        Returns 0 if the state cannot be used, because then nothing can be sent.
        """
        return self._flush_within(timeout)

    def _flush_within(self, timeout: float, ending: bool = False) -> int:
        wait = LockWait(timeout) if self._state.is_shared else lock_wait_of_call()
        with suppress(*UNUSABLE):
            return wait.share(partial(self._flush, timeout, ending))
        return 0

    def _flush(self, timeout: float, ending: bool) -> int:
        if not self._state.begun:
            return 0
        waiting, may_leave = self._waiting()
        return self._uploader.flush(timeout, ending) if may_leave else waiting

    @signal_safe
    def close(self) -> None:
        """Flush for at most a second and end the background thread. Unsent reports stay on disk.

        With an app token, only reports of one survey and round leave early.
        """
        self._flush_within(CLOSE_SECONDS, ending=True)
        self._uploader.stop(CLOSE_SECONDS if lock_wait_of_call().rest else 0.0)  # or it waits, too
        self._state.close()

    @signal_safe
    def forget(self) -> bool:
        """Erase the install's own keys, unsent reports, history, cached surveys and consent.

        Return whether this succeeded. The record of the ε spent, by survey and round, stays:
        erasing must not refill a budget. A damaged database is deleted with the data of all people,
        and the client then stays unavailable in this folder.
        """
        self._surveys.forget()
        return super().forget()

    def _destroy_damaged_state(self) -> bool:
        return self._state.destroy()

    def _listed(self) -> Seen | Outcome:
        """Return the list on disk, if at least one person has consented."""
        if not self._state.begun:
            return Outcome("no-consent", NOT_GIVEN)
        with self._state.read() as db:
            return self._state.consents.obstacle(db) or self._surveys.seen(db)

    def _listed_survey(self, wanted: str) -> Found | Outcome:
        try:
            seen = self._listed()
            if isinstance(seen, Outcome):
                return seen
            return self._surveys.on_disk(wanted, When(self._now().astimezone(UTC).date()), seen)
        except UNUSABLE as error:
            return Outcome("unavailable", str(error))

    def _print_example(self, wanted: str) -> None:
        """Print the fields of a report and an example, for DENIABLE_SHOW. Needs no network."""
        import sys

        from deniable.client.disclosure import example_text

        today = self._now().astimezone(UTC).date()
        found: Found | Outcome | None = self._described.get(wanted)
        with suppress(*UNUSABLE):
            if found is None and self._state.begun:
                with self._state.read() as db:
                    found = self._surveys.on_disk(wanted, When(today), self._surveys.seen(db))
        text = (
            example_text(found.id, found.survey, today, self._draw)
            if isinstance(found, Found)
            else f"DENIABLE_SHOW: there is no survey {wanted!r} on this device."
        )
        with suppress(OSError, ValueError, AttributeError):  # the stream is closed, or missing
            sys.stderr.write(f"{text}\n")

    @signal_safe
    def _resume(self) -> None:
        """Continue to send the reports of an earlier process."""
        with suppress(*UNUSABLE):
            if self._state.begun and all(self._waiting()):
                self._uploader.wake()

    def _waiting(self) -> tuple[int, bool]:
        """Return the number of reports that wait, and whether they may be sent."""
        with self._state.transaction(durable=False) as db:
            outbox.delete_expired(db, self._now())
            return outbox.waiting(db, self._server), not self._state.consents.obstacle(db)
