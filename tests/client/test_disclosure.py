"""Disclosure: the survey before consent, the reports of this device, and the remaining budget."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Budget, Client, Description, Outcome, Policy, Summary
from deniable.client.disclosure import describe
from deniable.client.state.database import DATABASE
from deniable.shared.survey.document import parse_document
from deniable.shared.survey.kinds.base import Labels
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    OTHER_KEY,
    Answer,
    Script,
    bit,
    document,
    entry,
    lifetime_policy,
)
from tests.command import asked_json, run
from tests.eventually import PATIENCE
from tests.survey_texts import bit as any_bit

PUBLISHED = document()
ALL_ROUNDS = (
    "This survey uses 4.5 of the 6 privacy units (ε) this app will ever use, 1.5 in each round."
)
SHIPPED = json.dumps(entry(PUBLISHED))


def test_a_survey_that_ships_with_the_app_is_described_before_consent(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """The client stores and fetches nothing."""
    told = client_of(consent=False).describe("app-health", shipped=SHIPPED)
    assert isinstance(told, Description)
    assert (told.title, told.purpose) == ("How is the app doing?", "Find crashes.")
    assert (told.epsilon_per_round, told.epsilon, told.rounds) == ("1.5", "4.5", 3)
    assert [question.asked for question in told.questions] == [
        "yes or no",
        "a number from 0 to 120",
        "one of: firefox, chrome, safari",
    ]
    odds = (
        "  From one report, a suspicion of 10 % can grow to at most 16 % (ε 0.5). From 3 reports "
        "together, a suspicion of 10 % can grow to at most 34 % (ε 1.5)."
    )
    assert told.text.splitlines() == [
        "How is the app doing?",
        "Why: Find crashes.",
        "Asked by: Example Ltd, privacy@example.org",
        "When: every month (3 times), from 2026-12-01 to 2027-02-28.",
        "You are asked:",
        *("- crashed", "  Your answer: yes or no.", odds),
        *("- minutes", "  Your answer: a number from 0 to 120.", odds),
        *("- browser", "  Your answer: one of: firefox, chrome, safari.", odds),
        *told.privacy,
        ALL_ROUNDS,
        told.kept,
        *told.stop,
    ]
    assert told.privacy[1:3] == (
        (
            "If someone sees all that you send in one round, a suspicion of 10 % can grow to at "
            "most 34 % (ε 1.5)."
        ),
        "If they see all 3 rounds, a suspicion of 10 % can grow to at most 91 % (ε 4.5).",
    )
    assert script.requests == []
    assert not (tmp_path / "state").exists()


def test_a_report_over_a_round_is_described_with_the_days_on_which_it_leaves(
    client_of: MakeClient,
) -> None:
    shipped = json.dumps(entry(document(questions=any_bit(over="any"))))
    told = client_of(consent=False).describe("app-health", shipped=shipped)
    assert isinstance(told, Description)
    assert "Whether the answer was yes at least once in the month, among installs" in told.text
    assert "The reports of the first round are sent between 1 and 8 January." in told.text


@pytest.mark.parametrize(
    ("cap", "odds"),
    [
        ("1.5", "From your report, a suspicion of 10 % can grow to at most 16 % (ε 0.5)."),
        (
            "3",
            (
                "From one report, a suspicion of 10 % can grow to at most 16 % (ε 0.5). From 2 "
                "reports together, a suspicion of 10 % can grow to at most 24 % (ε 1)."
            ),
        ),
    ],
)
def test_odds_cover_all_reports_that_the_app_allows(cap: str, odds: str) -> None:
    policy = lifetime_policy(max_epsilon_per_round="1.5", max_epsilon=cap)
    told = describe("id", parse_document(PUBLISHED), policy)
    assert {question.odds for question in told.questions} == {odds}


@pytest.mark.parametrize(
    ("shipped", "status"),
    [
        (json.dumps(entry(PUBLISHED, key=OTHER_KEY)), "refused"),
        (SHIPPED.replace("Find crashes", "Find Crashes"), "refused"),
        (PUBLISHED, "refused"),
        (b"\xff\xfe", "refused"),
        ("[" * 100_000, "refused"),
        (json.dumps(entry(document("another"))), "no-survey"),
    ],
    ids=["another key", "changed", "unsigned", "no text", "nested", "another name"],
)
def test_a_survey_shipped_with_the_app_is_verified(
    client_of: MakeClient, shipped: bytes | str, status: str
) -> None:
    told = client_of(consent=False).describe("app-health", shipped=shipped)
    assert isinstance(told, Outcome)
    assert told.status == status
    assert told.detail.isprintable()


def test_after_consent_the_list_on_disk_is_described_without_a_network(
    script: Script, client_of: MakeClient
) -> None:
    client = client_of(consent=False)
    assert isinstance(told := client.describe("app-health"), Outcome)
    assert told.status == "no-consent"
    client.consent(True)
    assert isinstance(told := client.describe("app-health"), Outcome)
    assert (told.status, script.requests) == ("unavailable", [])
    id_ = script.publish(PUBLISHED)
    assert client.prefetch(PATIENCE)
    script.list_reply = Answer(500)
    for wanted in ("app-health", id_):
        told = client.describe(wanted)
        assert isinstance(told, Description)
        assert told.survey == id_
    assert len(script.gets) == 1
    assert isinstance(told := client.describe("unheard-of"), Outcome)
    assert told.status == "no-survey"


@pytest.mark.parametrize(
    ("caps", "says"),
    [
        (
            {"max_epsilon": "4"},
            "1.5 in each round. After 2 of its 3 rounds the app stops answering.",
        ),
        ({"max_epsilon_per_round": "1"}, "This app allows only 1, so it will not answer."),
    ],
)
def test_the_limits_of_the_app_are_stated(
    client_of: MakeClient, caps: dict[str, Any], says: str
) -> None:
    client = client_of(consent=False, policy=lifetime_policy(**caps))
    told = client.describe("app-health", shipped=SHIPPED)
    assert isinstance(told, Description)
    assert told.caps.endswith(says)


def test_each_text_of_a_survey_is_shown_on_one_line(policy: Policy) -> None:
    """A survey's author cannot forge or reverse a line of the dialog, in a signed survey or not."""
    said = "Find\n\u2028crashes \u202e\x1b[2J"
    survey = parse_document(PUBLISHED)
    texts = Labels(title=said, options=(said, said + "2", said + "3"))
    questions = (*survey.questions[:2], replace(survey.questions[2], display=texts))
    hostile = replace(survey, title=said, purpose=said, owner=said, questions=questions)
    told = describe("5a" * 32, hostile, policy)
    lines = told.text.split("\n")
    assert len(lines) == len(describe("5a" * 32, survey, policy).text.split("\n"))
    fields = (told.title, told.questions[2].title, *told.questions[2].options, *lines)
    assert all(text.isprintable() for text in fields)


