"""The path of one answer: consent, survey, policy, ledger, randomizer, outbox, in this order.

The ledger is charged durably before any noise is drawn: a crash in between wastes budget, and never
spends it twice (state/ledger.py explains why). An answer waits for the disk only for that charge.
Only the caller and this call hold the answers.

Where a survey latches reports, only the first answer in a span of rounds is charged and randomized.
Later calls send the kept report and do not examine the new values.

Where a survey asks over `last`, `any` or `all`, the first call of a round charges it and draws the
moment after the round at which the report leaves. Every call writes the draft (state/drafts.py).
What is charged, written and returned, and when, does not depend on any of the answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, date, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from deniable.client.net.surveys import Found, Obstacle, Seen, Surveys, When, shipped_survey
from deniable.client.outcome import Outcome
from deniable.client.policy import Settings
from deniable.client.state import Transaction, drafts, ledger, outbox, survey_cache
from deniable.client.state.ledger import NOT_GIVEN, OWN, Consent, overruled
from deniable.client.state.store import UNUSABLE, State, StateBlocked

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Report, Survey

OLD_VERSIONS = (
    'asks over "last", "any" or "all", whose earlier reports must not remain readable, and a '
    'database keeps old versions; with this state, ask over "first", or answer of="ended"'
)
MAX_FORESEEN = 40  # rounds: longer than a list is used without a fetch


class ChargedRound(NamedTuple):
    """Round that was charged. Its noise may be drawn once, or was drawn earlier in its span."""

    id: str
    survey: Survey
    round: int
    today: date  # on which the call was made
    key: bytes  # the person's key for this survey
    charges: int  # number of charges of all people, including this one
    repeats: int | None  # the earlier round whose report is sent again
    kept: Report | None  # the report to send again
    is_draft: bool = False  # the report waits for the end of its round
    is_later: bool = False  # the round has a draft, which this call may replace

    def __repr__(self) -> str:
        return f"ChargedRound({self.id!r}, {self.round})"  # without the key and the report


class Call(NamedTuple):
    """Arguments of one call of `answer`, without the answers."""

    consent: Consent
    wanted: str
    when: When
    names: Collection[str]


class AnswerPipeline:
    """The path of an answer through one client's state and network."""

    def __init__(self, settings: Settings, state: State, surveys: Surveys) -> None:
        self.policy, self.state, self._surveys = settings.policy, state, surveys
        self._server, self._send_within = settings.server, settings.send_within
        self._now, self._draw, self._relayed = settings.now, settings.draw, settings.relayed

    def answer(
        self, consent: Consent, wanted: str, answers: Mapping[str, object], ended: bool = False
    ) -> Outcome:
        """Charge, randomize and queue an answer.

        No step depends on a value until the noise is drawn. If the noise was drawn in an earlier
        round, no step does. The labels were set before, and are fixed here for the round.
        """
        charged = self._charged(consent, wanted, frozenset(answers), ended)
        if isinstance(charged, Outcome):
            return charged
        self.state.note_charges(charged.charges)
        if charged.is_later:
            return self._redraw(consent, charged, answers)
        report = charged.kept or charged.survey.report(answers, self._draw)
        if charged.is_draft:
            return self._write_draft(consent, charged, report)
        return self._queue(consent, charged, report)

    def arm(self, consent: Consent, wanted: str, shipped: bytes | str | None) -> str | None:
        """Return the arm that later reports carry; None if it cannot be known."""
        ours = None if shipped is None else shipped_survey(wanted, shipped, self.policy)
        first = ours.survey.arms.arms[0] if isinstance(ours, Found) and ours.survey.arms else None
        if not self.state.begun:
            return first
        try:
            with self.state.read() as db:
                when = When(db.today)
                if consent.obstacle(db):
                    return first
                seen = self._surveys.seen(db)
                listed = self._surveys.on_disk(wanted, when, seen, self._policy_obstacle)
                found = listed if isinstance(listed, Found) else ours
                if not isinstance(found, Found) or (arms := found.survey.arms) is None:
                    return None
                person = consent.identity.person(db)
                key = outbox.kept_key(db, person, found.id)
            if key is None:  # only this waits for writers
                until = found.survey.taken_until(found.survey.last_round)
                with self.state.transaction() as db:
                    if until <= self._now() or not consent.is_given(db):  # the key would expire
                        return first
                    key = outbox.survey_key(db, person, found.id, until)
        except UNUSABLE:
            return None
        return arms.drawn_arm(key)

    def spending(
        self, consent: Consent
    ) -> tuple[ledger.Ledger, date, list[tuple[Found, date | None]]]:
        """Return a person's ledger, today, and the next day of each open survey of the list."""
        if not self.state.begun:
            return ledger.Ledger(), self._now().astimezone(UTC).date(), []
        with self.state.read() as db:
            today = db.today
            person = consent.identity.person(db)
            spent = ledger.read_ledger(db, person)
            if consent.obstacle(db):
                return spent, today, []
            seen, obstacle = self._surveys.seen(db), self._policy_obstacle
            listed = self._surveys.open_on_disk(When(today), seen, obstacle)
            plans = [(entry, self._next_answer(db, person, entry, today)) for entry in listed]
            return spent, today, plans

    def _next_answer(
        self, db: Transaction, person: bytes, found: Found, today: date
    ) -> date | None:
        """Return the first day on which an answer of the person can be charged, or None."""
        survey, key = found.survey, ledger.participation_key(db, person)
        spent, ids = ledger.read_ledger(db, person), (found.id, *found.same)
        for first in self.policy.answered_rounds(survey, survey.round_of(today), key):
            charged = any(ledger.is_charged(db, person, id_, first) for id_ in ids)
            if not charged and not spent.obstacle(_charge_of(found, first, today), self.policy):
                return max(today, _first_day(survey, first))
        return None

    def _charged(
        self, consent: Consent, wanted: str, names: Collection[str], ended: bool
    ) -> ChargedRound | Outcome:
        """Charge the round durably, in one transaction unless a list must be fetched first."""
        obstacle = partial(self._obstacle, names, ended)
        if consent.unkept:
            return Outcome("unavailable", f"consent could not be stored: {consent.unkept}")
        if not self.state.begun:
            return overruled(consent.allow_ci) or Outcome("no-consent", NOT_GIVEN)
        with self.state.transaction() as db:
            when = When(db.today, ended)
            call = Call(consent, wanted, when, names)
            if not self.state.is_shared:  # or the uploader does it
                outbox.delete_expired(db, self._now())  # even without consent
            if refusal := consent.obstacle(db):
                return refusal
            seen = self._surveys.seen(db)
            if known := self._surveys.known(wanted, when, seen, obstacle):
                return self._charge(db, consent, known, when)
            if foreseen := self._forecast(db, call, seen):
                return foreseen
        if settled := self._settled(call, seen, obstacle):
            return settled
        found = self._surveys.find(wanted, when, seen, obstacle)
        if isinstance(found, Outcome):
            return found
        with self.state.transaction() as db:
            charged = self._charge(db, consent, found, when)
            self._keep_forecast(db, call, found, charged)
            return charged

    def _settled(self, call: Call, seen: Seen, obstacle: Obstacle) -> ChargedRound | Outcome | None:
        """Decide by a list on disk of the last weeks about a round that is charged or spent.

        Only a new edition could change it, and each fetch tells the server that the app is used.
        """
        consent, wanted, when, _ = call
        if self._surveys.is_due(seen):
            return None
        found = self._surveys.on_disk(wanted, when, seen, obstacle)
        if isinstance(found, Outcome) or (round_ := when.round_of(found.survey)) is None:
            return None
        with self.state.transaction(durable=False) as db:  # its connection has read the ledger
            person = consent.identity.person(db)
            if undrawn := self._undrawn(db, person, found, round_):
                return undrawn
            later = self._later(db, person, found, when)
            return later or self._refusal(db, person, found, round_, when.today)

    def _basis(self, db: Transaction, call: Call, seen: Seen) -> str | None:
        """Return a hash of everything that decides an outcome, except the ledger, or None."""
        consent, wanted, when, names = call
        listed = self._surveys.listed(seen.kept, wanted)
        if consent.identity.person(db) != OWN or when.ended or len(listed) != 1:
            return None  # of several surveys of one name, the newest changes
        key = ledger.participation_key(db, OWN)
        decisive = self._server, self._relayed, self.policy, key, sorted(names), listed
        return hashlib.sha256(repr(decisive).encode()).hexdigest()

    def _forecast(self, db: Transaction, call: Call, seen: Seen) -> Outcome | None:
        """Return the outcome that an earlier call forecast, without reading a document."""
        basis = None if self._surveys.is_due(seen) else self._basis(db, call, seen)
        outcome = survey_cache.forecast(db, call.wanted, basis, call.when.today) if basis else None
        if outcome is None or outcome.status == "not-drawn":
            return outcome
        ledger.read_ledger(db)
        charged = ledger.is_charged(db, OWN, outcome.survey or "", outcome.round or 0)
        return outcome if charged else None

    def _keep_forecast(
        self, db: Transaction, call: Call, found: Found, result: ChargedRound | Outcome
    ) -> None:
        """Store the effects of a charge, or of a new list. No other call writes."""
        survey, first, days = found.survey, result.round, list[survey_cache.ForecastDay]()
        seen = self._surveys.seen(db)
        basis, listed = self._basis(db, call, seen), self._surveys.listed(seen.kept, call.wanted)
        if basis is None or first is None:
            return
        if [(entry.id, entry.state) for entry in listed] != [(found.id, "open")]:
            return  # another process has fetched a newer list in the meantime
        if isinstance(result, ChargedRound):
            may_change = survey.redraws or survey.repeats
            days = [(call.when.today, None if may_change else _lost(result))]
            first = survey.span_of(first)[-1] + 1
        elif result.status != "not-drawn":
            return
        key = ledger.participation_key(db, OWN)
        drawn = next(self.policy.answered_rounds(survey, first, key), None)
        stop = min(drawn or survey.last_round + 1, first + MAX_FORESEEN)
        days += ((_first_day(survey, n), _not_drawn(found, n, drawn)) for n in range(first, stop))
        end = min(survey.round_ends(stop - 1).date(), survey.closes + timedelta(days=1))
        survey_cache.keep_forecast(db, call.wanted, basis, [*days, (end, None)])

    def _obstacle(self, names: Collection[str], ended: bool, survey: Survey) -> str | None:
        """Return the reason to refuse a survey, from names, kinds and caps only."""
        if self.state.is_shared and survey.redraws and not ended:
            return f"survey {survey.name!r} {OLD_VERSIONS}"
        if self._relayed and survey.sealed_to is None:
            return f"survey {survey.name!r} is not sealed, and this client sends through a relay"
        if survey.by_invitation:
            return f"survey {survey.name!r} is by invitation; open the link with your code instead"
        return survey.unasked(names) or self._policy_obstacle(survey)

    def _policy_obstacle(self, survey: Survey) -> str | None:
        """Return the reason why the policy refuses a survey's ε, questions or labels."""
        kinds = {question.name: question.kind for question in survey.questions}
        excess, mismatch = self.policy.excess(survey), self.policy.mismatch(kinds)
        return excess or mismatch or self.policy.unlabelled(survey)

    def _charge(
        self, db: Transaction, consent: Consent, found: Found, when: When
    ) -> ChargedRound | Outcome:
        """Charge a round to the person. A span of rounds is charged under its first round.

        If a survey asks one question, it is drawn with the noise, after the charge. Any question
        may be drawn, so the total of each question is charged its ε, and the install's total the
        largest ε, which is the most that a report can reveal. If only the drawn question were
        charged, the draw would decide whether a cap allows the report, and an app could repeat
        refused calls until the draw suits it. So the charge is the same for every install, answer
        and draw, and a crash after it loses the round and never repeats it.
        """
        survey, person = found.survey, consent.identity.person(db)
        round_ = when.round_of(survey)
        assert round_ is not None, "the survey was chosen because it has this round"
        span, again = survey.span_of(round_), None
        if not consent.is_given(db):
            return Outcome("no-consent", NOT_GIVEN)
        if undrawn := self._undrawn(db, person, found, round_):
            return undrawn
        if later := self._later(db, person, found, when):
            return later
        if refusal := self._refusal(db, person, found, round_, when.today):
            return refusal
        if not ledger.is_charged(db, person, found.id, span[0]):
            spent = ledger.read_ledger(db, person)
            ledger.write_charge(db, person, spent, _charge_of(found, round_, when.today))
        else:
            again = ledger.use_kept_report(db, person, found.id, span, round_)
        key = outbox.survey_key(db, person, found.id, survey.taken_until(survey.last_round))
        repeats, kept = (again[0], _decoded(survey, again[1])) if again else (None, None)
        charges = db.charges()
        charged = ChargedRound(
            *(found.id, survey, round_, when.today, key, charges, repeats, kept),
            is_draft=_is_draft(survey, when),
        )
        if charged.is_draft:
            self._put_draft(db, person, charged)
        return charged

    def _undrawn(self, db: Transaction, person: bytes, found: Found, round_: int) -> Outcome | None:
        """Return the reason if the person's key does not draw a round, before the ledger is read.

        This depends on the key, the policy, the survey and the round alone.
        """
        survey, key = found.survey, ledger.participation_key(db, person)
        drawn = next(self.policy.answered_rounds(survey, round_, key), None)
        return None if drawn == survey.span_of(round_)[0] else _not_drawn(found, round_, drawn)

    def _later(
        self, db: Transaction, person: bytes, found: Found, when: When
    ) -> ChargedRound | None:
        """Return the round whose draft this call may replace, under the id of its first call."""
        survey, round_ = found.survey, when.round_of(found.survey)
        if round_ is None or not _is_draft(survey, when):
            return None
        for id_ in (found.id, *found.shared):
            row = outbox.waiting_row(db, person, id_, round_)
            if row is not None and row.slot is not None:
                charged = id_, survey, round_, when.today, b"", db.charges(), None, None
                return ChargedRound(*charged, is_draft=True, is_later=True)
        return None

    def _put_draft(self, db: Transaction, person: bytes, charged: ChargedRound) -> None:
        """Queue an empty draft with the charge, so that noise is never drawn without its slot."""
        survey, round_ = charged.survey, charged.round
        entry = outbox.HistoryEntry(
            *(charged.id, survey.name, round_, charged.today.isoformat(), ()),
            detail=_leaves(charged),
        )
        due = drafts.due_after_round(survey, round_)
        slot = drafts.take_slot(db, person, survey, charged.id)
        until = survey.taken_until(round_)
        empty = _envelope(charged, b"")
        outbox.put(db, person, empty, b"", until, entry, self._server, due, slot)

    def _write_draft(self, consent: Consent, charged: ChargedRound, report: Report) -> Outcome:
        """Write the report of a round's first call into its slot."""
        envelope = _envelope(charged, _payload(consent, charged, report))

        def write(db: Transaction) -> Outcome | None:
            row = self._draft_row(db, consent, charged)
            if isinstance(row, Outcome):
                return row
            # without a slot, another process has frozen it; with a draft, a later call was faster
            if row.slot is not None and drafts.draft_of(self.state.drafts, row) is None:
                self.state.drafts.write(row.slot, envelope)
            return None

        detail = _leaves(charged)
        try:
            with self.state.transaction(durable=False) as db:
                if refusal := write(db):
                    return refusal
        except StateBlocked:
            self.state.postpone(consent.identity, write)
            detail = "a report is ready, and will be sent once it can be written to disk"
        return Outcome("queued", detail, charged.id, charged.round, report.unfit)

    def _redraw(
        self, consent: Consent, charged: ChargedRound, answers: Mapping[str, object]
    ) -> Outcome:
        """Redraw the report of a round after a later call, and overwrite its slot."""
        from deniable.shared.envelope import decode_labels, decode_report, encode_report

        survey = charged.survey
        with self.state.transaction(durable=False) as db:
            row = self._draft_row(db, consent, charged)
            if isinstance(row, Outcome):
                return row
            kept = drafts.draft_of(self.state.drafts, row)
            if kept is None or row.slot is None:
                return _lost(charged)
            report = survey.redraw(decode_report(survey, kept.payload), answers, self._draw)
            labels = decode_labels(survey, kept.payload)  # those of the round's first call
            payload = encode_report(survey, report.symbols, labels)
            self.state.drafts.write(row.slot, replace(kept, payload=payload))
        return Outcome("queued", _leaves(charged), charged.id, charged.round, report.unfit)

    def _draft_row(
        self, db: Transaction, consent: Consent, charged: ChargedRound
    ) -> outbox.QueuedEnvelope | Outcome:
        """Return the row of a draft. It may have been deleted or frozen since the charge."""
        if not consent.is_given(db):
            return Outcome("no-consent", NOT_GIVEN, charged.id, charged.round)
        person = consent.identity.person(db)
        row = outbox.waiting_row(db, person, charged.id, charged.round)
        return row or _lost(charged)

    def _refusal(
        self, db: Transaction, person: bytes, found: Found, round_: int, today: date
    ) -> Outcome | None:
        """Return the reason why the ledger allows no report of this round, or None."""
        survey, spent = found.survey, ledger.read_ledger(db, person)
        span = survey.span_of(round_)
        for id_ in found.same:
            if ledger.is_charged(db, person, id_, round_):
                detail = f"{_already(survey, round_)}, under the id {id_}"
                return Outcome("already-answered", detail, found.id, round_)
        if not ledger.is_charged(db, person, found.id, span[0]):
            obstacle = spent.obstacle(_charge_of(found, round_, today), self.policy)
            return Outcome("budget-spent", obstacle, found.id, round_) if obstacle else None
        if not ledger.has_kept_report(db, person, found.id, span, round_):
            return Outcome("already-answered", _already(survey, round_), found.id, round_)
        return None

    def _queue(self, consent: Consent, charged: ChargedRound, report: Report) -> Outcome:
        survey, round_ = charged.survey, charged.round
        envelope = _envelope(charged, _payload(consent, charged, report))
        packed = drafts.pack_envelope(survey, envelope)
        symbols = outbox.describe_envelope(
            survey, envelope.payload, report.symbols, charged.repeats
        )
        # a database shows no more than the round
        day = _first_day(survey, round_) if self.state.is_shared else charged.today
        entry = outbox.HistoryEntry(charged.id, survey.name, round_, day.isoformat(), symbols)
        until, span = survey.taken_until(round_), survey.span_of(round_)
        due = outbox.random_moment(self._now(), self._send_within)

        def write(db: Transaction) -> bool:
            if not consent.is_given(db):  # withdrawn in the meantime: the report is discarded
                return False
            person = consent.identity.person(db)
            if survey.repeats and not charged.kept:
                ledger.keep_report(db, person, survey, envelope)
            outbox.put(
                *(db, person, envelope, packed, until, entry, self._server, due),
                kept=min(until, survey.round_ends(span[-1])) if survey.repeats else None,
            )
            return True

        detail = "a report is on disk and will be sent"
        try:
            with self.state.transaction(durable=False) as db:
                if not write(db):
                    return Outcome("no-consent", NOT_GIVEN, charged.id, round_)
        except StateBlocked:
            self.state.postpone(consent.identity, write)
            detail = "a report is ready, and will be sent once it can be written to disk"
        return Outcome("queued", detail, charged.id, round_, report.unfit)


