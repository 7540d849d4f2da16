"""HTTP interface except intake: roles, surveys, and operations."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask.testing import FlaskClient

from deniable.server.http.tokens import new_token
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import DEFAULT_STEP, parse_document, render_document, survey_id
from deniable.shared.survey.keys import public_hex, sign
from tests.eventually import eventually
from tests.server.surveys import BIT, KEY, PUBLIC, envelope, mixed, survey
from tests.server.world import JSON, PROBLEM, World


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    return here.publish(survey())


def signed(asked: PublishedSurvey | None = None, **changes: object) -> dict[str, object]:
    text = render_document(survey(title="Another one"))
    return {"document": text.decode(), "signature": sign(text, KEY), "key": PUBLIC} | changes


def publish(here: World, fields: object, headers: dict[str, str]) -> Any:  # Any: a test response
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return here.client.post("/v1/surveys", data=body, content_type=JSON, headers=headers)


# Roles

DOORS = {
    "results": ("GET", "/v1/surveys/{id}/results", {"analyst", "operator"}),
    "results as CSV": ("GET", "/v1/surveys/{id}/results.csv", {"analyst", "operator"}),
    "counters": ("GET", "/v1/surveys/{id}/counters", {"analyst", "operator"}),
    "publish": ("POST", "/v1/surveys", {"operator"}),
    "close": ("POST", "/v1/surveys/{id}/close", {"operator"}),
}


@pytest.mark.parametrize("door", DOORS)
def test_each_address_is_open_to_its_roles_only(
    here: World, asked: PublishedSurvey, door: str
) -> None:
    method, path, welcome = DOORS[door]
    path = path.format(id=asked.id)

    def knock(headers: dict[str, str]) -> Any:  # Any: a test response
        return here.client.open(path, method=method, headers=headers, json=signed())

    for role in ("app", "analyst", "operator"):
        answer = knock(here.bearer(role))
        assert (answer.status_code < 300) == (role in welcome), (role, answer.text)
        if role not in welcome:
            assert (answer.status_code, answer.content_type) == (403, PROBLEM)
    for header in ("Bearer " + "x" * 43, "Bearer", "Basic abc", "nonsense", "Bearer ' OR 1=1 --"):
        answer = knock({"Authorization": header})
        assert (answer.status_code, answer.content_type) == (401, PROBLEM)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert knock({}).status_code == 401


def test_a_token_expires(here: World, asked: PublishedSurvey) -> None:
    headers = here.bearer("analyst", hours=1)
    path = f"/v1/surveys/{asked.id}/counters"
    assert here.client.get(path, headers=headers).status_code == 200
    here.clock.pass_(minutes=59)
    assert here.client.get(path, headers=headers).status_code == 200
    here.clock.pass_(minutes=1)
    assert here.client.get(path, headers=headers).status_code == 401


def test_a_revoked_token_is_refused(here: World, asked: PublishedSurvey) -> None:
    headers = here.bearer("analyst")
    here.store.revoke_token(here.store.tokens()[0].id)
    assert here.client.get(f"/v1/surveys/{asked.id}/counters", headers=headers).status_code == 401


def test_tokens_are_stored_hashed(here: World) -> None:
    token = here.token("operator")
    stored = b"".join(file.read_bytes() for file in here.store.data.iterdir())
    assert token.encode() not in stored


def test_a_token_cannot_be_an_option_of_a_command() -> None:
    """The parser refuses `--token -x` before any token is looked up."""
    assert all(re.fullmatch("[0-9a-f]{64}", new_token()) for _ in range(100))


def test_a_session_cookie_allows_reading_but_no_changes(
    here: World, asked: PublishedSurvey
) -> None:
    """A browser sends the cookie with requests of any site, so it must not allow changes."""
    token = here.token("operator")
    client = here.client
    client.set_cookie("deniable_session", here.session(token))
    assert client.get(f"/v1/surveys/{asked.id}/counters").status_code == 200
    assert client.post(f"/v1/surveys/{asked.id}/close").status_code == 401
    assert client.post("/v1/surveys", json=signed()).status_code == 401


# Surveys


def test_a_survey_is_served_as_its_exact_bytes(here: World) -> None:
    asked = here.publish(mixed())
    answer = here.client.get(f"/v1/surveys/{asked.id}")
    entry = answer.json
    assert set(entry) == {"id", "document", "signature", "key", "state"}
    assert survey_id(entry["document"].encode()) == entry["id"] == asked.id
    assert parse_document(entry["document"].encode()).name == "app-health"
    assert (entry["key"], entry["state"]) == (PUBLIC, "open")
    assert here.client.get("/v1/surveys").json == {"surveys": [entry]}


def test_everyone_gets_the_same_bytes_and_no_cookie(here: World, asked: PublishedSurvey) -> None:
    plain = here.client.get("/v1/surveys")
    other = here.client.get("/v1/surveys", headers=here.bearer("operator") | {"User-Agent": "x"})
    assert plain.data == other.data
    assert dict(plain.headers) == dict(other.headers)
    assert "Set-Cookie" not in plain.headers
    assert "ETag" not in plain.headers
    assert plain.headers["Cache-Control"].startswith("public")


@pytest.mark.parametrize("identifier", ["0" * 64, "abcdef", "app-health", "..%2f..", "é"])
def test_an_unknown_survey_gets_a_problem_document(here: World, identifier: str) -> None:
    answer = here.client.get(f"/v1/surveys/{identifier}")
    assert (answer.status_code, answer.content_type) == (404, PROBLEM)


def test_an_operator_publishes_over_http(here: World, asked: PublishedSurvey) -> None:
    operator = here.bearer("operator")
    first = publish(here, signed(), operator)
    assert first.status_code == 201
    assert first.json["state"] == "open"
    again = publish(here, signed(), operator)
    assert (again.status_code, again.json) == (200, first.json)
    assert len(here.client.get("/v1/surveys").json["surveys"]) == 2


def test_the_server_publishes_only_surveys_signed_by_an_enrolled_key(
    here: World, asked: PublishedSurvey
) -> None:
    stranger = Ed25519PrivateKey.generate()
    text = signed()["document"]
    assert isinstance(text, str)
    forged = signed(signature=sign(text.encode(), stranger))
    foreign = forged | {"key": public_hex(stranger)}
    for fields in (forged, foreign, signed(signature="00"), signed(signature="zz")):
        answer = publish(here, fields, here.bearer("operator"))
        assert (answer.status_code, answer.json["code"]) == (403, "untrusted-survey")
    assert len(here.store.surveys()) == 1


def test_other_questions_under_a_name_in_use_need_confirmation(
    here: World, asked: PublishedSurvey
) -> None:
    """The verb needs confirmation too. The name of a closed or ended survey is free."""
    operator = here.bearer("operator")
    text = render_document(survey(BIT.replace('"crashed"', '"froze"')))
    other = {"document": text.decode(), "signature": sign(text, KEY), "key": PUBLIC}
    refused = publish(here, other, operator)
    assert (refused.status_code, refused.json["code"]) == (409, "other-questions")
    assert "+ froze: new" in refused.json["detail"]
    assert "?replace=true" in refused.json["detail"]
    assert len(here.store.surveys()) == 1
    in_force = here.clock.time
    here.clock.time = in_force.replace(year=asked.survey.closes.year + 1)
    assert publish(here, other, here.bearer("operator")).status_code == 201
    here.clock.time = in_force
    body = json.dumps(signed()).encode()
    insisted = here.client.post(
        "/v1/surveys?replace=true", data=body, content_type=JSON, headers=operator
    )
    assert insisted.status_code == 201


BROKEN = {
    "not JSON": b"{",
    "a list": [],
    "a field too few": {"document": "", "key": ""},
    "a field too many": signed() | {"more": ""},
    "an empty text": signed() | {"key": ""},
    "a number": signed() | {"key": 3},
    "a document that is none": signed() | {"document": "{}"},
    "a lone surrogate": signed() | {"document": "\ud800"},
    "an unknown key in the document": signed()
    | {"document": str(signed()["document"]).replace('"owner"', '"ownre"')},
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_malformed_publication_gets_a_clear_400(
    here: World, asked: PublishedSurvey, reason: str
) -> None:
    answer = publish(here, BROKEN[reason], here.bearer("operator"))
    assert (answer.status_code, answer.content_type) == (400, PROBLEM), answer.text
    assert len(here.store.surveys()) == 1


def test_closing_is_permanent(here: World, asked: PublishedSurvey) -> None:
    operator = here.bearer("operator")
    for _ in range(2):
        answer = here.client.post(f"/v1/surveys/{asked.id}/close", headers=operator)
        assert (answer.status_code, answer.json["state"]) == (200, "closed")
    assert publish(here, signed(), operator).status_code == 201
    assert here.catalogue.find(asked.id).closed


# Operations


def test_a_server_is_alive_and_ready(here: World) -> None:
    assert here.client.get("/healthz").json == {"status": "alive"}
    assert here.client.get("/readyz").json == {"status": "ready"}


def test_a_store_that_cannot_be_written_is_not_ready(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the write lock, and the timeout is short."""
    import sqlite3
    from contextlib import closing

    monkeypatch.setattr("deniable.server.store.sqlite.sqlite_database.BUSY_SECONDS", 0.1)
    here.store.close()  # the next connection has the short timeout
    with closing(sqlite3.connect(here.store.data / "deniable.sqlite3")) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = here.client.get("/readyz")
        assert (answer.status_code, answer.content_type) == (503, PROBLEM)
        assert "Retry-After" in answer.headers
    assert here.client.get("/readyz").status_code == 200


