"""Two installs that differ only in their answers, through any sequence of events.

Everything observable around their reports is identical, and no budget is overspent.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from deniable.client import Client, Outcome, Person
from deniable.client.net import uploader
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.net.uploader import Backoff, Uploader
from deniable.client.pipeline import AnswerPipeline
from deniable.client.state import ledger, outbox
from deniable.client.state.database import SqliteState, SqliteTransaction
from deniable.client.state.ledger import Consent, Consents, Identity
from deniable.shared.envelope import Envelope, parse_envelopes
from deniable.shared.privacy.mechanism import Draw, kernel_draw
from deniable.shared.survey.document import Report, Survey
from tests.client.scripted import (
    KEY,
    OTHER_KEY,
    Clock,
    Ticks,
    bit,
    document,
    entry,
    lifetime_policy,
)
from tests.eventually import PATIENCE

TENTH = 10**8  # of ε, in billionths
CAP = 3  # tenths
STEPS = 40  # per run
MAX_PASSES = 1_000  # passes of the uploader per flush
A_DAY = 86_400.0
SURVEYS = ["daily", "monthly"]
PEOPLE = [None, "ann", "bob"]
POLICY = lifetime_policy(questions={"crashed": "bit"}, max_epsilon="0.3")


class Killed(BaseException):
    """Raised to end the process without cleanup."""


class Server:
    """Server as one install sees it; `mode` is the fault in its replies."""

    def __init__(self) -> None:
        self.listed: list[dict[str, str]] = []
        self.mode, self.asked = "well", 0
        self.transcript: list[tuple[str, str, int]] = []
        self.envelopes: list[Envelope] = []
        for name in SURVEYS:
            self.publish(name, 0)

    def publish(self, name: str, edition: int, key: Any = KEY) -> None:
        period = "day" if name == "daily" else "month"
        made = document(name, period=period, questions=bit("crashed", "0.1"))
        corrected = made.replace(b"How is the app", b"How is the app, %d" % edition)
        self.listed.append(entry(corrected, key))

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        self.asked += 1
        self.transcript.append((method, path, len(body or b"")))
        if self.mode == "away":
            raise Unreachable("nobody there")
        if method == "GET":
            return Reply(200, json.dumps({"surveys": self.listed}).encode())
        self.envelopes += parse_envelopes(body or b"")
        if self.mode == "its reply is lost":
            raise Unreachable("no reply", sent=True)
        if self.mode == "busy":
            return Reply(503, b"", "60")
        return Reply(200, b'{"accepted": 1, "duplicates": 0, "refused": []}')


class Observer(SqliteState):
    """Observer that reads the state from outside."""


class Install:
    """State folder with a client for each of two servers; the install never changes its answer."""

    def __init__(self, said: object) -> None:
        self.said = said
        self.folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.clock, self.ticks = Clock(), Ticks()
        self.servers = [Server(), Server()]
        self.bits: list[int] = []  # requested from the kernel, by answer
        self.noises = 0
        self.dying = False
        self.visible: list[object] = []
        self.agreed = set[str | None]()  # people who consented, according to the disk
        self.agreed_before, self.asked = False, 0
        self.sent = set[bytes]()
        self.withdrawn: set[bytes] = set()  # ids unsent at the withdrawal
        self.observer = Observer(self.folder.name)
        self.start()

    def start(self) -> None:
        self.clients = [
            Client(
                f"https://{name}.example.org",
                policy=POLICY,
                state=self.folder.name,
                now=self.clock,
                monotonic=self.ticks,
                draw=self.draw,
                transport=server,
                send_within=0.0,
            )
            for name, server in zip("ab", self.servers, strict=True)
        ]

    def draw(self, wanted: int) -> int:
        if self.dying:
            raise Killed
        self.bits.append(wanted)
        return kernel_draw(wanted)

    def person(self, server: int, name: str | None) -> Person:
        client = self.clients[server]
        return client if name is None else client.person(name)

    def answer(self, server: int, name: str | None, survey: str) -> None:
        before = len(self.bits)
        outcome = self.person(server, name).answer(survey, crashed=self.said)
        self.noises += len(self.bits) > before
        self.visible.append((outcome.status, outcome.survey, outcome.round))

    def die(self, server: int, name: str | None, survey: str) -> None:
        """Die between the charge and the report, if there is a charge."""
        self.dying = True
        with suppress(Killed):
            self.visible.append(self.person(server, name).answer(survey, crashed=self.said).status)
        self.visible.append(("killed", self.dying))
        self.dying = False
        self.restart()

    def flush(self, server: int) -> None:
        client = self.clients[server]
        passes, send_one = itertools.count(1), client._uploader._send_one

        def send_one_of_few() -> Any:  # a fault must cause a failure instead of a hang
            return send_one() if next(passes) <= MAX_PASSES else None

        client._uploader._send_one = send_one_of_few  # type: ignore[method-assign] # bounded
        left = client.flush(PATIENCE)
        client._uploader.stop(PATIENCE)
        client._uploader._send_one = send_one  # type: ignore[method-assign] # as it was
        assert next(passes) <= MAX_PASSES, "the uploader did not finish"
        self.visible.append((left, self.servers[server].transcript))
        self.servers[server].transcript = []

    def consent(self, server: int, name: str | None, given: bool) -> None:
        waiting = self.waiting(name)
        self.visible.append(done := self.person(server, name).consent(given))
        if given and done:
            self.agreed.add(name)
        elif done:
            self.ended(name, waiting)

    def forget(self, server: int, name: str | None) -> None:
        waiting = self.waiting(name)
        self.visible.append(done := self.person(server, name).forget())
        if done:
            self.ended(name, waiting)

    def ended(self, name: str | None, waiting: set[bytes]) -> None:
        """Record that a person's consent has ended and that the disk has it."""
        self.agreed.discard(name)
        self.withdrawn |= waiting

    def restart(self) -> None:
        for client in self.clients:
            client._uploader.stop(PATIENCE)
            client._state.close()
        self.start()

    def waiting(self, name: str | None) -> set[bytes]:
        """Return the ids that a person has not sent yet."""
        if not self.observer.begun:
            return set()
        with self.observer.transaction(durable=False) as db:
            whose = Identity(name).person(db)
            rows = db.execute("SELECT envelope FROM outbox WHERE person = ?", (whose,)).fetchall()
        return {envelope.id for (packed,) in rows for envelope in parse_envelopes(packed)}

    def charged(self) -> list[ledger.Ledger]:
        """Return the ledger of each person."""
        if not self.observer.begun:
            return []
        with self.observer.transaction(durable=False) as db:
            return [ledger.read_ledger(db, Identity(name).person(db)) for name in PEOPLE]

    def end(self) -> None:
        self.restart()
        self.observer.close()
        self.folder.cleanup()


