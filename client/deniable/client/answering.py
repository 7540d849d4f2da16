"""The way of one answer: consent, survey, policy, ledger, randomizer, outbox, in this order.

The ledger is charged on disk before any noise is drawn: a crash in between wastes budget, and never
spends it twice. The answers are held by the caller and by this call, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

from deniable.client.consent import NOT_GIVEN, Consent, overruled
from deniable.client.net.surveys import Found, Seen, Surveys
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import outbox, sending
from deniable.client.state.connection import State
from deniable.client.state.history import HistoryEntry, reported
from deniable.client.state.ledger import read_ledger, write_charge
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.randomness import Draw

if TYPE_CHECKING:
    from deniable.shared.survey.document import Report, Survey


class Answering:
    def __init__(
        self,
        state: State,
        policy: Policy,
        surveys: Surveys,
        consent: Consent,
        now: Callable[[], datetime],
        draw: Draw,
        send_within: float = 0.0,
    ) -> None:
        self._send_within = send_within
        self._state, self._policy, self._surveys = state, policy, surveys
        self._consent, self._now, self._draw = consent, now, draw

    def answer(self, wanted: str, answers: Mapping[str, object]) -> Outcome:
        """Until the noise is drawn, nothing here depends on a value."""
        today = self._now().astimezone(UTC).date()
        seen = self._seen()
        if isinstance(seen, Outcome):
            return seen
        found = self._surveys.find(wanted, today, seen, partial(self._obstacle, frozenset(answers)))
        if isinstance(found, Outcome):
            return found
        round_ = found.survey.round_of(today)
        charged = self._charge(found, round_)
        if isinstance(charged, Outcome):
            return charged
        report = found.survey.report(answers, self._draw)
        return self._queue(found, round_, today, charged, report)

    def _seen(self) -> Seen | Outcome:
        """The list of surveys on disk, unless nothing may be asked at all."""
        if self._consent.unkept:
            return Outcome("unavailable", f"consent could not be stored: {self._consent.unkept}")
        if not self._state.begun:
            return overruled() or Outcome("no-consent", NOT_GIVEN)
        with self._state.transaction() as db:
            outbox.delete_expired(db, self._now())  # whether or not anything may be asked
            return self._consent.obstacle(db) or self._surveys.seen(db)

    def _obstacle(self, names: Collection[str], survey: Survey) -> str | None:
        """Why a survey is not answered, from names, kinds and caps alone."""
        asked, cap = survey.round_billionths, self._policy.round_cap
        if asked > cap:
            return (
                f"survey {survey.name!r} asks for ε {decimal_text(asked)} in one round, "
                f"and the app allows {decimal_text(cap)}"
            )
        kinds = {question.name: question.kind for question in survey.questions}
        return survey.unasked(names) or self._policy.mismatch(kinds)

    def _charge(self, found: Found, round_: int) -> bytes | Outcome:
        """The survey's key, once the round is paid for and that is on disk.

        Where one question is drawn, it is drawn with the noise, after this. So every question's
        own total is charged its ε, since any of them may be the one; the install's total is charged
        what a report can give away, the largest ε. Charging the drawn question alone would be true
        too, but then the draw would decide whether a cap still allows a report, and a call that was
        refused could be repeated until the draw suits. So the charge is the same for every install,
        answer and draw, and a crash after it loses the round and never repeats it.
        """
        survey = found.survey
        costs, total = survey.costs, survey.round_billionths
        with self._state.transaction() as db:
            if not self._consent.is_given(db):
                return Outcome("no-consent", NOT_GIVEN)
            ledger = read_ledger(db)
            if (found.id, round_) in ledger.answered:
                detail = f"survey {survey.name!r} was already answered in round {round_}"
                return Outcome("already-answered", detail, found.id, round_)
            if obstacle := ledger.obstacle(costs, total, self._policy):
                return Outcome("budget-spent", obstacle, found.id, round_)
            charges = write_charge(db, ledger, found.id, round_, costs, total)
            key = outbox.survey_key(db, found.id, survey.taken_until(survey.last_round))
        self._state.marker.note(charges)
        return key

    def _queue(self, found: Found, round_: int, today: date, key: bytes, report: Report) -> Outcome:
        from deniable.shared.envelope import Envelope, encode_report, envelope_id

        survey = found.survey
        payload = encode_report(survey, report.symbols)
        envelope = Envelope(found.id, round_, envelope_id(key, found.id, round_), 1, payload)
        said = reported(survey.questions, report.symbols, survey.drawn_from)
        entry = HistoryEntry(found.id, survey.name, round_, today.isoformat(), said)
        with self._state.transaction() as db:
            if not self._consent.is_given(db):  # withdrawn meanwhile: the report is forgotten
                return Outcome("no-consent", NOT_GIVEN, found.id, round_)
            outbox.put(
                db,
                envelope,
                survey.taken_until(round_),
                entry,
                self._surveys.server,
                sending.moment(self._now(), self._send_within),
            )
        detail = "a report is on disk and will be sent"
        return Outcome("queued", detail, found.id, round_, report.unfit)
