"""Public page for respondents: optional, and identical for everyone."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from deniable.client import Policy
from deniable.client.disclosure import describe
from deniable.server.http.context import COOKIE
from deniable.server.store import PublishedSurvey
from deniable.shared.survey.phrases import default_participation, explain_survey
from tests.eventually import PATIENCE, eventually
from tests.server.results_data import NOW, fill
from tests.server.surveys import until_spring
from tests.server.test_dashboard import Page
from tests.server.test_shown_commands import page as read_page
from tests.server.world import World, serving, world

SECRETS = ("estimate", "interval", "±", "csv", "form_token", "Sign out", "Operating")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", NOW, public_pages=True) as made:
        yield made


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    """Return a survey that has results."""
    return fill(here)


def test_the_public_page_states_who_asks_the_privacy_cost_and_how_to_stop(
    here: World, asked: PublishedSurvey
) -> None:
    for address in (asked.name, asked.id, asked.id[:8]):
        answer = here.client.get(f"/public/{address}")
        assert answer.status_code == 200
        for text in (asked.survey.title, asked.survey.purpose, asked.survey.owner, asked.key):
            assert text in answer.text
        for question in asked.survey.questions:
            assert question.asked in answer.text
        assert "a suspicion of 10 % can grow to at most" in answer.text
        assert "switch it off in the app" in answer.text
        assert (
            f"Entry 1, published: fingerprint <code>{here.store.register()[0].head}" in answer.text
        )


def test_the_public_page_and_the_consent_dialog_share_their_sentences(
    here: World, asked: PublishedSurvey
) -> None:
    dialog = describe(asked.id, asked.survey, Policy(keys=[asked.key])).text.splitlines()
    text = html.unescape(here.client.get(f"/public/{asked.id}").text)
    told = explain_survey(asked.survey)
    for sentence in (told.when, told.intro, *told.privacy, told.kept, *told.stop):
        assert sentence in text
        assert sentence in dialog
    for question in told.questions:
        assert question.odds in text
    assert all(sentence in text for sentence in default_participation(asked.survey))


def test_the_public_page_is_the_same_for_everyone_and_cacheable(
    here: World, asked: PublishedSurvey
) -> None:
    stranger = here.client.get(f"/public/{asked.id}")
    operator = here.client
    operator.set_cookie(COOKIE, here.session(here.token("operator")))
    known = operator.get(f"/public/{asked.id}", headers=here.bearer("operator"))
    assert stranger.data == known.data
    for answer in (stranger, here.client.get(f"/public/{asked.id}.json")):
        assert answer.headers["Cache-Control"] == "public, max-age=60"
        assert "Set-Cookie" not in answer.headers
        assert "Vary" not in answer.headers
    policy = stranger.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'")
    assert "script" not in policy
    assert not {"script", "form"} & set(Page(stranger.text).tags)


def test_the_public_page_has_no_results(here: World, asked: PublishedSurvey) -> None:
    for address in (f"/public/{asked.id}", f"/public/{asked.id}.json"):
        text = here.client.get(address).text
        assert [word for word in SECRETS if word in text] == []
        assert "20,000" not in text


def test_the_public_page_as_json_has_the_same_facts(here: World, asked: PublishedSurvey) -> None:
    said = here.client.get(f"/public/{asked.name}.json").json
    assert (said["survey"], said["owner"]) == (asked.id, asked.survey.owner)
    assert [q["name"] for q in said["questions"]] == [q.name for q in asked.survey.questions]
    assert [entry["event"] for entry in said["register"]] == ["published"]
    here.catalogue.close(asked)
    closed = here.client.get(f"/public/{asked.id}.json").json
    assert closed["state"] == "final"
    assert [entry["event"] for entry in closed["register"]] == ["published", "closed"]


def test_the_author_s_texts_are_escaped(here: World) -> None:
    asked = here.publish(until_spring(purpose="<script>alert(1)</script>", owner='"><b>x'))
    text = here.client.get(f"/public/{asked.id}").text
    assert "<script" not in text
    assert "<b>" not in text


@pytest.mark.parametrize("address", ["none", "..", "%00", "a" * 500])
def test_an_unknown_survey_has_no_public_page(
    here: World, asked: PublishedSurvey, address: str
) -> None:
    assert here.client.get(f"/public/{address}").status_code == 404
    assert here.client.get(f"/public/{address}.json").status_code == 404


def test_public_pages_exist_only_with_the_option(tmp_path: Path) -> None:
    """With the option, the pages are served over HTTP."""
    with world(tmp_path / "data", NOW) as here:
        asked = fill(here)
        signed: Any = here.client
        signed.set_cookie(COOKIE, here.session(here.token("operator")))
        assert here.client.get(f"/public/{asked.id}").status_code == 404
        assert here.client.get(f"/public/{asked.id}.json").status_code == 404
        assert "/public/" not in signed.get(f"/surveys/{asked.id}").text
    with serving(tmp_path / "data", more=["--public"]) as server:
        address = f"{server.url}/public/{asked.id}.json"
        eventually(lambda: requests.get(address, timeout=PATIENCE).status_code == 200, "published")
        said = json.loads(read_page(address))
        assert said["title"] == asked.survey.title
