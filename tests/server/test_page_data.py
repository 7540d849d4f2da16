"""Pages as JSON: the same facts as on the page, for the same roles."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from deniable.server.store import PublishedSurvey
from tests.server.results_data import NOW
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)


def read(here: World, path: str, role: str = "operator") -> Any:  # Any: JSON
    answer = here.client.get(path, headers=here.bearer(role))
    assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.text
    return json.loads(answer.data)


@pytest.mark.parametrize("path", ["/", "/operate", "/surveys/app-health"])
def test_a_page_names_the_address_of_its_data(
    here: World, published: PublishedSurvey, path: str
) -> None:
    page = here.client.get(path, headers=here.bearer("operator")).text
    (address,) = re.findall(r'<link rel="alternate" type="application/json" href="([^"]+)"', page)
    assert address.partition("?")[0].endswith(".json")
    read(here, address)


def test_the_list_as_json_has_the_facts_of_its_page(
    here: World, published: PublishedSurvey
) -> None:
    (listed,) = read(here, "/surveys.json", "analyst")["surveys"]
    assert listed == {
        "id": published.id, "name": "app-health", "title": "How is the app doing?",
        "state": "open", "opens": "2026-12-01", "closes": "2027-04-30", "round": "month",
        "epsilon": "3.5", "questions": 3, "reports": 49_000,
        "headline": "12 % say yes, between 0 and 24.", "warnings": [],
        "change": "minutes: higher from 1 Jan 2027 on (within 1 Dec 2026 – 31 Jan 2027)",
    }  # fmt: skip


def test_the_data_of_a_survey_page_are_its_results(here: World, published: PublishedSurvey) -> None:
    for asked in ("", "?round=683"):
        ours = here.client.get(f"/surveys/app-health.json{asked}", headers=here.bearer("analyst"))
        path = f"/v1/surveys/{published.id}/results{asked}"
        assert ours.data == here.client.get(path, headers=here.bearer("analyst")).data


def test_the_data_for_operators_contain_no_secret(here: World, published: PublishedSurvey) -> None:
    here.store.add_counters({(published.sequence, "late"): 1_017})
    secret = here.token("analyst")
    found = read(here, "/operate.json")
    assert found["problem"] is None
    assert found["outcomes"] == {
        "accepted": 49_000, "rejected: after their round and its grace period": 1_000
    }  # fmt: skip
    assert found["keys"] == {published.key: 1}
    assert {token["role"] for token in found["tokens"]} == {"analyst", "operator"}
    assert secret not in json.dumps(found)


def test_the_explanation_of_a_problem_exists_as_json(here: World) -> None:
    answer = here.client.get("/problems/late.json")
    assert answer.status_code == 404
    said = here.client.get("/problems/too-many.json").json
    assert said["title"] == "Too many envelopes"
    page = here.client.get("/problems/too-many").text
    assert all(words.split("'")[0] in page for words in said.values())


@pytest.mark.parametrize(
    ("path", "role", "status"),
    [
        ("/surveys.json", None, 401),
        ("/surveys/app-health.json", None, 401),
        ("/surveys/app-health.json", "app", 403),
        ("/operate.json", None, 401),
        ("/operate.json", "analyst", 403),
        ("/surveys/none.json", "analyst", 404),
        ("/surveys/app-health.json?round=1", "analyst", 404),
    ],
)
def test_the_data_of_a_page_need_the_role_of_the_page(
    here: World, published: PublishedSurvey, path: str, role: str | None, status: int
) -> None:
    answer = here.client.get(path, headers=here.bearer(role) if role else {})
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")
