"""Random participation: the rounds of a survey that an install answers, and its renewed budget."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.client import Budget, Client, Person, Policy
from deniable.client.disclosure import read_summary
from deniable.client.net.transport import Reply
from deniable.client.pipeline import AnswerPipeline
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    KEY,
    OTHER_KEY,
    Clock,
    Script,
    bit,
    document,
    entry,
    sqlite_of,
)
from tests.client.test_ledger import ASKS_ONE, SURVEYS, Device
from tests.eventually import PATIENCE

DEFAULT = Policy(keys=[public_hex(KEY)])
OPENS, CLOSES = date(2026, 10, 1), date(2027, 12, 31)
WEEK = timedelta(days=7)
MONDAYS = [date(2026, 10, 5) + number * WEEK for number in range(52)]
EPSILON = Fraction(1, 2)


def weekly(name: str = "pulse", epsilon: str = "0.5", **changes: Any) -> bytes:
    given = {"opens": str(OPENS), "closes": str(CLOSES), "period": "week"}
    return document(name, questions=bit("crashed", epsilon), **given | changes)


def quarter(day: date) -> str:
    return f"{day.year}-Q{[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4][day.month - 1]}"


def week_of(day: date) -> int:
    return ((day - date(1970, 1, 1)).days + 3) // 7


def monday_of(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=7 * number - 3)


def drawn(key: bytes, name: str, number: int, epsilon: Fraction, budget: Fraction) -> bool:
    """Return whether a week is answered, from the rule in words and from nothing of ours."""
    block = quarter(monday_of(number))
    rounds = [n for n in range(number - 14, number + 15) if quarter(monday_of(n)) == block]
    text = "participation\0{}\0{}\0{}"
    score = {
        n: hmac.new(key, text.format(name, block, n).encode(), hashlib.sha256).digest()
        for n in rounds
    }
    count = min(len(rounds), budget // epsilon)
    return number in sorted(rounds, key=lambda n: score[n])[:count]


def key_of(person: Person) -> bytes:
    with person._state.transaction() as db:
        whose = person._consent.identity.person(db)
        query = "SELECT value FROM settings WHERE person = ? AND name = 'participation'"
        return bytes.fromhex(db.execute(query, (whose,)).fetchone()[0])


class Network:
    """Network that lists surveys and takes every report."""

    def __init__(self, *documents: bytes) -> None:
        self.listed = [entry(made) for made in documents]
        self.requests: list[str] = []

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        self.requests.append(method)
        if method == "GET":
            return Reply(200, json.dumps({"surveys": self.listed}).encode())
        return Reply(200, b'{"accepted": 1, "duplicates": 0, "refused": []}')


def client_in(
    folder: str | Path, clock: Clock, network: Network, policy: Policy = DEFAULT
) -> Client:
    return Client(
        "https://stats.example.org",
        policy=policy,
        state=folder,
        now=clock,
        transport=network,
        send_within=0.0,
    )


def clock_at(day: date) -> Clock:
    clock = Clock()
    clock.now = at(day)
    return clock


def at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


@pytest.mark.parametrize(("epsilon", "count"), [("0.5", 4), ("0.7", 2), ("2", 1), ("0.15", 13)])
def test_an_install_answers_exactly_k_rounds_of_each_quarter(
    tmp_path: Path, epsilon: str, count: int
) -> None:
    clock = clock_at(MONDAYS[0])
    client = client_in(tmp_path, clock, Network(weekly(epsilon=epsilon)))
    people = [client, *(client.person(f"user-{number}") for number in range(4))]
    for person in people:
        person.consent(True)
    statuses = defaultdict[str, Counter[str]](Counter)
    for day in MONDAYS:
        clock.now = at(day)
        for number, person in enumerate(people):
            status = person.answer("pulse", crashed=number % 2 == 0).status
            statuses[f"{quarter(day)} {number}"][status] += 1
    client._uploader.stop(PATIENCE)
    assert len(statuses) == 4 * len(people)
    for counted in statuses.values():
        assert counted == Counter({"queued": count, "not-drawn": 13 - count}) - Counter()


visits = st.lists(st.sampled_from(range(26)), unique=True, max_size=10)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(visits, st.booleans(), st.booleans()), min_size=2, max_size=4))
def test_the_drawn_rounds_are_the_same_for_every_history(
    histories: list[tuple[list[int], bool, bool]],
) -> None:
    """People with one key differ in the rounds they called in, in their answers and their budget.

    Each round is drawn for all of them, or for none: as the rule in words says.
    """
    with TemporaryDirectory() as folder:
        clock = clock_at(MONDAYS[0])
        network = Network(weekly(), weekly("other", "2"), weekly("third", "1"))
        client = client_in(folder, clock, network)
        for number in range(len(histories)):
            client.person(str(number)).consent(True)
        _share_one_key(client)
        key = key_of(client.person("0"))
        for week in range(26):
            clock.now = at(MONDAYS[week])
            expected = drawn(key, "pulse", week_of(MONDAYS[week]), EPSILON, Fraction(2))
            for number, (called, crashed, spends) in enumerate(histories):
                person = client.person(str(number))
                if spends:
                    person.answer("other", crashed=crashed)
                    person.answer("third", crashed=crashed)
                if week in called:
                    status = person.answer("pulse", crashed=crashed).status
                    assert (status == "not-drawn") == (not expected)
        client._uploader.stop(PATIENCE)


def _share_one_key(client: Client) -> None:
    with client._state.transaction() as db:
        db.execute(
            "UPDATE settings SET value = (SELECT max(value) FROM settings"
            " WHERE name = 'participation') WHERE name = 'participation'"
        )


class Untouchable:
    """Answer that no code may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of an answer was read")


