"""Tools for an app's tests: they behave like the real server, and work only in tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import Policy
from deniable.client.testing import FakeClient, FakeServer
from deniable.client.testing.fakes import _refuse_outside_tests
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import render_document
from tests.client.scripted import ANSWERS, document, lifetime_policy
from tests.server.surveys import envelope, mixed
from tests.server.world import NOON, world
from tests.survey_texts import bit

RECIPES = Path(__file__).resolve().parents[2] / "client" / "RECIPES.md"
CRASHES = """
[survey]
name = "crashes"
title = "Did it crash?"
purpose = "Find crashes."
owner = "Example Ltd"
opens = 2026-12-01
closes = 2027-02-28
round = "month"
[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "0.5"
"""
Make = Callable[..., FakeClient]


def test_the_recipe_runs(
    deniable_client: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = RECIPES.read_text("utf-8").partition("## Test your app")[2]
    (example,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    (tmp_path / "crashes.toml").write_text(CRASHES, "utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Callable[[Make], None]] = {}
    exec(example, names)
    names["test_a_crash_is_reported"](deniable_client)


def test_equal_seeds_give_equal_reports_and_others_differ(deniable_client: Make) -> None:
    def sent(seed: int) -> list[object]:
        client = deniable_client(document(), seed=seed)
        client.consent(True)
        assert client.answer("app-health", **ANSWERS).status == "queued"
        return [report.symbols for report in client.reports]

    assert sent(1) == sent(1)
    assert len({str(sent(seed)) for seed in range(8)}) > 1


def test_nothing_is_sent_or_asked_before_consent(deniable_client: Make) -> None:
    client = deniable_client(document())
    assert client.answer("app-health", **ANSWERS).status == "no-consent"
    assert (client.reports, client.server.requests) == ([], [])


def test_every_outcome_an_app_must_handle_can_be_simulated(deniable_client: Make) -> None:
    client = deniable_client(document(period="day"), policy=Policy(keys=["ab" * 32]))
    client.consent(True)
    client.server.trouble = "busy"
    assert client.answer("app-health", **ANSWERS).status == "unavailable"
    client.server.trouble = ""
    client.clock.move(days=1)
    assert client.answer("app-health", **ANSWERS).status == "queued"
    client.server.close("app-health")
    client.clock.move(days=1)
    assert client.answer("app-health", **ANSWERS).status == "closed"


def test_a_whole_round_is_played_in_seconds(deniable_client: Make) -> None:
    """At ε 20 hardly any report is a lie; a false alarm has a probability below 1e-8."""
    policy = lifetime_policy(max_epsilon_per_round="20", max_epsilon="40")
    client = deniable_client(document(questions=bit(epsilon="20", over="any")), policy=policy)
    client.consent(True)
    for crashed in (False, True, False):
        assert "leaves between" in client.answer("app-health", crashed=crashed).detail
        client.clock.move(days=1)
    assert client.reports == []
    client.end_round()
    (report,) = client.reports
    assert (report.round, report.symbols) == (683, {"crashed": 1})


def envelopes(made: Callable[..., Envelope]) -> dict[str, bytes]:
    """Send bodies of every kind to the same server, one after another."""
    good, other = made(1), made(2)
    broken = Envelope(good.survey, good.round, bytes(16), 1, b"\xff" * len(good.payload))
    unknown = Envelope("00" * 32, good.round, bytes(16), 1, good.payload)
    return {
        "accepted": good.pack(),
        "duplicate": good.pack(),
        "another": other.pack(),
        "several": made(7).pack() + good.pack(),
        "unknown": unknown.pack(),
        "late": made(3, round_number=good.round - 1).pack(),
        "early": made(4, round_number=good.round + 1).pack(),
        "never": made(5, round_number=good.round + 1_000).pack(),
        "too many": made(6, count=2).pack(),
        "bad payload": broken.pack(),
        "cut": good.pack()[:-1],
        "empty": b"",
    }


def test_the_fake_server_replies_like_the_real_one(tmp_path: Path) -> None:
    """Envelopes of every kind get the same status, counts, indices and codes, also once closed."""
    survey = mixed()
    with world(tmp_path) as real:
        published = real.publish(survey)
        fake = FakeServer(lambda: NOON)
        fake.publish(render_document(survey))
        bodies = envelopes(lambda *of, **how: envelope(published, *of, **how))
        for name, body in bodies.items():
            said = real.post(body)
            reply = fake.request("POST", "/v1/envelopes", body, CONTENT_TYPE, 1.0)
            assert reply.status == said.status_code, name
            if reply.status == 200:
                assert spoken(reply.body) == spoken(said.data), name
        assert len(fake.sent) == 2


def spoken(body: bytes) -> object:
    table = json.loads(body)
    refused = [(refusal["index"], refusal["code"]) for refusal in table["refused"]]
    return table["accepted"], table["duplicates"], refused


def test_the_fake_server_accepts_reports_as_long_as_the_real_one() -> None:
    """Reports are accepted during the month's round and two weeks of grace."""
    moment = [NOON]
    fake = FakeServer(lambda: moment[0])
    survey = fake.publish(document())
    number = survey.round_of(NOON.date())
    for until, code in ((survey.taken_until(number), "late"), (survey.taken_from(number), "early")):
        moment[0] = until if code == "late" else until - timedelta(seconds=1)
        assert refusal(fake, survey.report_size, number) == code
        moment[0] = until - timedelta(seconds=1) if code == "late" else until
        assert refusal(fake, survey.report_size, number) == "bad-payload"


def refusal(fake: FakeServer, size: int, number: int) -> str:
    (id_,) = fake._listed
    body = Envelope(id_, number, bytes(16), 1, b"\xff" * size).pack()
    reply = fake.request("POST", "/v1/envelopes", body, CONTENT_TYPE, 1.0)
    return str(json.loads(reply.body)["refused"][0]["code"])


def test_outside_tests_the_fake_client_is_refused() -> None:
    with pytest.raises(WrongUse, match="is for tests"):
        _refuse_outside_tests({})
    _refuse_outside_tests({"DENIABLE_TESTING": "1"})
    code = "from deniable.client.testing import FakeClient\nFakeClient(seed=1)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={}, capture_output=True, text=True, check=False
    )
    assert "run it under pytest" in ran.stderr


