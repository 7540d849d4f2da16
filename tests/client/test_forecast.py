"""Forecasts: an install with nothing to do reads no document, and its outcomes stay the same."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Outcome, Policy
from deniable.client.net import survey_list
from tests.client.scripted import Clock, bit, document, lifetime_policy
from tests.client.test_participation import DEFAULT, Network, client_in

FIRST = date(2026, 11, 3)
CLOSES = "2027-04-14"  # within a round
LIFETIME = lifetime_policy(max_epsilon="100")
ONE_SPAN = replace(DEFAULT, max_epsilon_per_survey="0.5")  # of about five in a quarter


def asked(period: str, over: str = "first", **changes: Any) -> bytes:
    questions = bit("crashed", "0.5").replace('"first"', f'"{over}"')
    return document(
        "pulse", "2026-11-01", closes=CLOSES, period=period, questions=questions, **changes
    )


class Tool:
    """Command-line tool, each of whose runs is a new client in the same folder."""

    def __init__(self, folder: Path, survey: bytes, policy: Policy = DEFAULT) -> None:
        self.folder, self.clock, self.policy = folder, Clock(), policy
        self.network = Network(survey)
        self.day(0)
        with client_in(folder, self.clock, self.network, policy) as client:
            client.consent(True)

    def day(self, number: int) -> None:
        self.clock.now = datetime.combine(FIRST + timedelta(days=number), time(12), UTC)

    def run(self, folder: Path | None = None, **answers: object) -> Outcome:
        place = folder or self.folder
        with client_in(place, self.clock, self.network, self.policy) as client:
            return client.answer("pulse", **(answers or {"crashed": True}))

    def run_without_forecast(self, copy: Path) -> Outcome:
        """Run in a copy of the state whose forecasts were deleted."""
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy)
        with closing(sqlite3.connect(copy / "deniable.sqlite3")) as db:
            db.execute("DELETE FROM settings WHERE name LIKE 'forecast %'")
            db.commit()
        return self.run(copy)

    def forecasts(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "deniable.sqlite3")) as db:
            rows = db.execute("SELECT value FROM settings WHERE name LIKE 'forecast %'")
            return [str(value) for (value,) in rows]

    def dump(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "deniable.sqlite3")) as db:
            return list(db.iterdump())


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the surveys whose documents are read."""
    ids, signed = list[str](), survey_list._signed_document

    def noted(listed: Any, policy: Policy) -> bytes:
        ids.append(listed.id)
        return signed(listed, policy)

    monkeypatch.setattr(survey_list, "_signed_document", noted)
    return ids


@pytest.mark.parametrize(
    ("survey", "policy", "days"),
    [
        pytest.param(asked("day"), DEFAULT, range(0, 60, 1), marks=pytest.mark.long),
        pytest.param(asked("week"), DEFAULT, range(0, 180, 4), marks=pytest.mark.long),
        (asked("month"), DEFAULT, range(0, 180, 5)),
        (asked("month"), replace(DEFAULT, max_epsilon="0.5"), range(0, 180, 5)),
        (asked("once"), DEFAULT, range(0, 180, 20)),
        pytest.param(asked("week", "any"), DEFAULT, range(0, 120, 4), marks=pytest.mark.long),
        (asked("week", "last"), LIFETIME, range(0, 60, 4)),
        (asked("week", repeat_rounds=3), ONE_SPAN, range(0, 120, 4)),
        pytest.param(
            asked("day", repeat_rounds=5), LIFETIME, range(0, 40, 1), marks=pytest.mark.long
        ),
        pytest.param(asked("month"), LIFETIME, range(0, 180, 5), marks=pytest.mark.long),
    ],
)
def test_every_outcome_is_that_of_a_run_without_a_forecast(
    survey: bytes, policy: Policy, days: range, tmp_path: Path, judged: list[str]
) -> None:
    tool, seen = Tool(tmp_path / "state", survey, policy), Counter[str]()
    for number in days:
        tool.day(number)
        for _ in range(2):
            expected = tool.run_without_forecast(tmp_path / "copy")
            judged.clear()
            outcome = tool.run()
            assert (outcome.status, outcome.detail) == (expected.status, expected.detail)
            assert (outcome.survey, outcome.round) == (expected.survey, expected.round)
            seen[outcome.status] += 1
            seen["foreseen"] += not judged
            if not judged:
                assert outcome.status in ("not-drawn", "already-answered")
    assert seen["queued"] or seen["not-drawn"]
    assert seen["foreseen"] or (policy is LIFETIME and survey != asked("month"))