def undrawn_week(client: Client, first: int = 0) -> date:
    """Return the first Monday that is not drawn, of those from a number on."""
    key = key_of(client)
    return next(
        day
        for day in MONDAYS[first:]
        if not drawn(key, "pulse", week_of(day), EPSILON, Fraction(2))
    )


def test_a_round_that_is_not_drawn_writes_sends_and_examines_nothing(
    script: Script, client_of: MakeClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is days old, and not fetched again."""
    script.publish(weekly())
    clock.now = at(MONDAYS[0])
    client = client_of(policy=DEFAULT)
    assert client.prefetch(PATIENCE)
    requests = len(script.gets)
    clock.now = at(undrawn_week(client, 1))
    monkeypatch.setattr(AnswerPipeline, "_later", None)  # nor is the ledger read
    with closing(sqlite3.connect(sqlite_of(client).database)) as db:
        before = "\n".join(db.iterdump())
    outcome = client.answer("pulse", crashed=Untouchable())
    with closing(sqlite3.connect(sqlite_of(client).database)) as db:
        assert "\n".join(db.iterdump()) == before
    assert outcome.status == "not-drawn"
    assert (len(script.gets), script.posts) == (requests, [])
    assert outcome.round == week_of(clock.now.date())
    assert "does not answer survey 'pulse'" in outcome.detail
    assert outcome.unfit == ()


def test_the_next_drawn_round_is_named(tmp_path: Path) -> None:
    clock = clock_at(MONDAYS[0])
    client = client_in(tmp_path, clock, Network(weekly()))
    client.consent(True)
    key = key_of(client)
    undrawn = undrawn_week(client)
    clock.now = at(undrawn)
    following = next(
        day
        for day in MONDAYS
        if day > undrawn and drawn(key, "pulse", week_of(day), EPSILON, Fraction(2))
    )
    detail = client.answer("pulse", crashed=True).detail
    assert detail.endswith(f"the next round that it answers begins on {following}")
    client._uploader.stop(PATIENCE)


def test_budget_names_the_next_day_and_the_renewal(tmp_path: Path) -> None:
    """Before and after the answers of a year, and without a consent."""
    clock, network = clock_at(MONDAYS[0]), Network(weekly(), weekly("once", "1", period="once"))
    client = client_in(tmp_path, clock, network)
    assert client.budget() == Budget("0", "8", cap="8", renews=date(2027, 1, 1))
    client.consent(True)
    assert client.prefetch(PATIENCE)
    key, answered = key_of(client), list[date]()
    for day in MONDAYS:
        clock.now = at(day)
        told = client.budget()
        assert isinstance(told, Budget)
        pulse = next(row for row in told.surveys if row.name == "pulse")
        expected = next(
            (d for d in _weeks(day) if drawn(key, "pulse", week_of(d), EPSILON, Fraction(2))), None
        )
        assert pulse.next_answer == expected
        status = client.answer("pulse", crashed=True).status
        assert (status == "queued") == (expected == day)
        answered += [day] * (status == "queued")
        used = sum(quarter(done) == quarter(day) for done in answered) * EPSILON
        after = client.budget()
        assert isinstance(after, Budget)
        assert (Fraction(after.spent), Fraction(after.left)) == (used, 8 - used)
        assert all(row.next_answer != day for row in after.surveys if row.name == "pulse")
    first, *_, last = client.budget().text.splitlines()  # type: ignore[union-attr] # it is a Budget
    spent = "Spent: ε 2 of at most 8 in this quarter; left: ε 6."
    assert first == f"{spent} The budget renews on 2027-10-01."
    assert "survey once: ε 0 spent, ε 2 left; next answer from 2027-09-27" in last
    client._uploader.stop(PATIENCE)


def _weeks(day: date) -> list[date]:
    return [day + number * WEEK for number in range(80) if day + number * WEEK <= CLOSES]


def test_a_survey_cannot_spend_what_belongs_to_others(tmp_path: Path) -> None:
    """A daily survey by mistake, at ε 2, spends its own ε 2 of the quarter and no more.

    The same name under another key has a budget of its own, within the app's.
    """
    clock, network = clock_at(MONDAYS[0]), Network()
    policy = Policy(
        keys=[public_hex(KEY), public_hex(OTHER_KEY)], max_epsilon="5", max_epsilon_per_survey="2"
    )
    again = [
        weekly("pulse", "2", period="once", closes=str(CLOSES - timedelta(days=n)))
        for n in range(3)
    ]
    client = client_in(tmp_path, clock, network, policy)
    client.consent(True)
    statuses = []
    for made, key in zip(again, (KEY, KEY, OTHER_KEY), strict=True):
        network.listed = [entry(made, key)]
        _fetch(client, clock)
        statuses.append(client.answer("pulse", crashed=True))
    assert [outcome.status for outcome in statuses] == ["queued", "budget-spent", "queued"]
    network.listed = [entry(weekly("pulse", "0.1", period="once"), KEY)]
    _fetch(client, clock)
    refused = client.answer("pulse", crashed=True)
    assert refused.status == "budget-spent"
    assert "survey 'pulse' has spent ε 2 of the 2 that the app allows in 2026-Q4" in refused.detail
    network.listed = [entry(weekly("other", "1.5", period="once"), KEY)]
    _fetch(client, clock)
    refused = client.answer("other", crashed=True)
    assert "this install has spent ε 4 of the 5 that the app allows in 2026-Q4" in refused.detail
    client._uploader.stop(PATIENCE)


def _fetch(client: Client, clock: Clock) -> None:
    """Fetch the list that the network has now, when the one on disk is old."""
    clock.now += timedelta(hours=2)
    assert client.prefetch(PATIENCE)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_epsilon_per_survey": "0.4"},
        {"max_epsilon_per_round": "0.4"},
        {"max_epsilon_per_survey": "0.4", "per": "lifetime"},
    ],
)
def test_a_round_above_a_cap_is_refused_and_not_undrawn(
    tmp_path: Path, limits: dict[str, str]
) -> None:
    policy = Policy(keys=[public_hex(KEY)], **limits)  # type: ignore[arg-type] # texts
    client = client_in(tmp_path, clock_at(MONDAYS[0]), Network(weekly()), policy)
    client.consent(True)
    outcome = client.answer("pulse", crashed=True)
    assert (outcome.status, "allows 0.4" in outcome.detail) == ("refused", True)


def test_with_lifetime_caps_every_round_is_answered_until_they_are_reached(
    tmp_path: Path,
) -> None:
    policy = Policy(keys=[public_hex(KEY)], per="lifetime")
    clock = clock_at(MONDAYS[0])
    client = client_in(tmp_path, clock, Network(weekly()), policy)
    client.consent(True)
    statuses = []
    for day in MONDAYS[:20]:
        clock.now = at(day)
        statuses.append(client.answer("pulse", crashed=True).status)
    assert statuses == ["queued"] * 4 + ["budget-spent"] * 16
    client._uploader.stop(PATIENCE)


def test_an_ended_round_has_its_own_draw_and_quarter(tmp_path: Path) -> None:
    """Answer about each week in the week after it; the last of a quarter is charged to it."""
    clock = clock_at(MONDAYS[1])
    client = client_in(tmp_path, clock, Network(weekly()))
    client.consent(True)
    key, counted = key_of(client), Counter[str]()
    for day in MONDAYS[:39]:
        clock.now = at(day + WEEK)
        status = client.answer("pulse", of="ended", crashed=True).status
        assert (status == "queued") == drawn(key, "pulse", week_of(day), EPSILON, Fraction(2))
        counted[quarter(day)] += status == "queued"
    assert set(counted.values()) == {4}
    with client._state.transaction() as db:
        rows = db.execute("SELECT quarter, count(*) FROM charges GROUP BY quarter").fetchall()
    assert dict(rows) == dict(counted)
    client._uploader.stop(PATIENCE)


def test_the_rounds_of_a_span_are_drawn_together(tmp_path: Path) -> None:
    clock = clock_at(MONDAYS[0])
    client = client_in(tmp_path, clock, Network(weekly(epsilon="2", repeat_rounds=3)))
    client.consent(True)
    statuses = []
    for day in MONDAYS[:51]:
        clock.now = at(day)
        statuses.append(client.answer("pulse", crashed=True).status)
    first = week_of(OPENS)
    spans = defaultdict[int, set[str]](set)
    for day, status in zip(MONDAYS, statuses, strict=False):
        spans[(week_of(day) - first) // 3].add(status)
    assert all(len(span) == 1 for span in spans.values())
    begun = Counter(
        quarter(monday_of(first + 3 * span)) for span, kinds in spans.items() if "queued" in kinds
    )
    assert set(begun.values()) == {1}
    client._uploader.stop(PATIENCE)


def test_the_key_outlives_a_withdrawal_and_is_erased_with_the_rest(tmp_path: Path) -> None:
    client = client_in(tmp_path, clock_at(MONDAYS[0]), Network())
    keys = []
    for erases in (False, True, False):
        client.consent(True)
        keys.append(key_of(client))
        client.forget() if erases else client.consent(False)
    client.consent(True)
    keys.append(key_of(client))
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert {len(key) for key in keys} == {32}
    client.person("ann").consent(True)
    assert key_of(client.person("ann")) not in keys


def test_without_its_key_nothing_is_answered(tmp_path: Path) -> None:
    """Another key would draw other rounds."""
    client = client_in(tmp_path, clock_at(MONDAYS[0]), Network(weekly()))
    client.consent(True)
    with client._state.transaction() as db:
        db.execute("DELETE FROM settings WHERE name = 'participation'")
    assert client.answer("pulse", crashed=True).status == "unavailable"


class RenewingDevice(Device):
    """Client whose caps hold for a quarter, and a plain model of what it may do."""

    policy = Policy(
        keys=[public_hex(KEY)],
        max_epsilon="1.2",
        max_epsilon_per_survey="0.8",
        max_epsilon_per_question="0.9",
    )
    TOTAL, SURVEY, QUESTION = 1_200, 800, 900  # thousandths

    def __init__(self, folder: Path) -> None:
        self.spends = defaultdict[str, Counter[str]](Counter)  # by quarter
        super().__init__(folder)

    def play(self, step: str | int) -> None:
        if isinstance(step, str) and step.startswith("drawn "):
            name, today = step.removeprefix("drawn "), self.clock.now
            days = (today + timedelta(days=number) for number in range(1, 190))
            self.clock.now = next((day for day in days if self.is_drawn(name, day)), today)
        else:
            super().play(step)
        self.clock.now = min(self.clock.now, at(LAST_DAY))

    def costs(self, name: str) -> dict[str, int]:
        return {question: round(1000 * float(e)) for question, e in SURVEYS[name].items()}

    def cost(self, name: str) -> int:
        return (max if name in ASKS_ONE else sum)(self.costs(name).values())

    def is_drawn(self, name: str, now: datetime) -> bool:
        """Return whether a day is answered, from the rule in words."""
        block, number = quarter(now.date()), (now.date() - date(1970, 1, 1)).days
        days = [n for n in range(number - 92, number + 93) if quarter(_day(n)) == block]
        begin, key = f"participation\0{name}\0{block}\0", key_of(self.client)
        scores = {n: hmac.new(key, f"{begin}{n}".encode(), "sha256").digest() for n in days}
        return number in sorted(days, key=lambda n: scores[n])[: self.SURVEY // self.cost(name)]

    def expected(self, name: str) -> str:
        now, cost = self.clock.now, self.cost(name)
        if cost > self.SURVEY:
            return "refused"
        if not self.is_drawn(name, now):
            return "not-drawn"
        if (name, now) in self.answered:
            return "already-answered"
        spent = self.spends[quarter(now.date())]
        limits = [("all", cost, self.TOTAL), (f"survey {name}", cost, self.SURVEY)]
        limits += [(question, c, self.QUESTION) for question, c in self.costs(name).items()]
        if any(spent[spender] + asked > cap for spender, asked, cap in limits):
            return "budget-spent"
        spent.update({spender: asked for spender, asked, _ in limits})
        self.answered.add((name, now))
        return "queued"


LAST_DAY = date(2027, 2, 28)
renewing_steps = st.lists(
    st.one_of(
        st.sampled_from(["a", "c", "d", "crash a", "crash d"]),  # b is above a cap
        st.sampled_from(["drawn a", "drawn c", "drawn d"]),
        st.sampled_from(["restart", "forget", "withdraw"]),
        st.integers(-20, 20),  # days by which the clock jumps
    ),
    max_size=40,
)


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(renewing_steps)
def test_any_order_of_events_keeps_the_caps_of_each_quarter_exactly(
    events: list[str | int],
) -> None:
    """Events include restarts, crashes, erasure, withdrawal, clock jumps and drawn days."""
    with TemporaryDirectory() as folder:
        device = RenewingDevice(Path(folder))
        for event in events:
            device.play(event)
        device.client.close()
        told = read_summary(folder).ledger
        for block, spent in device.spends.items():
            sums = told.spent(block)
            assert sums.total == 10**6 * spent["all"] <= 10**6 * device.TOTAL
            assert max(sums.questions.values(), default=0) <= 10**6 * device.QUESTION
            for (name, key), total in sums.surveys.items():
                assert total == 10**6 * spent[f"survey {name}"] <= 10**6 * device.SURVEY
                assert key == public_hex(KEY)
        assert told.total == sum(10**6 * spent["all"] for spent in device.spends.values())


def test_the_caps_of_each_quarter_are_reached_and_renewed(tmp_path: Path) -> None:
    """After `forget`, other rounds are drawn, and the ledger refuses what is above a cap.

    Answer three surveys on every day of two quarters, with one fixed key and then with another.
    """
    device = RenewingDevice(tmp_path)
    for key in (b"\1" * 32, b"\2" * 32):
        device.play("forget")
        with device.client._state.transaction() as db:
            db.execute("UPDATE settings SET value = ? WHERE value != 'yes'", (key.hex(),))
        for number in range(105):
            device.clock.now = at(date(2026, 11, 15) + timedelta(days=number))
            for name in "acd":
                device.answer(name, crashing=False)
    device.client.close()
    assert {block: spent["all"] for block, spent in device.spends.items()} == {
        "2026-Q4": 1_200,
        "2027-Q1": 1_200,
    }


def test_surveys_from_many_past_quarters_spend_the_caps_of_one(tmp_path: Path) -> None:
    """A stolen signing key could otherwise invent 140 open surveys that spend ε 224 on one day."""
    opens = [date(2020 + n // 4, 3 * (n % 4) + 1, 5) for n in range(28)]
    once: dict[str, Any] = {
        "period": "once",
        "closes": "2027-12-31",
        "questions": bit("crashed", "2"),
    }
    names = [f"pulse-{n}-{day}" for day in opens for n in range(5)]
    listed = [document(name, opens=name[-10:], **once) for name in names]
    client = client_in(tmp_path, clock_at(MONDAYS[0]), Network(*listed))
    client.consent(True)
    statuses = Counter(client.answer(name, crashed=True).status for name in names)
    assert statuses == {"queued": 4, "budget-spent": len(names) - 4}
    with client._state.transaction() as db:
        rows = db.execute("SELECT quarter, count(*) FROM charges GROUP BY quarter").fetchall()
    assert dict(rows) == {"2026-Q4": 4}
    client._uploader.stop(PATIENCE)


@pytest.mark.parametrize("cap", ["max_epsilon", "max_epsilon_per_question"])
def test_the_smallest_cap_decides_how_many_rounds_are_drawn(tmp_path: Path, cap: str) -> None:
    """Otherwise installs that answered early in a quarter would fall silent in its last weeks."""
    caps: dict[str, Any] = {"max_epsilon_per_round": "1", cap: "1"}
    policy = replace(DEFAULT, **caps)
    clock = clock_at(MONDAYS[0])
    client = client_in(tmp_path, clock, Network(weekly()), policy)
    client.consent(True)
    key, statuses = key_of(client), Counter[str]()
    for day in MONDAYS[:39]:
        clock.now = at(day)
        status = client.answer("pulse", crashed=True).status
        assert (status == "queued") == drawn(key, "pulse", week_of(day), EPSILON, Fraction(1))
        statuses[status] += 1
    assert statuses == {"queued": 6, "not-drawn": 33}
    client._uploader.stop(PATIENCE)
