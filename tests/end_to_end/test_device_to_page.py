"""Path of an honest answer, from a real device to the results of a real server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from deniable.client import Client, Policy
from deniable.simulations.demo.server_process import RunningServer, running_server
from tests.command import asked_json, run
from tests.eventually import eventually
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, bit, choice, number, survey_text

TOML = survey_text(
    bit(epsilon="20")
    + number(0, 100, "one-bit-mean", epsilon="20")
    + choice(["firefox", "chrome", "safari"], None, epsilon="20"),
    name="one-answer",
    title="One honest answer",
    **ALWAYS,
)
ANSWERS = {"crashed": True, "minutes": 100, "browser": "safari"}


@dataclass(frozen=True)
class Setting:
    server: RunningServer
    data: Path
    key: str
    survey: str


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("device-to-page")
    (folder / "survey.toml").write_text(TOML)
    data = folder / "data"
    published = asked_json("survey", "publish", str(folder / "survey.toml"), "--data", str(data))
    with running_server(data) as server:
        entry = requests.get(f"{server.url}/v1/surveys/{published['id']}", timeout=5).json()
        yield Setting(server, data, entry["key"], published["id"])


def device(setting: Setting, state: Path) -> Client:
    policy = Policy(
        keys=[setting.key],
        max_epsilon_per_round="60",
        max_epsilon_per_survey="120",
        max_epsilon="120",
        per="lifetime",
    )
    client = Client(setting.server.url, policy=policy, state=state)
    client.consent(True)
    return client


def reports(setting: Setting, survey: str = "one-answer") -> int:
    rounds = all_results(survey, setting.data)["rounds"]
    return int(rounds[-1]["reports"])


def publish(setting: Setting, folder: Path, name: str) -> str:
    """Publish a survey for one test, and return its address once the server has it."""
    file = folder / "survey.toml"
    file.write_text(TOML.replace("one-answer", name))
    made = asked_json("survey", "publish", file, "--data", setting.data)
    address = f"{setting.server.url}/v1/surveys/{made['id']}"
    eventually(lambda: requests.get(address, timeout=5).ok, "published")
    return address


def test_an_answer_arrives_once_and_is_estimated(setting: Setting, tmp_path: Path) -> None:
    """At ε 20 lies are rare, so estimates differ from the answers with probability below 1e-8."""
    address = publish(setting, tmp_path, "arriving")
    client = device(setting, tmp_path / "state")
    assert client.answer("arriving", **ANSWERS).status == "queued"
    assert client.answer("arriving", **ANSWERS).status == "already-answered"
    assert client.flush(10) == 0
    client.close()
    results = all_results("arriving", setting.data)
    assert (address.endswith(results["survey"]), results["name"]) == (True, "arriving")
    last = results["rounds"][-1]
    rows = {name: {row["label"]: row for row in part} for name, part in last["questions"].items()}
    assert last["reports"] == 1
    assert rows["crashed"]["yes"]["estimate"] == pytest.approx(1, abs=0.01)
    assert rows["minutes"]["mean"]["estimate"] == pytest.approx(100, abs=0.01)
    assert rows["browser"]["safari"]["estimate"] == pytest.approx(1, abs=0.01)
    assert rows["browser"]["safari"]["low"] < 0.5 < 1 <= rows["browser"]["safari"]["high"]


def test_another_device_sends_a_second_report_and_a_restart_does_not(
    setting: Setting, tmp_path: Path
) -> None:
    before = reports(setting)
    for _ in range(2):
        client = device(setting, tmp_path)
        client.answer("one-answer", **ANSWERS)
        client.close()
    assert reports(setting) == before + 1


def test_the_device_lists_the_reports_that_it_sent(setting: Setting, tmp_path: Path) -> None:
    client = device(setting, tmp_path)
    client.answer("one-answer", **ANSWERS)
    client.close()
    sent = json.dumps(asked_json("sent", "--state", str(tmp_path)))
    assert "one-answer" in sent
    assert "accepted" in sent


def test_the_page_shows_the_survey_after_signing_in(setting: Setting, tmp_path: Path) -> None:
    client = device(setting, tmp_path)  # another process may hold reports of other tests
    client.answer("one-answer", **ANSWERS)
    client.close()
    with requests.Session() as browser:
        page = browser.get(f"{setting.server.dashboard}/surveys/{setting.survey}", timeout=5)
        assert "One honest answer" not in page.text
        assert browser.get(setting.server.page, timeout=5).status_code == 200
        page = browser.get(f"{setting.server.dashboard}/surveys/{setting.survey}", timeout=5)
    assert page.status_code == 200
    assert "One honest answer" in page.text
    assert "Too few reports to answer" in page.text
    assert setting.server.token not in page.text


def test_a_survey_closed_at_the_server_accepts_no_more_reports(
    setting: Setting, tmp_path: Path
) -> None:
    address = publish(setting, tmp_path, "closed")
    early, late = device(setting, tmp_path / "early"), device(setting, tmp_path / "late")
    assert early.answer("closed", **ANSWERS).status == "queued"
    early.flush(10)
    assert reports(setting, "closed") == 1
    assert run("survey", "close", "closed", "--data", setting.data).returncode == 0
    eventually(lambda: requests.get(address, timeout=5).json()["state"] == "closed", "closed")
    assert late.answer("closed", **ANSWERS).status in ("closed", "no-survey")
    early.close()
    late.close()
    assert reports(setting, "closed") == 1
