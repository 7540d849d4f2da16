"""Latched reports: drawn and charged once for a span of rounds, and sent again in each of them."""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.client import Client, Outcome
from deniable.client.disclosure import Description, read_summary
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.state import outbox
from deniable.client.state.database import DATABASE
from deniable.shared.envelope import Envelope, parse_envelopes
from deniable.shared.privacy.epsilon import ONE, exp_interval
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import Survey, parse_document
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    LATER,
    TODAY,
    Clock,
    Script,
    bit,
    document,
    entry,
    lifetime_policy,
)
from tests.eventually import PATIENCE

DAY = timedelta(days=1)


class Listing:
    """Network that serves the list of surveys and accepts no report."""

    def __init__(self, *published: bytes) -> None:
        self.list = json.dumps({"surveys": [entry(survey) for survey in published]}).encode()

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return Reply(200, self.list)
        raise Unreachable("nobody there")


def client_in(folder: Path, published: bytes, **changes: object) -> Client:
    options: dict[str, object] = {
        "policy": lifetime_policy(max_epsilon="20", max_epsilon_per_round="20"),
        "state": folder,
        "transport": Listing(published),
        "send_within": 1e6,  # nothing is due for the background thread
    }
    client = Client("https://stats.example.org", **(options | changes))  # type: ignore[arg-type] # as listed
    client.consent(True)
    return client


def ended(client: Client) -> None:
    client._uploader.stop(PATIENCE)
    assert client._uploader._thread is None, "its log lines would reach another test"
    client._state.close()


def queued(folder: Path) -> list[Envelope]:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        rows = db.execute("SELECT envelope FROM outbox ORDER BY number").fetchall()
    return [parse_envelopes(bytes(row[0]))[0] for row in rows]


def answered_after(
    first: int, second: int, script: Script, client: Client, clock: Clock
) -> tuple[str, Outcome]:
    """Answer a survey whose reports last for `first` rounds, then one with the same questions."""
    before = script.publish(document(opens="2026-12-10", period="day", repeat_rounds=first))
    assert client.answer("app-health", **ANSWERS).status == "queued"
    clock.now += timedelta(hours=2)
    script.publish(document(opens="2026-12-10", period="day", repeat_rounds=second))
    client.prefetch(PATIENCE)
    return before, client.answer("app-health", **ANSWERS)


