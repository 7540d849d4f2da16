"""Labels of a client: set once by the app, sent in clear, and never with an answer."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Client, Policy
from deniable.client.disclosure import Description, Summary
from deniable.client.state.database import DATABASE
from deniable.client.testing import FakeClient
from deniable.shared.envelope import parse_envelopes
from deniable.shared.errors import InvalidPolicy
from deniable.shared.survey.document import parse_toml, render_document
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY as SIGNING
from tests.client.scripted import Nobody, entry
from tests.survey_texts import bit, label, survey_text

KEY = "ab" * 32
RECIPES = Path(__file__).resolve().parents[2] / "client" / "RECIPES.md"
LABELS = label("platform", values=["linux", "mac"]) + label("version", pattern=r"\d+\.\d+")
ARMS = label("search", arms=["control", "new"])
ALLOWED = Policy(keys=[KEY], labels=["platform", "version"])
ANSWER = {"crashed": True}


def toml(labels: str = LABELS, **changes: object) -> bytes:
    return survey_text(bit() + labels, **changes).encode()


def fake(source: bytes, labels: dict[str, str], policy: Policy = ALLOWED) -> FakeClient:
    client = FakeClient(source, policy=policy, labels=labels)
    client.consent(True)
    return client


def test_labels_travel_in_clear_in_front_of_the_report() -> None:
    with fake(toml(), {"platform": "mac", "version": "3.0"}) as client:
        assert client.answer("app-health", **ANSWER).status == "queued"
        (sent,) = client.reports
        assert sent.labels == {"platform": "mac", "version": "3.0"}
        (envelope,) = parse_envelopes(client.server.posted[0])
        assert envelope.payload[:4] == b"\x013.0"
        summary = client.sent()
        assert isinstance(summary, Summary)
        assert summary.text.count("Sent in clear") == 2


def test_a_value_that_does_not_fit_is_sent_as_not_given() -> None:
    with fake(toml(), {"platform": "beos", "version": "nightly"}) as client:
        client.answer("app-health", **ANSWER)
        assert client.reports[0].labels == {"platform": None, "version": None}


def test_presence_and_size_are_the_same_whatever_the_labels() -> None:
    sizes = set()
    for labels in ({}, {"platform": "mac"}, {"version": "3.0"}, {"version": "no"}):
        with fake(toml(), labels) as client:
            client.answer("app-health", **ANSWER)
            client.flush()
            sizes.add(tuple(map(len, client.server.posted)))
    assert len(sizes) == 1


def test_each_person_may_have_labels_of_their_own() -> None:
    with fake(toml(), {"platform": "mac", "version": "3.0"}) as client:
        person = client.person("user-17", labels={"version": "4.1"})
        person.consent(True)
        person.answer("app-health", **ANSWER)
        assert client.reports[0].labels == {"platform": "mac", "version": "4.1"}


def test_labels_are_fixed_at_the_first_call_of_a_round() -> None:
    """An update within a round changes nothing; the next round has the new version."""
    with fake(toml(), {"version": "3.0"}) as client:
        client.answer("app-health", **ANSWER)
        client._consent.identity.labels = {"version": "4.0"}
        assert client.answer("app-health", **ANSWER).status == "already-answered"
        assert [sent.labels["version"] for sent in client.reports] == ["3.0"]
        client.clock.move(days=31)
        client.answer("app-health", **ANSWER)
        assert [sent.labels["version"] for sent in client.reports] == ["3.0", "4.0"]


def test_a_redrawn_report_keeps_the_labels_of_the_first_call() -> None:
    """The draft leaves after its round with the first version, whichever call drew its noise."""
    source = survey_text(bit(over="any") + LABELS, round="month").encode()
    with fake(source, {"version": "3.0"}) as client:
        assert client.answer("app-health", **ANSWER).status == "queued"
        client._consent.identity.labels = {"version": "4.0"}
        assert client.answer("app-health", **ANSWER).status == "queued"
        client.end_round()
        client.flush()
        assert [sent.labels["version"] for sent in client.reports] == ["3.0"]
        summary = client.sent()
        assert isinstance(summary, Summary)
        assert summary.text.count("Sent in clear") == 2


@pytest.mark.parametrize("answer", [True, False, None, "wrong type"])
def test_a_survey_with_a_label_that_the_policy_forbids_is_refused(answer: object) -> None:
    """Before any value is examined, so the refusal is the same for every answer."""
    policy = Policy(keys=[KEY], labels=["platform"])
    with fake(toml(), {"platform": "mac"}, policy) as client:
        outcome = client.answer("app-health", crashed=answer)
        assert outcome.status == "refused"
        assert "the label 'version', which the app forbids" in outcome.detail
        assert client.reports == []


def test_arms_need_no_permission() -> None:
    with fake(toml(ARMS), {}, Policy(keys=[KEY])) as client:
        assert client.answer("app-health", **ANSWER).status == "queued"


MISTAKES: list[Any] = [
    {"version": 3},
    {"version": None},
    {"version": ""},
    {"version": "x" * 33},
    {"version": "é" * 17},
    {"version": "3\n"},
    {"version": "3\0"},
    {"version": "\ud800"},
    {"country": "se"},
    [("version", "3.0")],
    None,
]


@pytest.mark.parametrize("labels", MISTAKES, ids=ascii)
def test_a_mistake_in_the_app_s_labels_raises_at_construction(labels: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="labels"):
        Client("https://stats.example.org", policy=ALLOWED, state=tmp_path, labels=labels)
    with fake(toml(), {}) as client, pytest.raises(InvalidPolicy, match="labels"):
        client.person("user-17", labels=labels)


@pytest.mark.parametrize("labels", ["version", [3], [""], 7])
def test_a_policy_names_labels_in_a_list(labels: Any) -> None:
    with pytest.raises(InvalidPolicy, match="labels"):
        Policy(keys=[KEY], labels=labels)


def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = RECIPES.read_text("utf-8").partition("## Results by version")[2]
    (example,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    names: dict[str, Any] = {"Client": Client, "Policy": Policy}
    exec(example.replace("<public key>", KEY), names)
    assert names["client"].person("user-17", labels={"version": "2.9"}).consented is None
    names["client"].close()


# Arms


def test_the_arm_that_the_app_reads_is_the_one_that_is_sent() -> None:
    drawn = Counter[str | None]()
    for _ in range(40):  # false alarm: 2 / 2^40
        with fake(toml(ARMS), {}) as client:
            client.prefetch()
            before = client.arm("app-health")
            client.answer("app-health", **ANSWER)
            assert client.reports[0].labels == {"search": before}
            assert client.arm("app-health") == before
            drawn[before] += 1
    assert drawn.keys() == {"control", "new"}


def test_the_arm_lasts_for_the_survey_and_is_erased_with_its_key() -> None:
    """Erased: forty devices that forget do not all draw their arm again; false alarm 2^-40."""
    changed = False
    for _ in range(40):
        with fake(toml(ARMS), {}) as client:
            client.prefetch()
            before = client.arm("app-health")
            client.clock.move(days=31)
            assert client.arm("app-health") == before
            client.forget()
            client.consent(True)
            client.prefetch()
            changed |= client.arm("app-health") != before
    assert changed


def test_without_consent_or_a_survey_there_is_no_draw() -> None:
    with FakeClient(toml(ARMS), policy=ALLOWED) as client:
        survey = shipped(client)
        assert client.arm("app-health") is None
        assert client.arm("app-health", shipped=survey) == "control"
        assert client.arm("other", shipped=survey) is None
        assert client.arm("app-health", shipped="{}") is None
        client.consent(True)
        assert client.arm("app-health") is None, "no list was fetched"
        assert client.arm("no-such-survey") is None
        assert [*client.server.requests] == [("GET", "/v1/surveys")]


def test_a_survey_without_arms_has_none() -> None:
    with fake(toml(), {}) as client:
        client.prefetch()
        assert client.arm("app-health") is None


def test_the_arm_of_a_shipped_survey_is_the_one_that_is_sent() -> None:
    """Without a list the first arm would treat half of the people unlike their label; 2 / 2^40."""
    drawn = Counter[str | None]()
    for _ in range(40):
        with fake(toml(ARMS), {}) as client:
            before = client.arm("app-health", shipped=shipped(client))
            assert [*client.server.requests] == [("GET", "/v1/surveys")], "by this test"
            client.answer("app-health", **ANSWER)
            assert client.reports[0].labels == {"search": before}
            drawn[before] += 1
    assert drawn.keys() == {"control", "new"}


def test_a_shipped_survey_that_is_over_has_its_first_arm() -> None:
    """A key of it would expire at once, so that each start would draw another arm."""
    with fake(toml(ARMS), {}) as client:
        survey = shipped(client)
        client.clock.move(days=5_000)
        for _ in range(40):
            assert client.arm("app-health", shipped=survey) == "control"
            client.flush()


def test_the_arm_is_unknown_where_the_state_is_damaged(tmp_path: Path) -> None:
    client, survey = device(tmp_path)
    client.consent(True)
    (tmp_path / DATABASE).write_bytes(b"damaged" * 1000)
    assert client.arm("app-health", shipped=survey) is None
    client.close()


@pytest.mark.usefixtures("real_lock_wait")
def test_a_locked_state_gives_the_arm_that_was_drawn_or_none(tmp_path: Path) -> None:
    """The key of the install's own person is there; Ann's cannot be kept now."""
    client, survey = device(tmp_path)
    ann = client.person("ann")
    assert client.consent(True)
    assert ann.consent(True)
    before = client.arm("app-health", shipped=survey)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    arms = [person.arm("app-health", shipped=survey) for person in (client, ann)]
    other.close()
    assert arms == [before, None]
    assert before is not None
    client.close()


def shipped(client: FakeClient) -> str:
    listed = json.loads(client.server.request("GET", "/v1/surveys", None, None, 1).body)
    return json.dumps(listed["surveys"][0])


def device(folder: Path) -> tuple[Client, str]:
    """Return a client whose server cannot be reached, and the survey that it ships with."""
    document = render_document(parse_toml(toml(ARMS, opens="2020-01-01").decode()))
    policy = Policy(keys=[public_hex(SIGNING)], per="lifetime")
    client = Client("https://x.example", policy=policy, state=folder, transport=Nobody())
    return client, json.dumps(entry(document))


# What people are told


def test_a_description_names_what_is_sent_in_clear() -> None:
    with fake(toml(LABELS + ARMS), {}) as client:
        client.prefetch()
        described = client.describe("app-health")
        assert isinstance(described, Description)
        (clear,) = [line for line in described.privacy if line.startswith("Sent in clear")]
        assert clear in described.text
        for words in ("platform (linux, mac)", "version (a short text)", "search (control, new)"):
            assert words in clear
    with fake(toml(""), {}) as client:
        client.prefetch()
        plain = client.describe("app-health")
        assert isinstance(plain, Description)
        assert "Sent in clear with each report: the survey, the round." in plain.text


def test_sent_lists_the_labels() -> None:
    with fake(toml(), {"version": "3.0"}) as client:
        client.answer("app-health", **ANSWER)
        summary = client.sent()
        assert isinstance(summary, Summary)
        said = {line["question"]: line["says"] for line in summary.as_json()["reports"][0]["said"]}
        assert said["version"] == "3.0"
        assert said["platform"] == "not given"
