"""Ledger: no order of events ever spends more than the app allows."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.client import Client
from deniable.client.disclosure import read_summary
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.state import Transaction, ledger
from deniable.client.state.database import DATABASE, MARKER
from deniable.client.state.ledger import Charge, Identity, Ledger
from deniable.shared.privacy.mechanism import kernel_draw
from tests.client.conftest import MakeClient
from tests.client.scripted import TODAY, Clock, Script, bit, document, entry, lifetime_policy
from tests.eventually import PATIENCE

SURVEYS = {
    "a": {"crashed": "0.1"},
    "b": {"crashed": "0.3", "slow": "0.7"},
    "c": {"slow": "0.2"},
    "d": {"crashed": "0.2", "slow": "0.1"},
}
ASKS_ONE = {"d"}
LISTED = [
    entry(
        document(
            name,
            opens="2026-11-01",
            period="day",
            questions="".join(bit(question, epsilon) for question, epsilon in asked.items()),
            asks_one=name in ASKS_ONE,
        )
    )
    for name, asked in SURVEYS.items()
]
LIST = Reply(200, json.dumps({"surveys": LISTED}).encode())
CAPS = {"total": 1_500, "question": 800}  # thousandths
POLICY = lifetime_policy(max_epsilon="1.5", max_epsilon_per_question="0.8")

steps = st.lists(
    st.one_of(
        st.sampled_from([*SURVEYS, "crash a", "crash b", "crash d"]),
        st.sampled_from(["restart", "forget", "withdraw"]),
        st.integers(-20, 20),  # days by which the clock jumps
    ),
    max_size=20,
)


class ListOnly:
    """Network that serves the list of surveys and accepts no report."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return LIST
        raise Unreachable("nobody there")


class Crash(BaseException):
    pass


class Device:
    """Client, and a plain model of what it may do."""

    policy = POLICY

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.crashing = folder, Clock(), False
        self.answered: set[tuple[str, datetime]] = set()
        self.spent: Counter[str] = Counter()
        self.total = 0
        self.client = self.start()

    def start(self) -> Client:
        client = Client(
            "https://stats.example.org",
            policy=self.policy,
            state=self.folder,
            now=self.clock,
            draw=self.draw,
            transport=ListOnly(),
        )
        client.consent(True)
        return client

    def draw(self, bits: int) -> int:
        if self.crashing:
            raise Crash
        return kernel_draw(bits)

    def play(self, step: str | int) -> None:
        if isinstance(step, int):
            self.clock.now = max(self.clock.now + timedelta(days=step), TODAY - timedelta(days=30))
        elif step == "restart":
            self.client.close()
            self.client = self.start()
        elif step in ("forget", "withdraw"):
            self.client.forget() if step == "forget" else self.client.consent(False)
            self.client.consent(True)
        else:
            self.answer(step.removeprefix("crash "), crashing=step.startswith("crash"))

    def answer(self, name: str, crashing: bool) -> None:
        expected = self.expected(name)
        self.crashing = crashing
        try:
            status = self.client.answer(name, **dict.fromkeys(SURVEYS[name], True)).status
        except Crash:
            status = "queued"
        assert status == expected

    def expected(self, name: str) -> str:
        costs = {question: round(1000 * float(e)) for question, e in SURVEYS[name].items()}
        if (name, self.clock.now) in self.answered:
            return "already-answered"
        cost = max(costs.values()) if name in ASKS_ONE else sum(costs.values())
        over = self.total + cost > CAPS["total"]
        if over or any(self.spent[q] + cost > CAPS["question"] for q, cost in costs.items()):
            return "budget-spent"
        self.spent.update(costs)
        self.total += cost
        self.answered.add((name, self.clock.now))
        return "queued"


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(steps)
def test_any_order_of_events_keeps_the_caps_exactly(events: list[str | int]) -> None:
    """Check that the client spends neither more nor less than the caps allow.

    Events include restarts, crashes, erasure, withdrawal and clock jumps.
    """
    with tempfile.TemporaryDirectory() as folder:
        device = Device(Path(folder))
        for event in events:
            device.play(event)
        device.client.close()
        told = read_summary(folder).ledger
        assert dict(told.questions) == {q: 10**6 * spent for q, spent in device.spent.items()}
        assert told.total == 10**6 * device.total <= CAPS["total"] * 10**6
        assert all(spent <= CAPS["question"] * 10**6 for spent in told.questions.values())


CHANGES = {
    "changed": "UPDATE charges SET costs = '{\"crashed\": 1}' WHERE number = 2",
    "moved to another round": "UPDATE charges SET round = 1 WHERE number = 2",
    "moved to another quarter": "UPDATE charges SET quarter = '2026-Q3' WHERE number = 2",
    "moved to another survey": "UPDATE charges SET name = 'b' WHERE number = 2",
    "moved to another key": "UPDATE charges SET key = 'b' WHERE number = 2",
    "lost from the middle": "DELETE FROM charges WHERE number = 2",
    "lost from the end": "DELETE FROM charges WHERE number = 3",
    "given to another": "UPDATE charges SET person = x'00' WHERE number = 3",
    "repeated": "INSERT INTO charges SELECT 9, person, survey, 99, quarter, name, key, costs, seal"
    " FROM charges WHERE number = 3",
    "lost with its count": "DELETE FROM ledgers WHERE person = {person}",
}
REORDERED = ("UPDATE charges SET number = 8 WHERE number = 2",
             "UPDATE charges SET number = 2 WHERE number = 3",
             "UPDATE charges SET number = 3 WHERE number = 8")  # fmt: skip


