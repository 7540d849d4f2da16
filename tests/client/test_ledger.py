"""The ledger: no order of events ever spends more than the app allows."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.client import Client, Policy
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.sent import read_summary
from deniable.client.state.ledger import Ledger
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.survey.signing import public_hex
from tests.client.scripted import KEY, MEMORY, TODAY, Clock, bit, document, entry

SURVEYS = {
    "a": {"crashed": "0.1"},
    "b": {"crashed": "0.3", "slow": "0.7"},
    "c": {"slow": "0.2"},
}
LISTED = [
    entry(
        document(
            name,
            opens="2026-11-01",
            period="day",
            questions="".join(bit(question, epsilon) for question, epsilon in asked.items()),
        )
    )
    for name, asked in SURVEYS.items()
]
LIST = Reply(200, json.dumps({"surveys": LISTED}).encode())
CAPS = {"total": 1_500, "question": 800}  # thousandths
POLICY = Policy(keys=[public_hex(KEY)], max_epsilon="1.5", max_epsilon_per_question="0.8")

steps = st.lists(
    st.one_of(
        st.sampled_from([*SURVEYS, "crash a", "crash b"]),
        st.sampled_from(["restart", "forget", "withdraw"]),
        st.integers(-20, 20),  # days by which the clock jumps
    ),
    max_size=20,
)


class ListOnly:
    """A network that brings the list of surveys and takes no report."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return LIST
        raise Unreachable("nobody there")


class Crash(BaseException):
    pass


class Device:
    """A client, and beside it a plain account of what it may do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.crashing = folder, Clock(), False
        self.answered: set[tuple[str, datetime]] = set()
        self.spent: Counter[str] = Counter()
        self.client = self.start()

    def start(self) -> Client:
        client = Client(
            "https://stats.example.org",
            policy=POLICY,
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
        over = self.spent.total() + sum(costs.values()) > CAPS["total"]
        if over or any(self.spent[q] + cost > CAPS["question"] for q, cost in costs.items()):
            return "budget-spent"
        self.spent.update(costs)
        self.answered.add((name, self.clock.now))
        return "queued"


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_any_order_of_events_keeps_the_caps_exactly(events: list[str | int]) -> None:
    """Never more than the caps, and never less than what they allow: restarts, crashes, erasure,
    withdrawal and jumps of the clock change nothing."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        device = Device(Path(folder))
        for event in events:
            device.play(event)
        device.client.close()
        ledger = read_summary(folder).ledger
        assert dict(ledger.questions) == {q: 10**6 * spent for q, spent in device.spent.items()}
        assert ledger.total <= CAPS["total"] * 10**6
        assert all(spent <= CAPS["question"] * 10**6 for spent in ledger.questions.values())


def test_a_question_never_asked_before_may_cost_its_cap_and_not_a_billionth_more() -> None:
    """Of an untouched ledger: the cap of one question, and that of them all."""
    cap, total = 800_000_000, 1_500_000_000
    fresh = Ledger()
    assert fresh.obstacle({"crashed": cap}, POLICY) is None
    assert "question 'crashed'" in str(fresh.obstacle({"crashed": cap + 1}, POLICY))
    assert fresh.obstacle({"a": cap, "b": total - cap}, POLICY) is None
    assert "this install" in str(fresh.obstacle({"a": cap, "b": total - cap + 1}, POLICY))