def test_a_latched_report_answers_a_survey_of_one_round(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    before, outcome = answered_after(3, 1, script, client_of(), clock)
    assert outcome.status == "already-answered"
    assert f"under the id {before}" in outcome.detail


def test_a_fresh_report_does_not_answer_a_latched_survey(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """The latched survey also covers the following rounds."""
    assert answered_after(1, 3, script, client_of(), clock)[1].status == "queued"


# Exact privacy loss

ROUNDS, SPAN, EPSILON = 3, 2, "1"
IN_ITS_PLACE = 0  # drawn before each noise, as substitute for an answer that does not fit
Distribution = dict[tuple[bytes, ...], Fraction]


def distribution(survey: Survey, published: bytes, history: tuple[bool, ...]) -> Distribution:
    """Return P[payloads of all rounds | answers in all rounds] of the real client.

    Each number that the draw returns stands for all numbers that give the same report, with their
    total probability.
    """
    (question,) = survey.questions
    (lie,) = question.mechanism.integers
    kinds = ((0, Fraction(lie, ONE)), (ONE - 1, Fraction(ONE - lie, ONE)))  # a lie, the truth
    found: Distribution = defaultdict(Fraction)
    for noise in product(kinds, repeat=ROUNDS):
        numbers = iter([n for number, _ in noise for n in (IN_ITS_PLACE, number)])
        with tempfile.TemporaryDirectory() as folder:
            payloads = transcript(Path(folder), published, history, numbers)
        left = len(list(numbers)) // 2
        drawn = math.prod(probability for _, probability in noise[: ROUNDS - left])
        found[payloads] += drawn / 2**left  # divides by the choices for draws that were not used
    assert sum(found.values()) == 1
    return found


def transcript(
    folder: Path, published: bytes, history: tuple[bool, ...], numbers: Iterator[int]
) -> tuple[bytes, ...]:
    """Return everything that is sent over all rounds."""
    clock = Clock()
    client = client_in(folder, published, now=clock, draw=lambda bits: next(numbers))
    for answer in history:
        assert client.answer("app-health", crashed=answer).status == "queued"
        clock.now += DAY
    ended(client)
    return tuple(envelope.payload for envelope in queued(folder))


def largest_ratio(published: bytes) -> Fraction:
    """Return the largest ratio of a transcript's probabilities between two histories of answers."""
    survey = parse_document(published)
    everyone = [
        distribution(survey, published, history)
        for history in product((False, True), repeat=ROUNDS)
    ]
    sent = set().union(*everyone)
    assert all(set(reports) == sent for reports in everyone)
    return max(max(e[t] for e in everyone) / min(e[t] for e in everyone) for t in sent)


def three_days(repeat_rounds: int) -> bytes:
    return document(
        opens="2026-12-10",
        closes="2026-12-12",
        period="day",
        questions=bit("crashed", EPSILON),
        repeat_rounds=repeat_rounds,
    )


def exp_below(billionths: int) -> Fraction:
    return Fraction(exp_interval(billionths, 10**9, 128).low, 2**128)


def test_privacy_loss_over_all_rounds_is_exactly_epsilon_per_span() -> None:
    """Enumerate every history, all noise and every transcript of the real client.

    The charge equals the loss.
    """
    survey = parse_document(published := three_days(SPAN))
    assert (survey.rounds, survey.draws, survey.lifetime_epsilon) == (ROUNDS, 2, "2")
    worst = largest_ratio(published)
    assert worst <= exp_below(survey.lifetime_billionths)
    assert worst > exp_below(survey.lifetime_billionths - 1_000)


def test_fresh_noise_in_each_round_would_break_that_bound() -> None:
    """Twin: with one charge for two rounds, fresh noise spends one ε too much."""
    latched, fresh = parse_document(three_days(SPAN)), three_days(1)
    worst = largest_ratio(fresh)
    assert worst > exp_below(latched.lifetime_billionths)
    assert worst > exp_below(parse_document(fresh).lifetime_billionths - 1_000)


# Events in any order

FEW = 3  # rounds per span
LATCHED = document(
    opens="2026-12-01", period="day", questions=bit("crashed", EPSILON), repeat_rounds=FEW
)
SURVEY = parse_document(LATCHED)
CAP = 4  # in spans

steps = st.lists(
    st.one_of(
        st.booleans(),  # an answer
        st.sampled_from(["killed before the noise", "killed after the noise"]),
        st.sampled_from(["restart", "forget", "withdraw"]),
        st.integers(-2, 4),  # days by which the clock jumps
    ),
    max_size=25,
)


class Killed(BaseException):
    pass


class Device:
    """Client, and a plain model of what it may do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.killed = folder, Clock(), ""
        self.drawing = False
        self.drawn: dict[int, int] = defaultdict(int)  # number of noise draws by span
        self.kept: dict[int, int] = {}  # last round used, by span with a report
        self.charged: set[int] = set()
        self.payloads: dict[int, set[bytes]] = defaultdict(set)
        self.rounds: list[tuple[int, bytes]] = []
        self.client = self.start()

    def start(self) -> Client:
        policy = lifetime_policy(max_epsilon=str(CAP))
        return client_in(self.folder, LATCHED, now=self.clock, draw=self.draw, policy=policy)

    @property
    def round(self) -> int:
        return SURVEY.round_of(self.clock.now.date())

    @property
    def span(self) -> int:
        return SURVEY.span_of(self.round)[0]

    def draw(self, bits: int) -> int:
        if self.killed == "killed before the noise":
            raise Killed
        self.drawing = True
        return kernel_draw(bits)

    def play(self, step: bool | str | int) -> None:
        if isinstance(step, bool):
            self.answer(step)
        elif isinstance(step, int):
            day = max(self.clock.now + step * DAY, TODAY - 5 * DAY)
            self.clock.now = min(day, TODAY + 20 * DAY)
        elif step == "restart":
            ended(self.client)
            self.client = self.start()
        elif step in ("forget", "withdraw"):
            self.client.forget() if step == "forget" else self.client.consent(False)
            self.kept.clear()
            self.client.consent(True)
        else:
            self.killed = step
            self.answer(True)
            self.killed = ""

    def answer(self, value: bool) -> None:
        expected, self.drawing = self.expected(), False
        with pytest.MonkeyPatch.context() as patch:
            if self.killed == "killed after the noise":
                patch.setattr(outbox, "put", self.put)
            try:
                outcome = self.client.answer("app-health", crashed=value)
            except Killed:
                return
            finally:
                self.drawn[self.span] += self.drawing
        assert outcome.status == expected
        if expected == "queued":
            self.sent(queued(self.folder)[-1])

    def put(self, *_: object, **__: object) -> None:
        raise Killed

    def sent(self, envelope: Envelope) -> None:
        assert envelope.round == self.round
        self.payloads[self.span].add(envelope.payload)
        self.rounds.append((envelope.round, envelope.id))

    def expected(self) -> str:
        """Return the status that the model expects; the call deletes rows of finished spans."""
        self.kept = {s: r for s, r in self.kept.items() if SURVEY.span_of(s)[-1] >= self.round}
        if self.span not in self.charged:
            if len(self.charged) == CAP:
                return "budget-spent"
            self.charged.add(self.span)
            if not self.killed:
                self.kept[self.span] = self.round
            return "queued"
        if self.kept.get(self.span, self.round) >= self.round:
            return "already-answered"
        self.kept[self.span] = self.round
        return "queued"


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(steps)
def test_any_order_of_events_draws_and_charges_once_in_a_span(
    events: list[bool | str | int],
) -> None:
    """Let answers change, with kills, restarts, erasure, withdrawal and clock jumps between them.

    Each span has at most one noise, one charge, and the same report in all of its rounds; no round
    is sent twice.
    """
    with tempfile.TemporaryDirectory() as folder:
        device = Device(Path(folder))
        for event in events:
            device.play(event)
        ended(device.client)
        assert all(noises <= 1 for noises in device.drawn.values())
        assert {span for span, noises in device.drawn.items() if noises} <= device.charged
        assert all(len(payloads) == 1 for payloads in device.payloads.values())
        rounds = [round_ for round_, _ in device.rounds]
        assert len(set(rounds)) == len(rounds) == len({id_ for _, id_ in device.rounds})
        charged = read_summary(folder).ledger
        assert (charged.charges, charged.total) == (
            len(device.charged),
            len(device.charged) * SURVEY.round_billionths,
        )


# Descriptions, stored reports and examined values


class Unread:
    """Value that fails the test if it is examined."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError("the value was examined")


@pytest.fixture
def latched(script: Script) -> Script:
    script.always = LATER
    script.publish(document(period="day", repeat_rounds=FEW))
    return script


def days_from(clock: Clock, first: datetime) -> Callable[[int], None]:
    """Return the days until this day of the span that begins on the first one."""

    def to(day: int) -> None:
        clock.now = first + day * DAY

    return to


@pytest.fixture
def day(clock: Clock) -> Callable[[int], None]:
    return days_from(clock, TODAY.replace(day=10))  # 2026-12-10 begins a span of three days


@pytest.mark.parametrize("value", [lambda: None, lambda: 7, lambda: "safari", Unread])
def test_a_later_answer_is_not_examined_and_no_noise_is_drawn(
    latched: Script,
    client_of: MakeClient,
    day: Callable[[int], None],
    value: Callable[[], object],
    tmp_path: Path,
) -> None:
    """So time, disk and outcome cannot depend on it."""
    draws: list[int] = []

    def draw(bits: int) -> int:
        draws.append(bits)
        return kernel_draw(bits)

    client = client_of(draw=draw)
    day(0)
    first = client.answer("app-health", **ANSWERS)
    drawn = list(draws)
    day(1)
    again = client.answer("app-health", **dict.fromkeys(ANSWERS, value()))
    assert (first.status, again.status, again.unfit) == ("queued", "queued", ())
    assert draws == drawn
    one, two = queued(tmp_path / "state")
    assert one.payload == two.payload
    assert one.id != two.id
    assert two.round == one.round + 1


@pytest.mark.parametrize("end", ["forget", "withdraw"])
def test_an_erased_report_is_not_drawn_again(
    latched: Script,
    client_of: MakeClient,
    day: Callable[[int], None],
    end: str,
    tmp_path: Path,
) -> None:
    """The remaining rounds of its span have no report; the next span has one."""
    client, statuses = client_of(), []
    for number in range(FEW + 1):
        day(number)
        statuses.append(client.answer("app-health", **ANSWERS).status)
        if number == 0:
            assert kept(tmp_path / "state") == 1
            client.forget() if end == "forget" else client.consent(False)
            assert kept(tmp_path / "state") == 0
            client.consent(True)
    assert statuses == ["queued", "already-answered", "already-answered", "queued"]


def test_a_kept_report_is_deleted_and_overwritten_when_its_span_is_over(
    client_of: MakeClient, script: Script, day: Callable[[int], None], tmp_path: Path
) -> None:
    options = ", ".join(f'"option {n}"' for n in range(200))
    wide = (
        '[[question]]\nname = "it"\nkind = "choice"\nover = "first"\n'
        f'options = [{options}]\nepsilon = "1"\n'
        'mechanism = "unary"\n'
    )
    script.publish(document(period="day", questions=wide, repeat_rounds=FEW))
    client = client_of()
    day(0)
    assert client.answer("app-health", it="option 3").status == "queued"
    assert client.flush(PATIENCE) == 0
    (sent,) = script.envelopes()
    day(FEW - 1)
    client.flush(PATIENCE)
    assert sent.payload in every_byte(tmp_path / "state")
    day(FEW)
    client.flush(PATIENCE)
    assert kept(tmp_path / "state") == 0
    assert sent.payload not in every_byte(tmp_path / "state")


def every_byte(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def kept(folder: Path) -> int:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        return int(db.execute("SELECT count(*) FROM kept_reports").fetchone()[0])


def test_the_history_names_the_person_of_a_repeated_report(
    latched: Script, client_of: MakeClient, day: Callable[[int], None], tmp_path: Path
) -> None:
    client = client_of()
    for number in (1, 2):
        day(number)
        client.answer("app-health", **ANSWERS)
    summary = read_summary(tmp_path / "state")
    first, again = summary.as_json()["reports"]
    assert [part["says"] for part in again["said"]] == [part["says"] for part in first["said"]]
    assert {part["repeats"] for part in first["said"]} == {None}
    assert {part["repeats"] for part in again["said"]} == {first["round"]}
    assert f"the same report as in round {first['round']}, at no further ε" in summary.text


def test_people_sharing_a_state_have_separate_reports(
    latched: Script, client_of: MakeClient, day: Callable[[int], None], tmp_path: Path
) -> None:
    client = client_of()
    people = [client.person("ann"), client.person("bob")]
    for person in people:
        person.consent(True)
        day(0)
        assert person.answer("app-health", **ANSWERS).status == "queued"
    people[0].forget()
    day(1)
    people[0].consent(True)
    assert [p.answer("app-health", **ANSWERS).status for p in people] == [
        "already-answered",
        "queued",
    ]


def test_the_question_that_was_drawn_stays_for_the_span(
    script: Script, client_of: MakeClient, day: Callable[[int], None], tmp_path: Path
) -> None:
    """Question and noise are drawn once and stored together."""
    script.always = LATER
    script.publish(document(period="day", asks_one=True, repeat_rounds=FEW))
    client = client_of()
    for number in range(FEW):
        day(number)
        assert client.answer("app-health", **ANSWERS).status == "queued"
    assert len({envelope.payload for envelope in queued(tmp_path / "state")}) == 1


@pytest.mark.parametrize("change", ["payload = x'00'", "payload = 'x'", "payload = x'ffffff'"])
def test_a_stored_report_that_became_invalid_is_not_sent(
    latched: Script, client_of: MakeClient, day: Callable[[int], None], tmp_path: Path, change: str
) -> None:
    client = client_of()
    day(0)
    client.answer("app-health", **ANSWERS)
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE, isolation_level=None)) as db:
        db.execute(f"UPDATE kept_reports SET {change}")
    day(1)
    assert client.answer("app-health", **ANSWERS).status == "unavailable"
    assert len(queued(tmp_path / "state")) == 1


def test_a_person_sees_the_latching_and_its_cost(script: Script, client_of: MakeClient) -> None:
    """Five rounds have two reports: one for three rounds, the other for two. A cap allows one."""
    script.publish(document(closes="2027-04-30", repeat_rounds=3))
    for cap, uses, ends in (
        ("6", "3", ""),
        ("2", "1.5", ". After 3 of its 5 rounds the app"),
    ):
        client = client_of(policy=lifetime_policy(max_epsilon=cap))
        client.prefetch()
        told = client.describe("app-health")
        assert isinstance(told, Description)
        assert (told.rounds, told.repeat_rounds) == (5, 3)
        assert (told.epsilon_per_round, told.epsilon) == ("1.5", "3")
        assert f"This survey uses {uses} of the {cap} privacy units (ε)" in told.text
        assert f"1.5 in every 3 rounds{ends}" in told.text
        assert "keeps that report. It sends it again" in told.text


def test_a_kept_report_is_sent_once_in_each_round(
    latched: Script, client_of: MakeClient, day: Callable[[int], None], tmp_path: Path
) -> None:
    client = client_of()
    for number, statuses in ((0, ["queued"]), (1, ["queued", "already-answered"])):
        day(number)
        assert [client.answer("app-health", **ANSWERS).status for _ in statuses] == statuses
    assert len(queued(tmp_path / "state")) == 2