def test_sent_reports_and_remaining_budget_are_shown_without_a_network(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document(questions=bit("crashed", "0.5") + bit("froze", "0.1")))
    policy = lifetime_policy(
        questions={"crashed": "bit", "froze": "bit", "slow": "bit"},
        max_epsilon="2",
        max_epsilon_per_question="0.7",
    )
    client = client_of(policy=policy)
    assert client.answer("app-health", crashed=True, froze=False).status == "queued"
    assert client.flush(PATIENCE) == 0
    script.list_reply = script.always = Answer(500)
    sent = client.sent()
    assert isinstance(sent, Summary)
    assert [(entry.name, entry.delivery) for entry in sent.entries] == [("app-health", "accepted")]
    assert "app-health, round 683: sent and accepted by the server" in sent.text
    left = client.budget()
    assert isinstance(left, Budget)
    assert left.text.splitlines() == [
        "Spent: ε 0.6 over all surveys and rounds; left: ε 1.4.",
        "    crashed: ε 0.5 spent, ε 0.2 left",
        "    froze: ε 0.1 spent, ε 0.6 left",
        "    slow: ε 0 spent, ε 0.7 left",
        "    survey app-health: ε 0.6 spent, ε 1.4 left; no further answer",
    ]
    smaller = lifetime_policy(keys=policy.keys, max_epsilon="0.5")
    left = client_of(policy=smaller).budget()
    assert isinstance(left, Budget)
    assert (left.spent, left.left) == ("0.6", "0")
    total = lifetime_policy(
        keys=policy.keys,
        questions=policy.questions,
        max_epsilon="0.8",
        max_epsilon_per_question="0.7",
    )
    left = client_of(policy=total).budget()
    assert isinstance(left, Budget)
    assert [(row.name, row.left) for row in left.questions] == [
        ("crashed", "0.2"),
        ("froze", "0.2"),
        ("slow", "0.2"),
    ], "a question has more budget left than the total"


def test_before_consent_there_is_nothing_to_show_and_no_file_is_created(
    client_of: MakeClient, tmp_path: Path
) -> None:
    client = client_of(consent=False)
    assert client.sent() == Summary()
    assert client.budget() == Budget("0", "6", cap="6")
    assert not (tmp_path / "state").exists()


def test_an_unreadable_state_is_reported(client_of: MakeClient, tmp_path: Path) -> None:
    client_of().close()
    (tmp_path / "state" / DATABASE).write_bytes(b"x" * 4096)
    client: Client = client_of(consent=False)
    for shown in (client.sent(), client.budget(), client.describe("app-health")):
        assert isinstance(shown, Outcome)
        assert shown.status == "unavailable"


def test_the_output_of_survey_show_can_be_shipped(tmp_path: Path) -> None:
    survey, data = tmp_path / "s.toml", str(tmp_path / "data")
    assert run("survey", "new", survey).returncode == 0
    published = asked_json("survey", "publish", survey, "--data", data)
    shown = run("survey", "show", "app-health", "--data", data, "--json").stdout
    client = Client("https://stats.example.org", policy=Policy(keys=[published["key"]]), state=data)
    told = client.describe("app-health", shipped=shown)
    assert isinstance(told, Description)
    assert told.survey == published["id"]
