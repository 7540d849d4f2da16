"""Page before the first report: it refreshes, shows how to answer, and makes test reports."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from deniable.server.store import FILE, PublishedSurvey, create_store
from tests.server.surveys import BIT, EACH_KIND, envelope, published, survey, until_spring
from tests.server.test_dashboard import check_page
from tests.server.test_kills import this_month
from tests.server.test_operating import form_token, signed_in
from tests.server.test_sealed import KEY, PUBLIC
from tests.server.test_shown_commands import shell, snippets
from tests.server.test_shown_commands import signed_in as read_page
from tests.server.world import World, serving, world
from tests.survey_texts import bit, choice, label, vector


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    return here.publish(until_spring())


@pytest.fixture
def operator(here: World) -> FlaskClient:
    return signed_in(here, "operator")


def tried(client: FlaskClient, asked: PublishedSurvey) -> str:
    secret = {"form_token": form_token(client)}
    answer = client.post(f"/surveys/{asked.id}/try", data=secret)
    assert answer.status_code == 200
    check_page(answer)
    return answer.text


def everything(here: World) -> list[str]:
    """Return all data on disk, and all counters in memory."""
    here.clock.pass_(seconds=2)  # metrics are at most a second old
    lines = here.client.get("/metrics", headers=here.bearer("operator")).text.splitlines()
    kept = [line for line in lines if "report" in line or "commit" in line]
    for file in sorted(Path(here.store.option.partition(" ")[2]).glob("**/*.sqlite3")):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            kept += db.iterdump()
    return [line for line in kept if "token" not in line]


def test_a_page_without_reports_refreshes_with_and_without_a_script(
    here: World, operator: FlaskClient, asked: PublishedSurvey
) -> None:
    page = operator.get(f"/surveys/{asked.id}")
    check_page(page)
    assert '<noscript><meta http-equiv="refresh"' in page.text
    (address,) = re.findall(r'data-status="(.*?)"', page.text)
    assert 'data-reports="0" data-arrived="false"' in page.text
    said = operator.get(address).json
    assert said == {"survey": asked.id, "state": "open", "reports": 0, "arrived": False}
    here.send(envelope(asked, 1))
    told = operator.get(address).json
    assert told is not None
    assert told["reports"] == 1
    assert "http-equiv" in operator.get(f"/surveys/{asked.id}").text  # still below the minimum


@pytest.mark.parametrize(
    ("opens", "reports", "closed", "needed"),
    [
        (date(2027, 3, 1), 0, False, "plan.css plan.js waiting.js"),
        (date(2026, 12, 1), 0, False, "copy.js plan.css plan.js waiting.js"),
        (date(2026, 12, 1), 0, True, "copy.js plan.css plan.js"),
        (date(2026, 12, 1), 1, False, ""),
        (date(2026, 12, 1), 99, True, ""),
        (date(2026, 12, 1), 100, False, "copy.js png.js"),
    ],
)
def test_a_page_loads_only_the_scripts_that_it_uses(
    here: World, operator: FlaskClient, opens: date, reports: int, closed: bool, needed: str
) -> None:
    """The possible scripts are the planner, copying of snippets, the refresh, and PNG export."""
    asked = here.publish(until_spring(opens=opens))
    if reports:
        here.send(envelope(asked, 1, count=reports), app=True)
    if closed:
        here.catalogue.close(asked)
    page = operator.get(f"/surveys/{asked.id}")
    check_page(page)
    loaded = re.findall(r'<(?:script src|link rel="stylesheet" href)="/static/(.*?)"', page.text)
    assert set(loaded) - {"style.css", "chart.css"} == set(needed.split())
    used = {
        "plan.css": 'class="planner"',
        "copy.js": "<pre",
        "waiting.js": 'id="waiting"',
        "png.js": "data-png",
    }
    assert {name for name, mark in used.items() if mark in page.text} <= set(loaded)


def test_the_refresh_check_needs_the_same_role_as_the_page(
    here: World, asked: PublishedSurvey
) -> None:
    address = f"/surveys/{asked.id}/waiting.json"
    assert here.client.get(address).status_code == 401
    assert here.client.get(address, headers=here.bearer("app")).status_code == 403
    assert here.client.get(address, headers=here.bearer("analyst")).status_code == 200


def test_the_refresh_check_reads_no_other_survey(here: World, asked: PublishedSurvey) -> None:
    """Pages send it often, so it must be cheap.

    In this test, the counts of another survey are damaged, so reading them would fail.
    """
    other = here.publish(survey(name="other"))
    assert here.send(envelope(other, 1)).json["accepted"] == 1
    assert here.tallies(other)
    with closing(sqlite3.connect(here.store.data / FILE)) as driver, driver:
        driver.execute("UPDATE tallies SET reports = 7")
    turned = here.client.get(f"/surveys/{asked.id}/waiting.json", headers=here.bearer("analyst"))
    assert turned.json["reports"] == 0
    assert "Damaged counts" in signed_in(here, "analyst").get("/").text


def test_a_closed_survey_s_page_does_not_refresh(
    here: World, operator: FlaskClient, asked: PublishedSurvey
) -> None:
    here.catalogue.close(asked)
    text = operator.get(f"/surveys/{asked.id}").text
    assert "http-equiv" not in text
    assert "/try" not in text
    assert 'id="waiting"' not in text


@pytest.mark.parametrize(
    "opens", [date(2026, 12, 1), pytest.param(date(2027, 3, 1), marks=pytest.mark.long)]
)
def test_the_waiting_page_plans_the_survey_s_own_questions(
    here: World, operator: FlaskClient, opens: date
) -> None:
    """The page does so before the survey opens, and as long as there are no reports."""
    asked = here.publish(until_spring(opens=opens))
    for question in asked.survey.questions:
        query = f"?question={question.name}&people=50000"
        page = operator.get(f"/surveys/{asked.id}{query}")
        check_page(page)
        assert f'<option value="{question.name}" selected' in page.text
        assert "50,000 people give" in page.text
        assert f"{question.mechanism.name}</th>" in page.text
    assert "50,000" not in operator.get(f"/surveys/{asked.id}?people=-1&question=<b>").text


# Test reports


@pytest.mark.parametrize(
    "questions", [EACH_KIND, choice([str(n) for n in range(300)]), vector(5)], ids=len
)
def test_a_test_report_is_validated_and_not_stored(
    here: World, operator: FlaskClient, questions: str
) -> None:
    asked = here.publish(until_spring(questions))
    before = everything(here)
    text = tried(operator, asked)
    assert "This report would be counted" in text
    assert "neither counted nor stored" in text
    assert everything(here) == before
    assert here.tallies(asked) == {}
    assert here.store.counters(asked.sequence) == {}
    here.send(envelope(asked, 1))
    assert everything(here) != before  # a stored report changes what `everything` returns


def test_the_id_of_a_test_report_can_still_be_counted(
    here: World, operator: FlaskClient, asked: PublishedSurvey, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = envelope(asked, 1)
    real = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda n: sent.id if n == 16 else real(n))
    assert "This report would be counted" in tried(operator, asked)
    assert here.send(sent).json["accepted"] == 1


def test_a_test_report_of_a_sealed_survey_is_sealed(tmp_path: Path) -> None:
    with world(tmp_path / "data", sealing={PUBLIC: KEY}) as here:
        asked = here.publish(survey(sealed_to=PUBLIC))
        assert "bytes and is sealed" in tried(signed_in(here, "operator"), asked)
        assert here.tallies(asked) == {}
    with world(tmp_path / "data") as here:
        here.catalogue.refresh()
        assert "server lacks the key to open this" in tried(signed_in(here, "operator"), asked)


@pytest.mark.parametrize(
    ("opens", "says"), [(date(2027, 3, 1), "has not begun"), (None, "is closed")]
)
def test_a_test_report_states_why_it_would_be_refused(
    here: World, operator: FlaskClient, opens: date | None, says: str
) -> None:
    asked = here.publish(until_spring(opens=opens) if opens else until_spring())
    if opens is None:
        here.catalogue.close(asked)
    before = everything(here)
    assert says in tried(operator, asked)
    assert everything(here) == before


def test_a_test_report_states_that_the_disk_has_failed(
    here: World, operator: FlaskClient, asked: PublishedSurvey
) -> None:
    here.writer.stop()
    assert "This report would be rejected: the writer has stopped" in tried(operator, asked)


# Snippets


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows curl")
def test_the_shell_command_sends_a_report_that_counts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with create_store(data) as store:
        asked = published(store, this_month())
    with serving(data) as server:
        path = f"/surveys/{asked.id}"
        shown = snippets(read_page(server.dashboard, path, server.token))
        (line,) = (text for text in shown if text.startswith("curl "))
        for once in ({"accepted": 1, "duplicates": 0}, {"accepted": 0, "duplicates": 1}):
            assert once.items() <= json.loads(shell(line, tmp_path)).items()
        turned = json.loads(read_page(server.dashboard, f"{path}/waiting.json", server.token))
        assert (turned["reports"], turned["arrived"]) == (0, True), "fewer than a step"


def test_the_page_of_a_survey_with_labels_shows_and_sends_an_example(tmp_path: Path) -> None:
    labels = label("arm", arms=["control", "new"]) + label("version", pattern="[0-9.]+")
    with world(tmp_path / "data") as here:
        asked = here.publish(until_spring(BIT + labels))
        operator = signed_in(here, "operator")
        page = operator.get(f"/surveys/{asked.id}").text
        assert "curl " in page
        assert "control" in page
        python, javascript, _ = snippets(page)
        names: dict[str, Any] = {}
        exec(python.partition("client = ")[0], names)
        assert names["policy"].labels == ("version",), "a client draws its arm itself"
        assert 'labels={"version": "…"})' in python
        assert 'labels: { version: "…" } });' in javascript
        assert "It has 98 bytes" in tried(operator, asked)  # 64 + 1 + 32 + 1


def test_sealed_and_long_reports_are_not_shown_for_a_shell(tmp_path: Path) -> None:
    with world(tmp_path / "data", sealing={PUBLIC: KEY}) as here:
        asked = here.publish(survey(sealed_to=PUBLIC))
        assert "curl -s" not in signed_in(here, "operator").get(f"/surveys/{asked.id}").text


def test_a_survey_by_invitation_shows_how_to_print_codes(
    here: World, operator: FlaskClient
) -> None:
    asked = here.publish(until_spring(BIT, round="once", invitation=True))
    page = operator.get(f"/surveys/{asked.id}")
    check_page(page)
    assert f"deniable invite {asked.name} --count 30 --url http" in page.text
    assert "People answer in a browser" not in page.text
    assert "curl" not in page.text
    assert "Client(" not in page.text
    assert "would be counted" in tried(operator, asked)


def test_the_page_of_a_survey_that_a_link_can_ask_has_the_link(
    here: World, operator: FlaskClient, asked: PublishedSurvey
) -> None:
    """Questions about a whole round need an app."""
    page = operator.get(f"/surveys/{asked.id}").text
    assert f"/ask/{asked.name}</code>" in page
    other = here.publish(until_spring(bit(over="any"), name="other"))
    assert "People answer in a browser" not in operator.get(f"/surveys/{other.id}").text
