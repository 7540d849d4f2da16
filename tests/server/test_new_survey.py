"""The dashboard's "New survey": written from a template, checked, and published with either key."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from deniable.server.http.context import EXTENSION, parts_of
from deniable.server.surveys.catalogue import entry_text
from deniable.shared.survey.document import render_document
from deniable.shared.survey.keys import create_key, public_hex, sign
from tests.server.surveys import KEY, PUBLIC, survey
from tests.server.test_dashboard import check_page
from tests.server.test_operating import form_token, signed_in
from tests.server.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data") as made:
        yield made


@pytest.fixture
def own_key(here: World, tmp_path: Path) -> str:
    """Give the server a key of its own, and return its public half."""
    file = tmp_path / "own.pem"
    public = public_hex(create_key(str(file)))
    here.app.extensions[EXTENSION] = replace(parts_of(here.app), signing_key=file)
    return public


WORDS = {
    "template": "choice",
    "title": "Our lunch",
    "question": "What shall we <order>?",
    "options": "pizza, soup,, nothing ",
    "owner": "Anna",
    "epsilon": "2",
    "people": "40",
    "close_at": "25",
    "invitation": "yes",
}


def draft_in(page: str) -> str:
    found = re.search(r'<textarea id="survey"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found
    return html.unescape(found[1])


def test_the_form_becomes_a_checked_draft_and_nothing_is_stored(here: World) -> None:
    operator = signed_in(here, "operator")
    secret = {"form_token": form_token(operator)}
    page = operator.post("/operate/draft", data=secret | WORDS)
    check_page(page)
    text = draft_in(page.text)
    for line in (
        'title = "Our lunch"',
        'options = ["pizza", "soup", "nothing"]',
        "close_at = 25",
        'owner = "Anna"',
        "invitation = true",
        'epsilon = "2"',
        "What shall we <order>?",
    ):
        assert line in text
    assert "step = 5 " in text, "for the 25 answers that close it"
    assert "With 40 people at ε 2 you can tell" in page.text
    assert 'value="Our lunch"' in page.text, "the form keeps what was typed"
    assert "Publish, signed by this server" not in page.text
    assert "The signing key is not on this server" in page.text
    again = operator.post("/operate/check", data=secret | {"survey": text, "people": "500"})
    assert "With 500 people at ε 2 you can tell" in again.text
    assert here.catalogue.surveys() == []


@pytest.mark.parametrize(
    "wrong", [{"close_at": "many"}, {"people": "-3"}, {"epsilon": "0"}, {"close_at": "4"}]
)
def test_a_wrong_field_is_explained(here: World, wrong: dict[str, str]) -> None:
    operator = signed_in(here, "operator")
    page = operator.post(
        "/operate/draft", data={"form_token": form_token(operator)} | WORDS | wrong
    )
    assert page.status_code == 400 or 'role="alert"' in page.text
    assert re.search("whole number|above 0|at least the step", page.text)


def test_options_that_the_template_cannot_use_are_refused_at_their_field(here: World) -> None:
    """Otherwise a choice that someone typed would be published as a yes-or-no question."""
    operator = signed_in(here, "operator")
    data = {"form_token": form_token(operator)} | WORDS | {"template": "yes-no"}
    page = operator.post("/operate/draft", data=data)
    assert page.status_code == 400
    field = page.text.partition('id="options"')[2].partition("</p>")[0]
    assert "The chosen template has no options." in field
    assert 'aria-describedby="options-problem"' in field
    assert "pizza, soup" in field, "the form keeps what was typed"
    assert draft_in(page.text) == ""
    again = operator.post("/operate/draft", data=data | {"options": " "})
    assert 'kind = "bit"' in draft_in(again.text)


def test_the_server_publishes_with_its_own_key_and_says_so(here: World, own_key: str) -> None:
    operator = signed_in(here, "operator")
    secret = {"form_token": form_token(operator)}
    page = operator.post("/operate/draft", data=secret | WORDS)
    check_page(page)
    assert "signs with a key of its own. Anyone who breaks into the server can publish" in page.text
    assert "holds a private key of its own" in operator.get("/operate").text
    done = operator.post("/operate/publish", data=secret | {"survey": draft_in(page.text)})
    (published,) = here.catalogue.surveys()
    assert (done.status_code, done.location) == (303, f"/surveys/{published.id}")
    assert (published.key, published.survey.by_invitation) == (own_key, True)
    assert operator.get(f"/surveys/{published.id}").status_code == 200
    other = draft_in(page.text).replace("pizza", "rice")
    refused = operator.post("/operate/publish", data=secret | {"survey": other})
    assert (refused.status_code, "has other questions" in refused.text) == (409, True)
    replaced = operator.post("/operate/publish", data=secret | {"survey": other, "replace": "yes"})
    assert (replaced.status_code, len(here.catalogue.surveys())) == (303, 2)


def test_without_a_key_the_server_signs_nothing(here: World) -> None:
    operator = signed_in(here, "operator")
    secret = {"form_token": form_token(operator)}
    text = draft_in(operator.post("/operate/draft", data=secret | WORDS).text)
    refused = operator.post("/operate/publish", data=secret | {"survey": text})
    assert (refused.status_code, "holds no signing key" in refused.text) == (403, True)
    assert here.catalogue.surveys() == []


def upload(operator: FlaskClient, secret: dict[str, str], content: bytes) -> tuple[int, str]:
    data = secret | {"signed": (io.BytesIO(content), "signed.json")}
    done = operator.post("/operate/publish", data=data, content_type="multipart/form-data")
    return done.status_code, done.text


def test_a_survey_that_was_signed_elsewhere_is_uploaded(here: World) -> None:
    operator = signed_in(here, "operator")
    secret = {"form_token": form_token(operator)}
    document = render_document(survey())
    signed = {"document": document.decode(), "signature": sign(document, KEY), "key": PUBLIC}
    code, text = upload(operator, secret, json.dumps(signed).encode())
    assert (code, "is not enrolled here" in text) == (403, True)
    here.store.enrol_key(PUBLIC)
    for bad in (b"", b"[]", b'{"document": "x"}', b"\xff", b"[" * 100_000):
        code, text = upload(operator, secret, bad)
        assert (code, "holds no signed survey" in text) == (400, True)
    forged = signed | {"document": signed["document"].replace("crash", "cash", 1)}
    assert upload(operator, secret, json.dumps(forged).encode())[0] == 403
    assert here.catalogue.surveys() == []
    assert upload(operator, secret, json.dumps(signed).encode())[0] == 303
    (published,) = here.catalogue.surveys()
    shown = json.loads(entry_text(published))
    assert upload(operator, secret, json.dumps(shown).encode())[0] == 303, "as `show` prints it"


@pytest.mark.parametrize("path", ["/operate/draft", "/operate/publish"])
def test_only_operators_publish_from_their_own_form(here: World, own_key: str, path: str) -> None:
    operator, analyst = signed_in(here, "operator"), signed_in(here, "analyst")
    data = WORDS | {"survey": "x", "form_token": form_token(operator)}
    assert analyst.post(path, data=data).status_code == 403
    assert operator.post(path, data=data | {"form_token": "0" * 64}).status_code == 403
    elsewhere = {"Origin": "https://elsewhere.example"}
    assert operator.post(path, data=data, headers=elsewhere).status_code == 403
    assert here.client.post(path, data=data).status_code == 401
    assert here.catalogue.surveys() == []
