"""One person who uses an app, and can consent, answer, and have their data erased."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deniable.client.outcome import Outcome
from deniable.client.pipeline import AnswerPipeline
from deniable.client.signal_safety import GivenAnswers, signal_safe
from deniable.client.state import ledger, outbox, schema
from deniable.client.state.store import UNUSABLE, StateBlocked
from deniable.shared.errors import InvalidAnswer, StoreUnusable

if TYPE_CHECKING:
    from deniable.client.disclosure import Budget, Summary


TODAY, ENDED = "today", "ended"  # the round that answers are about


class Person:
    """One person's ledger, consent, keys, reports and history, in the state of a client.

    `Client.person` creates it at little cost and keeps no reference to it. The client itself is the
    install's own person.
    """

    def __init__(
        self,
        identity: ledger.Identity,
        pipeline: AnswerPipeline,
        report_queued: Callable[[], None],
        show_example: Callable[[str], None],
    ) -> None:
        self._state, self._policy, self._pipeline = pipeline.state, pipeline.policy, pipeline
        self._report_queued, self._show_example = report_queued, show_example
        self._consent = ledger.Consent(identity, self._state.consents.allow_ci)

    @property
    @signal_safe
    def consented(self) -> bool | None:
        """True or False as the person chose; None if the person was never asked. Ask only then.

        False, too, if the state cannot be used: the person may have refused.
        """
        if self._consent.withdrawn:
            return False
        if not self._state.begun:
            return None if self._state.can_begin else False
        try:
            with self._state.read() as db:
                return self._consent.recorded(db)
        except UNUSABLE:
            return False

    @signal_safe
    def consent(self, given: bool) -> bool:
        """Record that the person agrees or refuses. Return whether the choice is on disk.

        Until consent is given, nothing is fetched or sent, and only a refusal is stored, so that
        the person is not asked again. Withdrawing deletes reports that were not sent yet. Even if
        the disk fails, this object makes and sends no further report.

        Ask only while `consented` is None: an app that gives consent at each start would override a
        withdrawal.
        """
        if not isinstance(given, bool):
            raise TypeError(f"consent is True or False, got {type(given).__name__}")
        self._consent.unkept = ""
        if not given:
            self._withdraw()
        try:
            with self._state.transaction(create=True) as db:
                person = self._consent.identity.person(db)
                ledger.write_setting(db, person, "consent", "yes" if given else "no")
                if given:
                    ledger.make_participation_key(db, person)
                else:
                    outbox.withdraw_all(db, person)
        except UNUSABLE as error:
            self._consent.unkept = str(error) if given else ""
            return False
        self._consent.withdrawn = not given
        self._state.consents.unwritten.discard(self._consent.identity)
        return True

    def answer(self, survey: str, /, *, of: object = TODAY, **answers: object) -> Outcome:
        """Randomize the answers to a survey, given by name or id, and queue the report.

        Call it for everyone, whatever the answers are: whether you call it must not depend on the
        truth. Every value costs the same charge. A value that does not fit, such as None, counts as
        the option for other answers, or is replaced by a random answer (`Outcome.unfit`).

        Waits at most 2 s for the network, and only if no fresh list is on disk. Raises only
        InvalidAnswer, for a name that the app's own policy does not declare.

        With `of="ended"`, the answers are about the last round that is over, such as a total that
        the app counted in it. They are charged to that round, and drawn once.
        """
        try:
            self._refuse_undeclared(answers, of)
            return self._answer(survey, GivenAnswers(answers), of == ENDED)
        except BaseException:
            answers.clear()  # a traceback may show the variables of this frame
            raise

    @signal_safe
    def _answer(self, survey: str, given: GivenAnswers, ended: bool) -> Outcome:
        try:
            if ledger.is_on(ledger.SHOW):
                self._show_example(survey)
            if self._consent.withdrawn:
                return Outcome("no-consent", "consent was withdrawn")
            outcome = self._pipeline.answer(self._consent, survey, given.values, ended)
            if outcome.status == "queued":
                self._report_queued()
        except StoreUnusable as error:
            return Outcome("unavailable", str(error))
        except BaseException as error:
            given.clear(error)
            if isinstance(error, UNUSABLE):
                return Outcome("unavailable", "the system refused a call; nothing was sent")
            raise
        return outcome

    async def aanswer(self, survey: str, /, *, of: object = TODAY, **answers: object) -> Outcome:
        """Run `answer` in a thread, so that the asyncio loop never waits for network or disk.

        A cancelled call may still queue its report. A second call in this round returns
        `already-answered`, and the round is charged once.
        """
        import asyncio

        try:
            self._refuse_undeclared(answers, of)
            given = GivenAnswers(answers)
            return await asyncio.to_thread(self._answer, survey, given, of == ENDED)
        except (RuntimeError, *UNUSABLE):  # too many threads, or the loop is ending
            return Outcome("unavailable", "no thread could be started; nothing was sent")
        finally:
            answers.clear()

    @signal_safe
    def arm(self, survey: str, /, *, shipped: bytes | str | None = None) -> str | None:
        """Return the arm of an experiment that this device has drawn for a survey.

        Read it before you treat anyone differently: at each start, and again after consent. The
        arm is drawn with the survey's key, kept until the survey has ended, and erased with the
        key. Needs no network: without a list on disk, it is drawn for the `shipped` survey.

        Without consent this is the first arm of the `shipped` survey. It is None if no survey is
        known, or the state is locked or damaged: treat the person as if they took no part.
        """
        return self._pipeline.arm(self._consent, survey, shipped)

    @signal_safe
    def sent(self) -> Summary | Outcome:
        """Return every report of this device, sent or waiting. Needs no network."""
        try:
            from deniable.client.disclosure import summary

            return summary(self._state, self._consent.identity)
        except UNUSABLE as error:
            return Outcome("unavailable", str(error))

    @signal_safe
    def budget(self) -> Budget | Outcome:
        """Return the ε spent and left, in total, per survey and per question. Needs no network.

        For each open survey of the list on disk, the result has the first day on which an answer
        can be queued.
        """
        try:
            from deniable.client.disclosure import budget

            spent, today, plans = self._pipeline.spending(self._consent)
            return budget(spent, self._policy, today, plans)
        except UNUSABLE as error:
            return Outcome("unavailable", str(error))

    @signal_safe
    def forget(self) -> bool:
        """Erase keys, unsent reports, the history and consent. Return whether this succeeded.

        The record of the ε spent, by survey and round, stays: erasing must not refill a budget.
        """
        self._withdraw()
        try:
            if self._state.begun:
                with self._state.transaction() as db:
                    schema.erase(db, self._consent.identity.person(db))
        except (StateBlocked, OSError, ImportError):
            return False
        except StoreUnusable:
            return self._destroy_damaged_state()
        self._state.consents.unwritten.discard(self._consent.identity)
        return True

    def _refuse_undeclared(self, answers: dict[str, object], of: object) -> None:
        if (name := self._policy.undeclared(answers)) is not None:
            raise InvalidAnswer(name)
        if of not in (TODAY, ENDED):
            raise ValueError(
                'of: write of="ended" for the last round that is over, or leave it out'
            )

    def _withdraw(self) -> None:
        """Withdraw in memory. Until it is on disk, this process sends none of the reports."""
        self._consent.withdrawn = True
        self._state.consents.unwritten.add(self._consent.identity)
        self._state.drop_postponed(self._consent.identity)

    def _destroy_damaged_state(self) -> bool:
        """Keep the damaged database: one person's request must not delete everyone's data."""
        return False
