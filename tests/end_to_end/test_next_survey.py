"""A follow-up survey from start to end, with a real server process and a simulated crowd."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from deniable.client import Client, Policy
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.survey.document import Survey, parse_document
from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json, run
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, choice, number, question, survey_text

BROWSERS = ["firefox", "chrome", "safari", "edge", "opera"]
QUESTIONS = (
    question("word", "text", "8", length=5, buckets=1_024)
    + number(0, 120, "local-laplace", grid=16, epsilon="4")
    + choice(BROWSERS, epsilon="4")
)
CLOSES = {**ALWAYS, "round": "once", "minimum_reports": 100}
PEOPLE = 2_000
WHERE = np.random.default_rng(11)
KINDS: Any = {"word": "choice", "minutes": "number", "browser": "choice"}


def crowd() -> list[dict[str, Any]]:
    """Return the true answers of all people."""
    return [
        {
            "word": "crash" if n % 2 else f"{n:05d}"[-5:],
            "minutes": float(WHERE.normal(40, 5)),
            "browser": "firefox" if n % 3 else "chrome",
        }
        for n in range(PEOPLE)
    ]


def send(url: str, token: str, identifier: str, survey: Survey, people: list[Any]) -> None:
    """Send the reports of these people in one envelope, as an app server can."""
    draw = random.Random(12).getrandbits
    payload = b"".join(
        encode_report(survey, survey.report(answers, draw).symbols) for answers in people
    )
    body = Envelope(identifier, 0, b"f" * 16, len(people), payload).pack()
    headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {token}"}
    with urlopen(Request(f"{url}/v1/envelopes", body, headers)) as answer:
        assert json.load(answer)["accepted"] == len(people)


def document(published: Mapping[str, Any], data: Path) -> Survey:
    shown = asked_json("survey", "show", published["id"], "--data", data)
    return parse_document(shown["document"].encode())


def test_a_follow_up_is_drafted_asked_and_read(tmp_path: Path) -> None:
    data, first, second = (tmp_path / name for name in ("data", "first.toml", "second.toml"))
    first.write_text(survey_text(QUESTIONS, **CLOSES), "utf-8")
    published = asked_json("survey", "publish", first, "--data", data)
    app = asked_json("token", "create", "--role", "app", "--data", data)["token"]
    people = crowd()
    with running_server(data) as server:
        send(server.url, app, published["id"], document(published, data), people)
        early = run("survey", "next", "app-health", "--data", data)
        assert "app-health has no final results of 100 reports yet" in early.stderr
        assert run("survey", "close", "app-health", "--data", data).returncode == 0
        spent = run("survey", "next", "app-health", "--data", data)
        assert "may have spent ε 16 in this quarter, and the budget is ε 2, so" in spent.stderr
        where = ("--data", data, "--budget", "20", "--output", second)
        assert run("survey", "next", "app-health", *where).returncode == 0
        checked = run("survey", "check", second, "--data", data).stdout
        assert "its questions are those that the counts lead to" in checked
        followed = asked_json("survey", "publish", second, "--data", data)
        survey = document(followed, data)
        word, minutes, browser = survey.questions
        assert word.labels == ("crash", "other")
        assert set(browser.labels) >= {"firefox", "chrome", "other"}
        assert len(browser.labels) < len(BROWSERS) + 1
        low, high = minutes.range
        assert 0 <= low < 40 < high <= 120
        assert high - low <= 60
        send(server.url, app, followed["id"], survey, people)
        policy = Policy(
            keys=[followed["key"]], questions=KINDS,
            max_epsilon_per_round="20", max_epsilon_per_survey="20", per="lifetime",
        )  # fmt: skip
        device = Client(server.url, policy=policy, state=tmp_path / "device", send_within=0)
        device.consent(True)
        assert device.answer("app-health", **people[1]).status == "queued"
        assert device.flush(60) == 0
        device.close()
    results = all_results(followed["id"], data)
    (period,) = results["rounds"]
    assert period["reports"] == PEOPLE + 1
    assert results["follows"]["survey"] == published["id"]
    assert results["about"]["word"]["people"] == "respondents"
    rows = {row["label"]: row for row in period["questions"]["word"]}
    held = sum(answers["word"] == "crash" for answers in [*people, people[1]]) / (PEOPLE + 1)
    assert rows["crash"]["low"] == rows["crash"]["low_these"] <= held <= rows["crash"]["high"]
    (median,) = (q for q in period["distributions"]["minutes"]["quantiles"] if q["level"] == 0.5)
    theirs = float(np.median([answers["minutes"] for answers in people]))
    assert median["low"] <= theirs <= median["high"]
    assert median["high"] - median["low"] < high - low
    assert datetime.now(UTC).date() >= survey.opens