def _charge_of(found: Found, round_: int, today: date) -> ledger.Charge:
    """Return the charge of a round, or of its span."""
    survey = found.survey
    span, quarter = survey.span_of(round_), survey.charged_quarter(round_, today)
    costs, total = survey.costs, survey.round_billionths
    return ledger.Charge(found.id, span[0], quarter, survey.name, found.key, costs, total)


def _not_drawn(found: Found, round_: int, drawn: int | None) -> Outcome:
    """`drawn` is the next round that the install answers."""
    detail = f"this install does not answer survey {found.survey.name!r} in round {round_}"
    if drawn is not None:
        detail += f"; the next round that it answers begins on {_first_day(found.survey, drawn)}"
    return Outcome("not-drawn", detail, found.id, round_)


def _first_day(survey: Survey, number: int) -> date:
    return survey.round_starts(number).date()


def _payload(consent: Consent, charged: ChargedRound, report: Report) -> bytes:
    """Return the bytes of a report, with the app's labels and the drawn arm."""
    from deniable.shared.envelope import encode_report

    arms = charged.survey.arms
    drawn = {arms.name: arms.drawn_arm(charged.key)} if arms else {}
    return encode_report(charged.survey, report.symbols, {**consent.identity.labels, **drawn})


def _envelope(charged: ChargedRound, payload: bytes) -> Envelope:
    from deniable.shared.envelope import Envelope, envelope_id

    id_ = envelope_id(charged.key, charged.id, charged.round)
    return Envelope(charged.id, charged.round, id_, 1, payload)


def _is_draft(survey: Survey, when: When) -> bool:
    """Return whether reports wait for the end of their round; that of an ended round does not."""
    return survey.redraws and not when.ended


def _leaves(charged: ChargedRound) -> str:
    from deniable.shared.survey.phrases import when_reports_leave

    days = when_reports_leave(charged.survey, charged.round)
    return f"a report is on disk and leaves between {days}; until then it may still change"


def _lost(charged: ChargedRound) -> Outcome:
    detail = _already(charged.survey, charged.round)
    return Outcome("already-answered", detail, charged.id, charged.round)


def _already(survey: Survey, round_: int) -> str:
    span, detail = survey.span_of(round_), f"survey {survey.name!r} was already answered in round"
    if not survey.repeats:
        return f"{detail} {round_}"
    lost = f"the report that rounds {span[0]} to {span[-1]} share is no longer kept"
    return f"{detail} {round_}, or {lost}; no other report is drawn for these rounds"


def _decoded(survey: Survey, payload: bytes) -> Report:
    """Raise ValueError if the kept report is damaged."""
    from deniable.shared.envelope import decode_report
    from deniable.shared.survey.document import Report

    return Report(decode_report(survey, payload), ())