FULL: dict[str, bool] = {}  # key: state folder


def connecting(connect: Callable[..., SqliteTransaction]) -> Callable[..., SqliteTransaction]:
    """Connect to a disk that may be full, with ordered ids, so that installs send in one order."""

    def connected(state: SqliteState, connection: object) -> SqliteTransaction:
        db, numbers = connect(state, connection), itertools.count()
        db.create_function("random", 0, lambda: next(numbers))
        full = FULL.get(str(state.folder), False) and not isinstance(state, Observer)
        db.execute(f"PRAGMA query_only = {full}")
        return db

    return connected


def finish_fetches() -> None:
    """Wait for fetches that no call waits for: the clock moves in steps, faster than they end."""
    for thread in threading.enumerate():
        if thread.name == "deniable-surveys":
            thread.join(PATIENCE)


which = st.integers(0, 1)
people = st.sampled_from(PEOPLE)


class Machine(RuleBasedStateMachine):
    """Two installs in step: one has crashed before, the other gives an answer that does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(Uploader, "wake", lambda _: None)  # only flushes send
        for name in ("FIRST_PAUSE_SECONDS", "MAX_PAUSE_SECONDS"):
            self.patch.setattr(uploader, name, 1e9)  # a flush stops at the first failure
        self.patch.setattr(Backoff.__init__, "__defaults__", (lambda _, most: most,))
        self.patch.setattr(outbox, "uniform", lambda _, most: most)
        self.patch.setattr(SqliteState, "_connect", connecting(SqliteState._connect))
        self.installs = [Install(True), Install("neither")]
        self.editions = itertools.count(1)

    def both(self, do: Callable[[Install], object]) -> None:
        for install in self.installs:
            do(install)
            finish_fetches()

    @rule(server=which, name=people, survey=st.sampled_from(SURVEYS))
    def answer(self, server: int, name: str | None, survey: str) -> None:
        self.both(lambda each: each.answer(server, name, survey))

    @rule(server=which, name=people, survey=st.sampled_from(SURVEYS))
    def is_killed_between_charge_and_report(
        self, server: int, name: str | None, survey: str
    ) -> None:
        self.both(lambda each: each.die(server, name, survey))

    @rule(server=which)
    def flush(self, server: int) -> None:
        self.both(lambda each: each.flush(server))

    @rule(server=which, name=people)
    def agree(self, server: int, name: str | None) -> None:
        self.both(lambda each: each.consent(server, name, True))

    @rule(server=which, name=people)
    def withdraw(self, server: int, name: str | None) -> None:
        self.both(lambda each: each.consent(server, name, False))

    @rule(server=which, name=people, survey=st.sampled_from(SURVEYS))
    def mind_is_changed(self, server: int, name: str | None, survey: str) -> None:
        self.agree(server, name)
        self.answer(server, name, survey)
        self.withdraw(server, name)
        self.agree(server, name)

    @rule(server=which, name=people)
    def days_go_by(self, server: int, name: str | None) -> None:
        for _ in range(CAP + 1):
            self.clock_moves(26)
            self.answer(server, name, "daily")

    @rule(server=which, name=people)
    def forget(self, server: int, name: str | None) -> None:
        self.both(lambda each: each.forget(server, name))

    @rule()
    def restart(self) -> None:
        self.both(Install.restart)

    @rule(hours=st.sampled_from([2, 26, 24 * 32, -30]))
    def clock_moves(self, hours: int) -> None:
        def move(each: Install) -> None:
            each.clock.now += timedelta(hours=hours)
            each.ticks.seconds += 3600 * abs(hours)

        self.both(move)

    @rule(server=which, mode=st.sampled_from(["well", "well", "away", "busy", "its reply is lost"]))
    def server_changes(self, server: int, mode: str) -> None:
        def change(each: Install) -> None:
            each.servers[server].mode = mode

        self.both(change)

    @rule(server=which)
    def server_is_busy_for_an_hour(self, server: int) -> None:
        def retry(each: Install) -> None:
            mode, each.servers[server].mode = each.servers[server].mode, "busy"
            for _ in range(12):
                each.flush(server)
                each.clock.now += timedelta(minutes=5)
                each.ticks.seconds += 300
            each.servers[server].mode = mode

        self.both(retry)

    @rule(server=which, survey=st.sampled_from(SURVEYS), key=st.sampled_from([KEY, OTHER_KEY]))
    def publish_again(self, server: int, survey: str, key: Any) -> None:
        edition = next(self.editions)
        self.both(lambda each: each.servers[server].publish(survey, edition, key))

    @rule(server=which, number=st.integers(0, 5))
    def close_survey(self, server: int, number: int) -> None:
        def close(each: Install) -> None:
            listed = each.servers[server].listed
            listed[number % len(listed)]["state"] = "closed"

        self.both(close)

    @rule(full=st.booleans())
    def disk_fills(self, full: bool) -> None:
        """Make every later write fail."""
        self.both(lambda each: FULL.update({each.folder.name: full}))

    @invariant()
    def nothing_tells_them_apart(self) -> None:
        one, other = self.installs
        assert one.visible == other.visible
        assert one.bits == other.bits
        assert [charge.questions for charge in one.charged()] == [
            charge.questions for charge in other.charged()
        ]

    @invariant()
    def no_budget_is_overspent_and_no_noise_is_drawn_twice(self) -> None:
        for install in self.installs:
            charged = install.charged()
            assert all(ledger.total == TENTH * ledger.charges <= TENTH * CAP for ledger in charged)
            assert install.noises <= sum(ledger.charges for ledger in charged)

    @invariant()
    def an_id_has_one_report_for_one_server_and_is_sent_rarely(self) -> None:
        for install in self.installs:
            reports, tries = defaultdict(set), Counter[bytes]()
            for number, server in enumerate(install.servers):
                for envelope in server.envelopes:
                    reports[envelope.id].add(
                        (number, envelope.survey, envelope.round, envelope.payload)
                    )
                    tries[envelope.id] += 1
            assert all(len(report) == 1 for report in reports.values())
            days = install.ticks.seconds / A_DAY
            assert max(tries.values(), default=0) <= 10 + days
            rounds = Counter((survey, round_) for ((_, survey, round_, _),) in reports.values())
            assert max(rounds.values(), default=0) <= len(PEOPLE)

    @invariant()
    def what_was_withdrawn_is_never_sent(self) -> None:
        for install in self.installs:
            sent = {envelope.id for server in install.servers for envelope in server.envelopes}
            assert not sent - install.sent & install.withdrawn
            install.sent = sent

    @invariant()
    def without_anybody_s_consent_nothing_is_asked_or_sent(self) -> None:
        for install in self.installs:
            asked = sum(server.asked for server in install.servers)
            assert install.agreed or install.agreed_before or asked == install.asked
            install.agreed_before, install.asked = bool(install.agreed), asked

    def teardown(self) -> None:
        self.patch.undo()
        self.both(Install.end)


def run(runs: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=STEPS,
            phases=phases or tuple(Phase),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("runs", [8, pytest.param(250, marks=pytest.mark.long)])
def test_no_order_of_events_reveals_an_answer_or_spends_twice(runs: int) -> None:
    run(runs)


# Planted faults of each kind


def some_values_are_refused(patch: pytest.MonkeyPatch) -> None:
    answer = Person.answer

    def refusing(person: Person, survey: str, **answers: object) -> Outcome:
        if answers["crashed"] is not True:
            return Outcome("refused", "it does not fit")
        return answer(person, survey, **answers)

    patch.setattr(Person, "answer", refusing)


def a_lie_draws_more(patch: pytest.MonkeyPatch) -> None:
    report = Survey.report

    def drawing(survey: Survey, answers: Mapping[str, object], draw: Draw) -> Report:
        if answers["crashed"] is not True:
            draw(64)
        return report(survey, answers, draw)

    patch.setattr(Survey, "report", drawing)


def caps_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger.Ledger, "obstacle", lambda *_: None)


def a_charge_is_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "write_charge", lambda *_: None)


def noise_comes_before_the_charge(patch: pytest.MonkeyPatch) -> None:
    charge = AnswerPipeline._charge

    def drawing(way: AnswerPipeline, *arguments: Any) -> Any:
        way._draw(64)
        return charge(way, *arguments)

    patch.setattr(AnswerPipeline, "_charge", drawing)


def tries_have_no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox, "MAX_TRIES", 1000)
    few, many = "tries < 10", "tries < 1000"
    patch.setattr(outbox, "_READY", tuple(ready.replace(few, many) for ready in outbox._READY))


def servers_are_not_told_apart(patch: pytest.MonkeyPatch) -> None:
    for_any = outbox.SENDABLE.replace("server = :server", ":server != ''")
    patch.setattr(outbox, "SENDABLE", for_any)


def a_withdrawal_leaves_reports(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox, "withdraw_all", lambda *_: None)


def nobody_s_consent_is_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Consents, "obstacle", lambda *_: None)
    patch.setattr(Consent, "is_given", lambda *_: True)
    any_person = outbox.SENDABLE.replace(outbox.SENDABLE.split(" AND ", 1)[1], "1")
    for statement in ("_CANDIDATES", "SENDABLE"):
        sendable = getattr(outbox, statement)
        patch.setattr(outbox, statement, sendable.replace(outbox.SENDABLE, any_person))
    patch.setattr(outbox, "SENDABLE", any_person)


FAULTS = [
    pytest.param(fault, marks=() if index < 2 else pytest.mark.long, id=fault.__name__)
    for index, fault in enumerate(
        [
            some_values_are_refused,
            a_charge_is_not_written,
            a_withdrawal_leaves_reports,
            a_lie_draws_more,
            caps_are_not_kept,
            noise_comes_before_the_charge,
            tries_have_no_end,
            servers_are_not_told_apart,
            nobody_s_consent_is_needed,
        ]
    )
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, FlakyFailure)):  # or found, but not on replay
        run(1_000, Phase.generate)