def test_an_unused_fixture_costs_nothing() -> None:
    code = "import sys, deniable.client.testing.plugin as _\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not {"deniable.client.client", "deniable.shared.envelope", "cryptography"} & loaded


def test_the_fake_client_needs_no_pytest() -> None:
    code = (
        "import sys\nsys.modules['pytest'] = None\nfrom deniable.client.testing import FakeClient"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_fake_clock_is_moved_only_by_the_test(deniable_client: Make) -> None:
    client = deniable_client(document())
    begin: datetime = client.clock()
    client.clock.move(days=1, hours=2)
    assert client.clock() - begin == timedelta(days=1, hours=2)


def test_rounds_that_are_not_drawn_can_be_simulated(deniable_client: Make) -> None:
    """At ε 1.5, one of the three months of each quarter is drawn; otherwise each is answered."""
    survey = document(opens="2026-10-01", closes="2026-12-31")

    def statuses(draws_rounds: bool) -> list[str]:
        policy = Policy(keys=["ab" * 32])
        client = deniable_client(survey, policy=policy, draws_rounds=draws_rounds)
        client.consent(True)
        said = []
        for _ in range(3):
            said.append(client.answer("app-health", **ANSWERS).status)
            client.clock.move(days=31)
        return sorted(said)

    assert statuses(draws_rounds=False) == ["queued"] * 3
    assert statuses(draws_rounds=True) == ["not-drawn", "not-drawn", "queued"]
