"""The way of one answer: consent, survey, policy, ledger, noise, outbox, in this order.

The ledger is charged, durably, before the noise is drawn: a crash in between wastes budget, and
never spends it twice. The answers live in the caller's hands and in this call, nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime

from deniable.client.consent import Withdrawal, is_given, switched_off
from deniable.client.net.surveys import Found, Surveys
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import Transaction, history, outbox
from deniable.client.state.connection import State
from deniable.client.state.ledger import read_ledger, write_charge
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.randomness import Draw
from deniable.shared.survey.periods import round_of

NO_CONSENT = "consent was not given; call client.consent(True) once the person agrees"


class Answering:
    def __init__(
        self,
        state: State,
        policy: Policy,
        surveys: Surveys,
        withdrawn: Withdrawal,
        now: Callable[[], datetime],
        draw: Draw,
    ) -> None:
        self._state, self._policy, self._surveys = state, policy, surveys
        self._withdrawn, self._now, self._draw = withdrawn, now, draw

    def answer(self, wanted: str, answers: Mapping[str, object]) -> Outcome:
        if missing := self.obstacle():
            return missing
        today = self._now().astimezone(UTC).date()
        found = self._surveys.find(wanted, today)
        if isinstance(found, Outcome):
            return found
        if refusal := self._refusal(found):
            return refusal
        found.survey.check_answers(answers)
        round_ = round_of(found.survey.period, today)
        charged = self._charge(found, round_)
        if isinstance(charged, Outcome):
            return charged
        symbols = found.survey.report(answers, self._draw)
        return self._queue(found, round_, today, charged, symbols)

    def obstacle(self) -> Outcome | None:
        """Why nothing may be recorded, fetched or sent now."""
        if not self._state.begun:
            return self._switched_off() or Outcome("no-consent", NO_CONSENT)
        with self._state.transaction() as db:
            now = int(self._now().timestamp())
            outbox.delete_expired(db, now)  # whether or not anything may be asked
            consent = self._may(db)
        return self._switched_off() or (None if consent else Outcome("no-consent", NO_CONSENT))

    def _may(self, db: Transaction) -> bool:
        return is_given(db) and not self._withdrawn.now

    def _switched_off(self) -> Outcome | None:
        if switch := switched_off():
            return Outcome("no-consent", f"the environment says no: {switch} is set")
        return None

    def _refusal(self, found: Found) -> Outcome | None:
        asked, cap = found.survey.round_billionths, self._policy.round_cap
        if asked <= cap:
            return None
        detail = (
            f"survey {found.survey.name!r} asks ε {decimal_text(asked)} in one round, "
            f"and the app allows {decimal_text(cap)}"
        )
        return Outcome("refused", detail, found.id)

    def _charge(self, found: Found, round_: int) -> bytes | Outcome:
        """The survey's key, once the round is paid for and that is on disk."""
        survey = found.survey
        costs = {each.name: each.epsilon.billionths for each in survey.questions}
        with self._state.transaction() as db:
            if not self._may(db):
                return Outcome("no-consent", NO_CONSENT)
            ledger = read_ledger(db)
            if (found.id, round_) in ledger.answered:
                detail = f"survey {survey.name!r} has had its answer for round {round_}"
                return Outcome("already-answered", detail, found.id, round_)
            if obstacle := ledger.obstacle(costs, self._policy):
                return Outcome("budget-spent", obstacle, found.id, round_)
            charges = write_charge(db, ledger, found.id, round_, costs)
            until = int(survey.taken_until(survey.last_round).timestamp())
            key = outbox.survey_key(db, found.id, until)
        self._state.marker.note(charges)
        return key

    def _queue(
        self, found: Found, round_: int, today: date, key: bytes, symbols: tuple[int, ...]
    ) -> Outcome:
        from deniable.client.odds import said
        from deniable.shared.envelope import Envelope, encode_report, envelope_id

        survey = found.survey
        payload = encode_report(survey, symbols)
        envelope = Envelope(found.id, round_, envelope_id(key, found.id, round_), 1, payload)
        words = [said(*pair) for pair in zip(survey.questions, symbols, strict=True)]
        with self._state.transaction() as db:
            if not self._may(db):  # withdrawn meanwhile: the report is forgotten
                return Outcome("no-consent", NO_CONSENT, found.id, round_)
            outbox.put(db, envelope, int(survey.taken_until(round_).timestamp()))
            history.record(db, found.id, survey.name, round_, today, words)
        return Outcome("queued", "a report is on disk and will be sent", found.id, round_)
