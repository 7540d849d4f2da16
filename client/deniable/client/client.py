"""The client: what an app calls to let its users answer surveys that hold nobody's answer."""

from __future__ import annotations

import atexit
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

from deniable.client.answering import Answering
from deniable.client.consent import Consents
from deniable.client.net.surveys import Surveys
from deniable.client.net.transport import HttpTransport, Transport, checked_address
from deniable.client.net.uploader import Uploader
from deniable.client.person import Person
from deniable.client.policy import Policy
from deniable.client.state import outbox
from deniable.client.state.connection import State
from deniable.client.state.people import Identity
from deniable.shared.errors import InvalidPolicy, StoreUnusable
from deniable.shared.privacy.randomness import Draw, kernel_draw

CLOSE_SECONDS = 1.0
EXIT_SECONDS = 2.0  # for all clients together, when the process ends


def utc_now() -> datetime:
    return datetime.now(UTC)


class Client(Person):
    """One install of an app. Make one in each process; threads may share it, forks too.

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
    ) -> None:
        if not 0 <= send_within < math.inf:
            raise InvalidPolicy(f"send_within: give seconds, 0 or more, got {send_within!r}")
        if not isinstance(policy, Policy):
            raise InvalidPolicy(
                f"policy: pass a deniable.client.Policy, got {type(policy).__name__}"
            )
        server = self._server = checked_address(server)
        carrier = transport or HttpTransport(server)
        kept, consents = State(state), Consents()
        self._now = now
        self._surveys = Surveys(kept, policy, server, carrier, consents, now, monotonic)
        answering = Answering(kept, policy, self._surveys, now, draw, send_within)
        self._uploader = Uploader(kept, server, carrier, consents, now, monotonic, send_within)
        super().__init__(Identity(None), kept, policy, answering, consents, self._report_queued)
        self._resume()

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
