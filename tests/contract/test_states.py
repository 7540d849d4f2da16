"""Both states of a client keep the same promises: a folder, and a PostgreSQL database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import signal_safety
from deniable.client.outcome import Outcome
from deniable.client.state import Transaction, ledger, outbox, schema, survey_cache
from deniable.client.state.ledger import OWN, Charge, Identity, Ledger
from deniable.client.state.outbox import HistoryEntry, ReportedSymbol
from deniable.client.state.store import State, open_state
from deniable.client.state.survey_cache import ListedSurvey, Pause
from deniable.shared.envelope import Envelope
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import parse_document
from deniable.shared.survey.participation import LIFETIME
from tests.client.scripted import TODAY, Clock, bit, document
from tests.client.shared_state import STATE_KEY
from tests.eventually import PATIENCE
from tests.server.postgres import Cluster

SERVER, ONE, TWO = "https://stats.example.org", "1" * 64, "2" * 64
ANN, BOB = Identity("ann"), Identity("bob")
LATER_DAY = TODAY + timedelta(days=60)


class Machines:
    """States of two machines, or of two processes, in one place."""

    def __init__(self, place: str | Path, key: str | None) -> None:
        self.clock = Clock()
        self.first, self.second = (open_state(place, key, self.clock) for _ in range(2))


@pytest.fixture(params=["sqlite", "postgres"])
def machines(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    monkeypatch.setattr(signal_safety, "LOCK_WAIT_SECONDS", PATIENCE)  # for a busy machine
    if request.param == "sqlite":
        made = Machines(tmp_path / "state", None)
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        made = Machines(cluster.new_database().url, STATE_KEY)
    yield made
    for state in (made.first, made.second):
        state.close()


@pytest.fixture
def state(machines: Machines) -> State:
    """A state in which Ann and Bob have agreed."""
    with machines.first.transaction(create=True) as db:
        for identity in (ANN, BOB):
            person = identity.person(db)
            ledger.write_setting(db, person, "consent", "yes")
            ledger.make_participation_key(db, person)
    return machines.first


def queue(
    db: Transaction, identity: Identity, survey: str = ONE, due: float = 0.0, **how: int
) -> bytes:
    round_, payload = how.get("round", 683), how.get("payload", 1)
    person, id_ = identity.person(db), os.urandom(16)
    envelope = Envelope(survey, round_, id_, 1, bytes([payload]))
    symbols = (ReportedSymbol("crashed", "0.5", "yes", "the odds", chances={"form": "x"}),)
    entry = HistoryEntry(survey, "app-health", round_, "2026-12-01", symbols)
    until = how.get("until", int(LATER_DAY.timestamp()))
    moment = datetime.fromtimestamp(until, UTC)
    outbox.put(db, person, envelope, envelope.pack(), moment, entry, SERVER, due)
    return id_


def deliveries(db: Transaction, identity: Identity) -> list[str]:
    return [entry.delivery for entry in outbox.history_of(db, identity.person(db))]


# Opening and committing


def test_nothing_is_stored_before_the_first_choice(machines: Machines) -> None:
    begun = [state.begun for state in (machines.first, machines.second)]
    assert (begun, machines.first.can_begin) == ([False, False], True)
    with pytest.raises(StoreUnusable, match="holds no state yet"), machines.first.transaction():
        pass
    with machines.first.transaction(create=True) as db:
        ledger.write_setting(db, ANN.person(db), "consent", "no")
    assert machines.second.begun
    with machines.second.read() as db:
        assert ledger.read_setting(db, ANN.person(db), "consent") == "no"
        assert ledger.count_others(db) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_a_transaction_is_committed_completely_or_not_at_all(
    state: State, machines: Machines, durable: bool
) -> None:
    def fail(db: Transaction) -> None:
        ledger.write_setting(db, ANN.person(db), "dropped", "7")
        raise KeyError

    with pytest.raises(KeyError), state.transaction(durable=durable) as db:
        fail(db)
    with state.transaction(durable=durable) as db:
        ledger.write_setting(db, BOB.person(db), "dropped", "7")
    with machines.second.read() as db:
        people = ANN.person(db), BOB.person(db)
        assert [ledger.read_setting(db, person, "dropped") for person in people] == [None, "7"]


def test_a_read_shows_one_snapshot_and_waits_for_no_writer(
    state: State, machines: Machines
) -> None:
    with machines.second.read() as db:
        person = ANN.person(db)
        assert ledger.read_setting(db, person, "consent") == "yes"
        with state.transaction() as writing:
            ledger.write_setting(writing, ANN.person(writing), "consent", "no")
        assert ledger.read_setting(db, person, "consent") == "yes"
    with machines.second.read() as db:
        assert ledger.read_setting(db, ANN.person(db), "consent") == "no"


def test_a_closed_state_opens_again(state: State) -> None:
    for _ in range(2):
        state.close()
        with state.read() as db:
            assert ledger.read_setting(db, ANN.person(db), "consent") == "yes"


def test_people_are_stored_under_hashes_that_both_machines_compute(
    state: State, machines: Machines
) -> None:
    with state.read() as db, machines.second.read() as other:
        assert ANN.person(db) == ANN.person(other) != BOB.person(db)
        assert (len(ANN.person(db)), Identity(None).person(db)) == (16, OWN)


def test_the_day_is_the_clock_s(state: State, machines: Machines) -> None:
    machines.clock.now = LATER_DAY
    with state.read() as db:
        assert db.today == LATER_DAY.date()
    assert state.now() == LATER_DAY


def test_a_postponed_report_is_written_once_unless_it_is_withdrawn(state: State) -> None:
    for identity in (ANN, BOB):
        state.postpone(identity, lambda db, identity=identity: queue(db, identity))  # type: ignore[misc] # bound
    state.drop_postponed(BOB)
    for _ in range(2):
        state.write_postponed()
    with state.read() as db:
        assert (deliveries(db, ANN), deliveries(db, BOB)) == (["waiting"], [])


def test_a_report_that_is_written_twice_waits_once(state: State) -> None:
    """A connection may break after a commit, so that the write is repeated."""
    with state.transaction() as db:
        first = queue(db, ANN)
        queue(db, ANN)
        (packed,) = db.execute("SELECT envelope FROM outbox").fetchone()
        assert first in bytes(packed)
        assert outbox.waiting(db, SERVER) == 1


# The ledger


def charge(round_: int, cost: int = 500_000_000, survey: str = ONE) -> Charge:
    return Charge(survey, round_, "2026Q4", "app-health", "k" * 64, {"crashed": cost}, cost)


def test_charges_add_up_over_machines(state: State, machines: Machines) -> None:
    """The rows of different people have separate seals."""
    for number, machine in enumerate([state, machines.second, state, machines.second]):
        for identity in (ANN, BOB):
            with machine.transaction() as db:
                person = identity.person(db)
                before = ledger.read_ledger(db, person)
                assert before.charges == number
                ledger.write_charge(db, person, before, charge(number))
                assert ledger.is_charged(db, person, ONE, number)
    with state.read() as db:
        read = ledger.read_ledger(db, ANN.person(db))
        assert (read.charges, read.total) == (4, 2 * 10**9)
        assert read.spent("2026Q4") == read.spent(LIFETIME)
        assert read.spent("2026Q4").surveys == {("app-health", "k" * 64): 2 * 10**9}
        assert not ledger.is_charged(db, ANN.person(db), TWO, 0)
        assert ledger.read_ledger(db, OWN) == Ledger()


def test_a_round_is_charged_once(state: State) -> None:
    with state.transaction() as db:
        ledger.write_charge(db, ANN.person(db), Ledger(seal=ANN.person(db).hex()), charge(1))
    with pytest.raises(StoreUnusable), state.transaction() as db:
        ledger.write_charge(db, ANN.person(db), ledger.read_ledger(db, ANN.person(db)), charge(1))


@pytest.mark.parametrize(
    "edit",
    ["UPDATE charges SET round = 9 WHERE round = 1", "DELETE FROM charges WHERE round = 2",
     "DELETE FROM charges", "UPDATE ledgers SET charges = 1"],
)  # fmt: skip
def test_an_edited_ledger_is_noticed(state: State, edit: str) -> None:
    for number in (1, 2):
        with state.transaction() as db:
            person = ANN.person(db)
            ledger.write_charge(db, person, ledger.read_ledger(db, person), charge(number))
    with state.transaction() as db:
        db.execute(edit)
    state.close()
    with pytest.raises(StoreUnusable), state.read() as db:
        ledger.read_ledger(db, ANN.person(db))


def test_a_kept_report_is_used_in_each_later_round_once(state: State, machines: Machines) -> None:
    survey = parse_document(document(questions=bit("crashed", "0.5"), repeat_rounds=3))
    span = survey.span_of(683)
    with state.transaction() as db:
        person = ANN.person(db)
        kept = Envelope(ONE, span[0], bytes(16), 1, b"\1")
        ledger.keep_report(db, person, survey, kept)
        ledger.keep_report(db, person, survey, replace(kept, payload=b"\0"))  # too late
    for round_, allowed in ((span[0], False), (span[1], True), (span[1], False), (span[2], True)):
        with machines.second.transaction() as db:
            person = ANN.person(db)
            assert ledger.has_kept_report(db, person, ONE, span, round_) is allowed
            if allowed:
                used = ledger.use_kept_report(db, person, ONE, span, round_)
                assert used == (span[0], b"\1")


def test_a_survey_s_key_is_made_once_for_each_person(state: State, machines: Machines) -> None:
    with state.transaction() as db:
        keys = [
            outbox.survey_key(db, identity.person(db), ONE, LATER_DAY) for identity in (ANN, BOB)
        ]
    with machines.second.transaction() as db:
        again = [
            outbox.survey_key(db, identity.person(db), ONE, LATER_DAY) for identity in (ANN, BOB)
        ]
        assert outbox.kept_key(db, ANN.person(db), TWO) is None
    assert keys == again
    assert keys[0] != keys[1]


# The outbox


def test_an_envelope_is_taken_sent_and_finished(state: State, machines: Machines) -> None:
    now = machines.clock.now
    with state.transaction() as db:
        id_ = queue(db, ANN, due=now.timestamp())
        assert outbox.newest(db) > 0
        assert outbox.fewest_tries(db, SERVER, now, 0, 0.0) == 0
        taken = outbox.take(db, SERVER, now, 0, 0.0)
        assert taken is not None
        assert (id_ in taken.packed, taken.survey, taken.round) == (True, ONE, 683)
        assert outbox.fewest_tries(db, SERVER, now, 0, 0.0) == 1
        outbox.release(db, [taken], tried=False)
        assert outbox.fewest_tries(db, SERVER, now, 0, 0.0) == 0
        outbox.finish(db, taken, "accepted")
        assert (outbox.waiting(db, SERVER), deliveries(db, ANN)) == (0, ["accepted"])


def test_an_envelope_waits_for_its_moment_unless_it_is_hurried(
    state: State, machines: Machines
) -> None:
    now = machines.clock.now
    with state.transaction() as db:
        queue(db, ANN, due=now.timestamp() + 50)
        assert outbox.take(db, SERVER, now, 0, 60.0) is None
        assert outbox.take(db, "https://other.example.org", now, outbox.newest(db), 60.0) is None
        assert outbox.seconds_until_due(db, SERVER, now) == 50
        assert outbox.take(db, SERVER, now, outbox.newest(db), 60.0) is not None
        assert outbox.take(db, SERVER, now + timedelta(seconds=51), 0, 60.0) is not None
        # the clock was set back
        assert outbox.take(db, SERVER, now - timedelta(days=400), 0, 60.0) is not None


def test_late_envelopes_get_new_moments(state: State, machines: Machines) -> None:
    now = machines.clock.now
    with state.transaction() as db:
        for number in range(30):
            queue(db, ANN, survey=f"{number:064x}", due=now.timestamp() - 3600)
        outbox.reschedule(db, SERVER, now, 60.0, 0)
        dues = {row[0] - now.timestamp() for row in db.execute("SELECT due FROM outbox")}
    assert len(dues) == 30
    assert all(0 <= due <= 60 for due in dues)


def test_a_batch_is_reserved_released_and_finished(state: State, machines: Machines) -> None:
    now = machines.clock.now
    with state.transaction() as db:
        for identity in (ANN, BOB):
            for survey in (ONE, TWO):
                queue(db, identity, survey, due=now.timestamp())
        batch = outbox.due_batch(db, SERVER, now, 0, 0.0, 10)
        assert (len(batch), len({envelope.survey for envelope in batch})) == (2, 1)
        assert len(outbox.due_batch(db, SERVER, now, 0, 0.0, 1)) == 1
        outbox.reserve(db, batch, now, 30.0)
        rest = outbox.due_batch(db, SERVER, now, 0, 0.0, 10)
        assert {envelope.survey for envelope in rest} == {ONE, TWO} - {batch[0].survey}
        outbox.release(db, batch[:1], tried=True)
        outbox.release(db, batch[1:], tried=False)
        rows = dict(db.execute("SELECT number, tries FROM outbox").fetchall())
        assert [rows[envelope.number] for envelope in batch] == [1, 0]
        outbox.finish_batch(db, rest, "refused", "late")
        assert outbox.waiting(db, SERVER) == 2
        assert sorted(deliveries(db, ANN)) == ["refused", "waiting"]


def test_after_ten_tries_an_envelope_of_a_batch_waits_for_a_day(
    state: State, machines: Machines
) -> None:
    now = machines.clock.now
    with state.transaction() as db:
        queue(db, ANN, due=now.timestamp())
        db.execute("UPDATE outbox SET tries = 9")
        batch = outbox.due_batch(db, SERVER, now, 0, 0.0, 10)
        outbox.reserve(db, batch, now, 30.0)
        (due,) = db.execute("SELECT due FROM outbox").fetchone()
        assert 86_400 <= due - now.timestamp() <= 1.5 * 86_400
        outbox.release(db, batch, tried=False)
        assert db.execute("SELECT due, tries FROM outbox").fetchone() == (now.timestamp(), 9)


def test_expired_rows_are_deleted(state: State, machines: Machines) -> None:
    now = machines.clock.now
    survey = parse_document(document(questions=bit("crashed", "0.5"), repeat_rounds=3))
    with state.transaction() as db:
        person = ANN.person(db)
        queue(db, ANN, until=int(now.timestamp()))
        queue(db, BOB)
        outbox.survey_key(db, person, ONE, now)
        ledger.keep_report(db, person, survey, Envelope(ONE, 683, bytes(16), 1, b"\1"))
    with state.transaction() as db:
        outbox.delete_expired(db, now)
        assert (deliveries(db, ANN), deliveries(db, BOB)) == (["given-up"], ["waiting"])
        assert outbox.kept_key(db, ANN.person(db), ONE) is None
        outbox.delete_expired(db, now + timedelta(days=400))
        assert db.execute("SELECT count(*) FROM kept_reports").fetchone() == (0,)


def test_a_withdrawal_deletes_what_was_not_sent(state: State, machines: Machines) -> None:
    with state.transaction() as db:
        queue(db, ANN)
        queue(db, BOB)
        outbox.withdraw_all(db, ANN.person(db))
        assert (deliveries(db, ANN), outbox.waiting(db, SERVER)) == (["withdrawn"], 1)


def test_too_many_reports_of_a_person_make_room(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 3)
    with state.transaction() as db:
        for number in range(5):
            queue(db, ANN, round=number, until=int(LATER_DAY.timestamp()) + number)
        assert outbox.dropped(db, ANN.person(db)) == 2
        assert deliveries(db, ANN) == ["dropped"] * 2 + ["waiting"] * 3


def test_the_history_is_in_order_and_keeps_the_newest(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_HISTORY", 3)
    with state.transaction() as db:
        for number in (4, 2, 9, 7):
            queue(db, ANN, round=number)
        queue(db, BOB, round=1)
        entries = outbox.history_of(db, ANN.person(db))
    assert [entry.round for entry in entries] == [2, 9, 7]
    assert entries[0].symbols[0].chances == {"form": "x"}


def test_erasing_keeps_the_ledger_and_other_people(state: State) -> None:
    with state.transaction() as db:
        for identity in (ANN, BOB):
            person = identity.person(db)
            queue(db, identity)
            ledger.write_charge(db, person, ledger.read_ledger(db, person), charge(683))
        schema.erase(db, ANN.person(db))
    with state.read() as db:
        ann, bob = ANN.person(db), BOB.person(db)
        assert [ledger.read_setting(db, person, "consent") for person in (ann, bob)] == [
            None,
            "yes",
        ]
        assert (deliveries(db, ANN), deliveries(db, BOB)) == ([], ["waiting"])
        assert ledger.is_charged(db, ann, ONE, 683)


# The list of surveys


def listed(id_: str, position: int, state: str = "open") -> ListedSurvey:
    closes = LATER_DAY if state == "closed" else None
    return ListedSurvey(
        id_, position, "app-health", state, b"{}", "5" * 128, "a" * 64, None, closes
    )


def test_a_list_is_kept_for_a_server_and_a_policy(state: State, machines: Machines) -> None:
    now = machines.clock.now
    for surveys in ([listed(ONE, 0)], [listed(TWO, 0), listed(ONE, 1, "closed")]):
        with state.transaction() as db:
            survey_cache.keep_list(db, SERVER, surveys, "policy", now)
    with state.transaction() as db:  # a later list does not reopen a survey
        survey_cache.keep_list(db, SERVER, [listed(TWO, 0), listed(ONE, 1)], "policy", now)
    with machines.second.read() as db:
        kept = survey_cache.kept_list(db, SERVER, "policy")
        assert [(survey.id, survey.state) for survey in kept.surveys] == [
            (TWO, "open"),
            (ONE, "closed"),
        ]
        assert (kept.surveys[0].document, kept.fetched) == (b"{}", int(now.timestamp()))
        assert survey_cache.kept_list(db, SERVER, "another").fetched is None


def test_pauses_and_forecasts_are_kept(state: State, machines: Machines) -> None:
    today = machines.clock.now.date()
    with state.transaction() as db:
        survey_cache.keep_pause(db, SERVER, Pause(2, 5.5))
        outcome = Outcome("not-drawn", "why", ONE, 683)
        survey_cache.keep_forecast(db, "app-health", "basis", [(today, outcome)])
    with machines.second.transaction() as db:
        assert survey_cache.kept_pause(db, SERVER) == Pause(2, 5.5)
        assert survey_cache.forecast(db, "app-health", "basis", today) == outcome
        assert survey_cache.forecast(db, "app-health", "other", today) is None
        survey_cache.keep_pause(db, SERVER, Pause())
        assert survey_cache.kept_pause(db, SERVER) == Pause()