@pytest.mark.parametrize("name", ["ann", None])
@pytest.mark.parametrize("change", [*CHANGES, "reordered"])
@pytest.mark.parametrize("when", ["while it runs", "before it starts"])
def test_a_changed_ledger_is_never_charged_again(
    tmp_path: Path, name: str | None, change: str, when: str
) -> None:
    """The changed charge may be one of many that this process has read before.

    Another person is charged last, so the total number of charges reveals nothing.
    """
    clock = Clock()
    client = client_in(tmp_path, clock)
    person = client if name is None else client.person(name)
    for day in range(3):
        clock.now = TODAY + timedelta(days=day)
        person.consent(True)
        assert person.answer("a", crashed=True).status == "queued"
    client.person("bob").consent(True)
    assert client.person("bob").answer("a", crashed=True).status == "queued"
    with client._state.transaction() as db:
        whose = f"x'{Identity(name).person(db).hex()}'"
    if when == "before it starts":
        client._uploader.stop(PATIENCE)
        client._state.close()
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
        for statement in REORDERED if change == "reordered" else [CHANGES[change]]:
            other.execute(statement.replace("{person}", whose))
    if when == "before it starts":
        client = client_in(tmp_path, clock)
        person = client if name is None else client.person(name)
    clock.now = TODAY + timedelta(days=4)
    assert person.answer("a", crashed=True).status == "unavailable"
    client._uploader.stop(PATIENCE)


def client_in(folder: Path, clock: Clock) -> Client:
    return Client(
        "https://stats.example.org", policy=POLICY, state=folder, now=clock, transport=ListOnly()
    )


def test_the_whole_ledger_is_read_once_instead_of_at_each_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows written by another process are read again."""
    read, verified = list[bytes](), ledger._verified

    def reading(db: Transaction, person: bytes) -> Ledger:
        read.append(person)
        return verified(db, person)

    monkeypatch.setattr(ledger, "_verified", reading)
    clock = Clock()
    client, other = client_in(tmp_path, clock), client_in(tmp_path, clock)
    client.consent(True)
    for day in range(5):
        clock.now = TODAY + timedelta(days=day)
        assert client.answer("a", crashed=True).status == "queued"
    assert len(read) == 1
    other.consent(True)
    clock.now = TODAY + timedelta(days=5)
    assert client.answer("a", crashed=True).status == "queued"
    assert len(read) == 2
    for device in (client, other):
        device._uploader.stop(PATIENCE)
        device._state.close()


def test_a_new_question_may_cost_exactly_its_cap() -> None:
    """An untouched ledger allows the cap of one question, and the total cap."""
    cap, total = 800_000_000, 1_500_000_000

    def obstacle(costs: dict[str, int], total: int) -> str | None:
        charge = Charge("id", 1, "2026-Q4", "app-health", "key", costs, total)
        return Ledger().obstacle(charge, POLICY)

    assert obstacle({"crashed": cap}, cap) is None
    assert "question 'crashed'" in str(obstacle({"crashed": cap + 1}, cap + 1))
    assert obstacle({"a": cap, "b": total - cap}, total) is None
    assert obstacle({"a": cap, "b": cap}, cap) is None  # if only one of them is drawn
    assert "this install" in str(obstacle({"a": cap, "b": total - cap + 1}, total + 1))


def test_drawing_one_question_costs_the_largest_and_charges_each_question(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """Charging all questions together would exceed the caps."""
    questions = bit("a", "0.5") + bit("b", "0.2")
    policy = lifetime_policy(max_epsilon_per_round="0.5", max_epsilon="0.5")
    script.publish(document(questions=questions))
    assert client_of(policy=policy).answer("app-health", a=True, b=True).status == "refused"
    script.surveys.clear()
    script.publish(document(questions=questions, asks_one=True))
    client = client_of(policy=policy, state=tmp_path / "other")
    assert client.answer("app-health", a=True, b=True).status == "queued"
    ledger = read_summary(tmp_path / "other").ledger
    assert ledger.total == 500_000_000
    assert dict(ledger.questions) == {"a": 500_000_000, "b": 200_000_000}
    assert "each is charged" in read_summary(tmp_path / "other").text


def test_the_marker_counts_a_charge_before_its_noise_is_drawn(
    script: Script, client_of: MakeClient, tmp_path: Path, clock: Clock
) -> None:
    """Otherwise a restored older database would not be noticed after a crash at that moment."""
    lengths = list[int]()

    def draw(bits: int) -> int:
        lengths.append((tmp_path / "state" / MARKER).stat().st_size)
        return kernel_draw(bits)

    script.publish(document(questions=bit("a", "0.5"), period="day"))
    client = client_of(draw=draw)
    for day in range(3):
        clock.now = TODAY + timedelta(days=day)
        assert client.answer("app-health", a=True).status == "queued"
        assert set(lengths) == {day + 1}
        lengths.clear()


def test_a_question_whose_cap_is_reached_stops_the_round_before_any_is_drawn(
    script: Script, client_of: MakeClient
) -> None:
    """Otherwise a refused call could be repeated until another question is drawn."""

    def draw(bits: int) -> int:
        raise AssertionError("noise was drawn")

    policy = lifetime_policy(max_epsilon_per_question="0.4")
    script.publish(document(questions=bit("a", "0.5") + bit("b", "0.2"), asks_one=True))
    client = client_of(policy=policy, draw=draw)
    assert client.answer("app-health", a=True, b=True).status == "budget-spent"