def test_a_run_with_a_forecast_writes_nothing_and_asks_no_server(
    tmp_path: Path, judged: list[str]
) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    before, requests = tool.dump(), len(tool.network.requests)
    judged.clear()
    tool.day(2)
    assert tool.run().status == "already-answered"
    assert (tool.dump(), len(tool.network.requests), judged) == (before, requests, [])


def test_a_draft_is_redrawn_by_every_run(tmp_path: Path, judged: list[str]) -> None:
    tool = Tool(tmp_path, asked("week", "any"), LIFETIME)
    drafts = set()
    for _ in range(3):
        judged.clear()
        assert tool.run(crashed=False).status == "queued"
        assert judged
        drafts.add((tmp_path / "deniable.drafts").read_bytes())
    assert len(drafts) > 1 or tool.run(crashed=True).status == "queued"


def test_other_names_policies_and_editions_are_decided_again(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    assert tool.run(happy=True).status == "refused"
    tool.policy = replace(LIFETIME, max_epsilon_per_round="0.4")
    assert tool.run().status == "refused"
    tool.policy = replace(LIFETIME, questions={"crashed": "number"})
    assert tool.run().status == "refused"
    tool.policy = LIFETIME
    assert tool.run().status == "already-answered"


def test_the_ended_round_is_decided_again(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    tool.day(29)
    assert tool.run().status == "queued"
    assert tool.run(of="ended", crashed=True).round == (2026 - 1970) * 12 + 10


def test_a_list_that_is_due_is_fetched_before_a_forecast_is_used(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("once"), LIFETIME)
    assert tool.run().status == "queued"
    tool.network.listed[0]["state"] = "closed"
    tool.day(34)
    assert tool.run().status == "already-answered"
    tool.day(36)
    assert tool.run().status == "closed"


def test_a_changed_ledger_is_noticed_before_a_forecast_is_used(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    with closing(sqlite3.connect(tmp_path / "deniable.sqlite3")) as db:
        db.execute("UPDATE charges SET costs = '{\"crashed\": 1}'")
        db.commit()
    assert tool.run().status == "unavailable"


@pytest.mark.parametrize("status", ["already-answered", "queued", "strange"])
def test_a_forged_forecast_stops_no_round_that_the_ledger_lacks(
    tmp_path: Path, status: str
) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    basis, ((day, fields), _) = json.loads(tool.forecasts()[0])
    forged = json.dumps([basis, [(day, [status, *fields[1:3], fields[3] + 1])]])
    with closing(sqlite3.connect(tmp_path / "deniable.sqlite3")) as db:
        db.execute("UPDATE settings SET value = ? WHERE name LIKE 'forecast %'", (forged,))
        db.commit()
    tool.day(29)
    outcome = tool.run()
    assert (outcome.status, outcome.round) == ("queued", fields[3] + 1)


@pytest.mark.parametrize("damaged", ["null", "{", "[1]", '["x", 5]', "[" * 5_000, '["b", [[1]]]'])
def test_a_damaged_forecast_is_ignored(tmp_path: Path, damaged: str) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    with closing(sqlite3.connect(tmp_path / "deniable.sqlite3")) as db:
        db.execute("UPDATE settings SET value = ? WHERE name LIKE 'forecast %'", (damaged,))
        db.commit()
    assert tool.run().status == "already-answered"


def test_withdrawn_consent_and_forgetting_end_a_forecast(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    assert tool.run().status == "queued"
    assert tool.forecasts()
    with client_in(tmp_path, tool.clock, tool.network, tool.policy) as client:
        assert client.consent(False)
    assert tool.run().status == "no-consent"
    with client_in(tmp_path, tool.clock, tool.network, tool.policy) as client:
        assert client.forget()
    assert not tool.forecasts()


def test_other_people_have_no_forecast(tmp_path: Path) -> None:
    tool = Tool(tmp_path, asked("month"), LIFETIME)
    with client_in(tmp_path, tool.clock, tool.network, tool.policy) as client:
        person = client.person("user-17")
        assert person.consent(True)
        assert person.answer("pulse", crashed=True).status == "queued"
        assert person.answer("pulse", crashed=True).status == "already-answered"
    assert not tool.forecasts()
