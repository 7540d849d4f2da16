"""What each person of an app may do: agree, answer, and have it all erased."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deniable.client.answering import Answering
from deniable.client.consent import Consent, Consents, write_consent
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import outbox, schema
from deniable.client.state.connection import State, StateBlocked
from deniable.client.state.ledger import Ledger, read_ledger
from deniable.client.state.people import Identity
from deniable.shared.errors import InvalidAnswer, StoreUnusable

if TYPE_CHECKING:
    from deniable.client.budget import Budget
    from deniable.client.sent import Summary


class Person:
    """One person's ledger, consent, keys, reports and history, in the state of a client.

    Made by `Client.person`; cheap, and kept nowhere. The client itself is one: the install's own.
    """

    def __init__(
        self,
        identity: Identity,
        state: State,
        policy: Policy,
        answering: Answering,
        consents: Consents,
        queued: Callable[[], None],
    ) -> None:
        self._state, self._policy, self._answering = state, policy, answering
        self._consents, self._queued = consents, queued
        self._consent = Consent(identity)

    @property
    def consented(self) -> bool | None:
        """Whether the person agreed, or refused; None if nobody has asked: only then ask."""
        if self._consent.withdrawn or not self._state.begun:
            return False if self._consent.withdrawn else None
        try:
            with self._state.transaction(durable=False) as db:
                return self._consent.recorded(db)
        except StoreUnusable:
            return None

    def consent(self, given: bool) -> bool:
        """Remember that the person agrees, or refuses. Returns whether it is on disk.

        Until consent is given, nothing is fetched or sent, and nothing is stored but a refusal:
        else whoever refused would be asked again and again. Withdrawing deletes what was not sent
        yet; even if the disk fails, this object makes and sends no further report. Ask while
        `consented` is None: consent that is given at each start overrides a withdrawal.
        """
        if not isinstance(given, bool):
            raise TypeError(f"consent is True or False, got {type(given).__name__}")
        self._consent.unkept = ""
        if not given:
            self._withdraw()
        try:
            with self._state.transaction(create=True) as db:
                person = self._consent.identity.person(db)
                write_consent(db, person, given)
                if not given:
                    outbox.withdraw_all(db, person)
        except StoreUnusable as error:
            self._consent.unkept = str(error) if given else ""
            return False
        self._consent.withdrawn = not given
        self._consents.unwritten.discard(self._consent.identity)
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
            outcome = self._answering.answer(self._consent, survey, answers)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))
        if outcome.status == "queued":
            self._queued()
        return outcome

    async def aanswer(self, survey: str, /, **answers: object) -> Outcome:
        """`answer` for asyncio: in a thread, so that the loop goes on whatever network or disk do.

        If it is cancelled, the answer may be on its way all the same; asked again in this round,
        it is `already-answered`, and charged once.
        """
        import asyncio

        self._refuse_undeclared(answers)
        return await asyncio.to_thread(self.answer, survey, **answers)

    def sent(self) -> Summary | Outcome:
        """What left this device, or waits to: every report in words. Needs no network."""
        from deniable.client.sent import summary

        try:
            return summary(self._state, self._consent.identity)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))

    def budget(self) -> Budget | Outcome:
        """What was spent and what is left, in all and per question. Needs no network."""
        from deniable.client.budget import budget

        try:
            if not self._state.begun:
                return budget(Ledger(), self._policy)
            with self._state.transaction(durable=False) as db:
                return budget(read_ledger(db, self._consent.identity.person(db)), self._policy)
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))

    def forget(self) -> bool:
        """Erase keys, unsent reports, the history of what was sent, and consent.

        What was spent, and for which surveys and rounds, stays: erasing must not refill a budget,
        or anyone could be asked again and again. Returns whether it is done.
        """
        self._withdraw()
        try:
            if self._state.begun:
                with self._state.transaction() as db:
                    schema.erase(db, self._consent.identity.person(db))
        except StateBlocked:
            return False
        except StoreUnusable:
            return self._given_up()
        self._consents.unwritten.discard(self._consent.identity)
        return True

    def _refuse_undeclared(self, answers: dict[str, object]) -> None:
        if (name := self._policy.undeclared(answers)) is not None:
            answers.clear()  # a traceback shows this frame and the caller's
            raise InvalidAnswer(name)

    def _withdraw(self) -> None:
        """Here and now; until it is on disk too, nothing is sent for anyone."""
        self._consent.withdrawn = True
        self._consents.unwritten.add(self._consent.identity)

    def _given_up(self) -> bool:
        """A damaged database is not one person's to delete."""
        return False