def test_a_reader_that_cannot_read_its_store_is_not_ready(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise StoreUnusable("the disk is gone")

    reader = FlaskClient(here.app)
    assert reader.get("/readyz").json == {"status": "ready"}
    monkeypatch.setattr(here.store, "surveys_mark", broken)
    assert reader.get("/readyz").status_code == 503


def test_a_full_disk_is_not_ready(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deniable.server.store.sqlite.sqlite_store.MIN_FREE_BYTES", 2**62)
    assert "make room" in here.client.get("/readyz").json["detail"]


def test_metrics_count_reports_by_survey_and_outcome(here: World, asked: PublishedSurvey) -> None:
    """Outcomes and commits are counted in steps; this world shows each accepted report."""
    about = f'deniable_reports_total{{id="{asked.id[:12]}",outcome="%s",survey="app-health"}} %s.0'
    stepped = [about % (outcome, DEFAULT_STEP) for outcome in ("duplicates", "late")]
    stepped.append(f"deniable_commit_seconds_count {DEFAULT_STEP}.0")
    for number in range(1, DEFAULT_STEP + 1):
        late = envelope(asked, number, round_number=5)
        answer = here.send(late, *[envelope(asked, number)] * 2, app=True).json
        assert (answer["accepted"], answer["duplicates"], len(answer["refused"])) == (1, 1, 1)
        if number < DEFAULT_STEP:
            text = metrics(here, about % ("accepted", number))
            assert not [line for line in stepped if line in text]
            assert "duplicates" not in text, "not even that there is one"
    assert "deniable_writer_waiting 0.0" in metrics(here, *stepped)
    here.clock.pass_(days=900)
    assert 'outcome="accepted"' not in metrics(here, 'outcome="late"'), "they are final"


def metrics(here: World, *lines: str) -> str:
    """Return the metrics once they have these lines: counters reach the store each second."""

    def with_lines() -> str:
        here.clock.pass_(seconds=2)
        text = here.client.get("/metrics").text
        return text if all(line in text for line in lines) else ""

    return eventually(with_lines, repr(lines))


def test_metrics_are_computed_at_most_once_a_second(here: World, asked: PublishedSurvey) -> None:
    before = here.client.get("/metrics").text
    here.send(envelope(asked, 1))
    assert here.client.get("/metrics").text == before
    here.clock.pass_(seconds=1)
    assert here.client.get("/metrics").text != before


def test_every_answer_has_the_security_headers(here: World) -> None:
    for path in ("/v1/surveys", "/healthz", "/nothing", "/v1/nothing", "/"):
        headers = here.client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("address", "body"), [("/nowhere", None), ("/healthz", b""), ("/v1/envelopes", b"x")]
)
def test_a_problem_s_type_links_to_an_explanation(
    here: World, address: str, body: bytes | None
) -> None:
    ask = here.client.get if body is None else here.client.post
    problem = ask(address, data=body, content_type="application/json")
    page = here.client.get(problem.json["type"])
    assert page.status_code == 200
    assert page.mimetype == "text/html"
    assert "<h1>" in page.text
    assert here.client.get("/problems/none").status_code == 404


def test_a_wrong_method_lists_the_allowed_ones(here: World) -> None:
    answer = here.client.get("/v1/envelopes")
    assert (answer.status_code, answer.content_type) == (405, PROBLEM)
    assert "POST" in answer.headers["Allow"]


def test_an_internal_error_reveals_nothing_about_the_request(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistake(*_: object) -> None:
        raise RuntimeError("secret 5ca1ab1e")

    monkeypatch.setattr("deniable.server.http.uploads.admit", mistake)
    asked = here.publish(survey())
    answer = here.send(envelope(asked, 1))
    assert (answer.status_code, answer.content_type) == (500, PROBLEM)
    assert "5ca1ab1e" not in answer.text
