"""The way of one answer: consent, survey, policy, ledger, randomizer, outbox, in this order.

The ledger is charged on disk before any noise is drawn: a crash in between wastes budget, and never
spends it twice (state/ledger.py says why). The charge is the one thing that an answer waits for the
disk with. The answers are held by the caller and by this call, and nowhere else.

Where a survey latches reports, only the first answer in a span of rounds is charged and randomized.
The others send what is kept of it, and their values are not looked at (state/kept_reports.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

from deniable.client.consent import NOT_GIVEN, Consent, overruled
from deniable.client.net.surveys import Found, Obstacle, Surveys
from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import Transaction, kept_reports, outbox, sending
from deniable.client.state.connection import State
from deniable.client.state.history import HistoryEntry, reported
from deniable.client.state.kept_reports import KeptReport
from deniable.client.state.ledger import count_charges, is_charged, read_ledger, write_charge
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.randomness import Draw

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Report, Survey


@dataclass(frozen=True)
class Paid:
    """A round of a survey that is charged to a person, and for which noise may be drawn once, or
    was drawn before."""

    id: str
    survey: Survey
    round: int
    key: bytes = field(repr=False)  # the person's, of this survey
    charges: int  # of all people, with this one
    repeats: int | None  # the earlier round whose report is sent again, and nothing drawn
    kept: Report | None = field(repr=False)  # that report


class Answering:
    def __init__(
        self,
        state: State,
        policy: Policy,
        surveys: Surveys,
        now: Callable[[], datetime],
        draw: Draw,
        send_within: float,
    ) -> None:
        self._send_within = send_within
        self._state, self._policy, self._surveys = state, policy, surveys
        self._now, self._draw = now, draw

    def answer(self, consent: Consent, wanted: str, answers: Mapping[str, object]) -> Outcome:
        """Until the noise is drawn, nothing here depends on a value; where it was drawn in an
        earlier round, nothing at all."""
        today = self._now().astimezone(UTC).date()
        paid = self._paid(consent, wanted, today, partial(self._obstacle, frozenset(answers)))
        if isinstance(paid, Outcome):
            return paid
        self._state.marker.note(paid.charges)
        report = paid.kept or paid.survey.report(answers, self._draw)
        return self._queue(consent, paid, today, report)

    def _paid(
        self, consent: Consent, wanted: str, today: date, obstacle: Obstacle
    ) -> Paid | Outcome:
        """The round, once it is paid for and that is on disk; in one transaction, unless a list
        must be fetched or a survey be verified first."""
        if consent.unkept:
            return Outcome("unavailable", f"consent could not be stored: {consent.unkept}")
        if not self._state.begun:
            return overruled() or Outcome("no-consent", NOT_GIVEN)
        with self._state.transaction() as db:
            outbox.delete_expired(db, self._now())  # whether or not anything may be asked
            if refusal := consent.obstacle(db):
                return refusal
            seen = self._surveys.seen(db)
            if known := self._surveys.known(wanted, today, seen, obstacle):
                return self._charge(db, consent, known, today)
        found = self._surveys.find(wanted, today, seen, obstacle)
        if isinstance(found, Outcome):
            return found
        with self._state.transaction() as db:
            return self._charge(db, consent, found, today)

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

    def _charge(
        self, db: Transaction, consent: Consent, found: Found, today: date
    ) -> Paid | Outcome:
        """Where one question is drawn, it is drawn with the noise, after this. So every question's
        own total is charged its ε, since any of them may be the one; the install's total is charged
        what a report can give away, the largest ε. Charging the drawn question alone would be true
        too, but then the draw would decide whether a cap still allows a report, and a call that was
        refused could be repeated until the draw suits. So the charge is the same for every install,
        answer and draw, and a crash after it loses the round and never repeats it.

        A span of rounds that share a report is charged as its first round.
        """
        survey, person = found.survey, consent.identity.person(db)
        costs, total, round_ = survey.costs, survey.round_billionths, survey.round_of(today)
        span, again = survey.span_of(round_), None
        if not consent.is_given(db):
            return Outcome("no-consent", NOT_GIVEN)
        ledger = read_ledger(db, person)
        for id_ in found.same:
            if is_charged(db, person, id_, round_):
                detail = f"{_already(survey, round_)}, under the id {id_}"
                return Outcome("already-answered", detail, found.id, round_)
        if not is_charged(db, person, found.id, span[0]):
            if obstacle := ledger.obstacle(costs, total, self._policy):
                return Outcome("budget-spent", obstacle, found.id, round_)
            write_charge(db, person, ledger, found.id, span[0], costs, total)
        elif (again := kept_reports.use(db, person, found.id, span, round_)) is None:
            return Outcome("already-answered", _already(survey, round_), found.id, round_)
        key = outbox.survey_key(db, person, found.id, survey.taken_until(survey.last_round))
        repeats, kept = (again.drawn_in, _decoded(survey, again)) if again else (None, None)
        return Paid(found.id, survey, round_, key, count_charges(db), repeats, kept)

    def _queue(self, consent: Consent, paid: Paid, today: date, report: Report) -> Outcome:
        from deniable.shared.envelope import Envelope, encode_report, envelope_id

        survey, round_ = paid.survey, paid.round
        payload = encode_report(survey, report.symbols)
        envelope = Envelope(paid.id, round_, envelope_id(paid.key, paid.id, round_), 1, payload)
        packed = _packed(survey, envelope)
        said = reported(survey.questions, report.symbols, survey.drawn_from, paid.repeats)
        entry = HistoryEntry(paid.id, survey.name, round_, today.isoformat(), said)
        with self._state.transaction(durable=False) as db:
            if not consent.is_given(db):  # withdrawn meanwhile: the report is forgotten
                return Outcome("no-consent", NOT_GIVEN, paid.id, round_)
            person = consent.identity.person(db)
            if survey.repeats and not paid.kept:
                kept_reports.keep(db, person, survey, envelope)
            outbox.put(
                db,
                person,
                envelope,
                packed,
                survey.taken_until(round_),
                entry,
                self._surveys.server,
                sending.moment(self._now(), self._send_within),
            )
        detail = "a report is on disk and will be sent"
        return Outcome("queued", detail, paid.id, round_, report.unfit)


def _packed(survey: Survey, envelope: Envelope) -> bytes:
    """As it waits and travels, also on every retry: sealed where the survey names a key."""
    if survey.sealed_to is None:
        return envelope.pack()
    from deniable.shared.sealed_envelope import seal

    return seal(envelope, survey.sealed_to).pack()


def _already(survey: Survey, round_: int) -> str:
    span, detail = survey.span_of(round_), f"survey {survey.name!r} was already answered in round"
    if not survey.repeats:
        return f"{detail} {round_}"
    return (
        f"{detail} {round_}, or the one report of rounds {span[0]} to {span[-1]} is kept no more: "
        "no other is drawn for them"
    )


def _decoded(survey: Survey, kept: KeptReport) -> Report:
    """ValueError if it is none."""
    from deniable.shared.envelope import decode_report
    from deniable.shared.survey.document import Report

    return Report(decode_report(survey, kept.payload), ())
