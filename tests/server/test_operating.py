"""Operator pages: roles, and protection of the forms against other sites."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from flask import Response
from flask.testing import FlaskClient

from deniable.server.http.context import COOKIE
from deniable.server.http.tokens import new_token
from deniable.server.intake.upkeep import AUDIT_DAYS, Upkeep
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable
from tests.server.results_data import NOW
from tests.server.surveys import envelope
from tests.server.test_dashboard import check_page
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

DRAFT = """
[survey]
name = "app-health"
title = "How is the app doing?"
purpose = "Find crashes."
owner = "Example Ltd"
opens = 2027-02-01
closes = 2027-03-31
round = "month"
[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "1"
"""


def signed_in(here: World, role: str) -> FlaskClient:
    client: FlaskClient = here.client
    client.set_cookie(COOKIE, here.session(here.token(role)))
    return client


@pytest.fixture
def operator(here: World) -> FlaskClient:
    return signed_in(here, "operator")


def form_token(client: FlaskClient, path: str = "/operate") -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', client.get(path).text)
    assert found
    return found[1]


def acts(published: PublishedSurvey, here: World) -> list[tuple[str, dict[str, str]]]:
    """Return every form with its fields filled in."""
    token = here.store.tokens()[0].id
    return [
        ("/operate/tokens", {"role": "analyst", "days": "7"}),
        (f"/operate/tokens/{token}/revoke", {}),
        ("/operate/check", {"survey": DRAFT}),
        (f"/surveys/{published.id}/close", {"name": published.name}),
        (f"/surveys/{published.id}/annotations", {"day": "2027-01-20", "words": "2.4"}),
        (f"/surveys/{published.id}/try", {}),
    ]


def state(here: World) -> tuple[int, list[bool], int]:
    here.catalogue.refresh()
    surveys = here.catalogue.surveys()
    noted = sum(len(here.store.annotations(survey.sequence)) for survey in surveys)
    return len(here.store.tokens()), [survey.closed is not None for survey in surveys], noted


def test_operator_pages_follow_the_rules_for_pages(
    operator: FlaskClient, published: PublishedSurvey
) -> None:
    for path in ("/operate", "/operate/check", f"/surveys/{published.id}/close"):
        response = operator.get(path)
        assert response.status_code == 200
        check_page(response)


def test_an_analyst_is_refused_with_the_reason(here: World, published: PublishedSurvey) -> None:
    analyst, secret = signed_in(here, "analyst"), form_token(signed_in(here, "operator"))
    before = state(here)
    paths = ["/operate", "/operate/check", f"/surveys/{published.id}/close"]
    answers = [analyst.get(path) for path in paths]
    answers += [
        analyst.post(path, data=form | {"form_token": secret})
        for path, form in acts(published, here)
    ]
    for answer in answers:
        assert answer.status_code == 403
        assert "for operators" in answer.text
    assert state(here) == before
    assert "/operate" not in analyst.get("/").text


def test_a_visitor_without_a_session_is_asked_to_sign_in(
    here: World, published: PublishedSurvey
) -> None:
    here.token("analyst")
    for path, form in acts(published, here):
        assert here.client.post(path, data=form).status_code == 401
    assert here.client.get("/operate").status_code == 401


@pytest.mark.parametrize("sent", ["", "0" * 64, "another session's", "from another site"])
def test_no_other_page_can_act_for_an_operator(
    here: World, operator: FlaskClient, published: PublishedSurvey, sent: str
) -> None:
    headers = {}
    if sent == "another session's":
        sent = form_token(signed_in(here, "operator"))
    if sent == "from another site":
        sent, headers = form_token(operator), {"Sec-Fetch-Site": "cross-site"}
    before = state(here)
    for path, form in acts(published, here):
        answer = operator.post(path, data=form | {"form_token": sent}, headers=headers)
        assert (answer.status_code, "not from your session" in answer.text) == (403, True)
    assert state(here) == before


def test_a_token_is_created_shown_once_and_revoked(here: World, operator: FlaskClient) -> None:
    secret = {"form_token": form_token(operator)}
    page = operator.post("/operate/tokens", data={"role": "analyst", "days": "7"} | secret)
    check_page(page)
    shown = re.search(r"it is shown only once: <code>([\w-]+)</code>", page.text)
    assert shown
    token = here.store.valid_token(shown[1], here.clock.now())
    assert token is not None
    assert token.role == "analyst"
    assert shown[1] not in operator.get("/operate").text
    (made,) = [token for token in here.store.tokens() if token.role == "analyst"]
    answer = operator.post(f"/operate/tokens/{made.id}/revoke", data=secret)
    assert answer.status_code == 303
    assert here.store.valid_token(shown[1], here.clock.now()) is None
    again = operator.post(f"/operate/tokens/{made.id}/revoke", data=secret)
    assert (again.status_code, "may have been revoked" in again.text) == (404, True)


@pytest.mark.parametrize(
    "form",
    [
        {"role": "root", "days": "7"},
        {"role": "app"},
        *({"role": "app", "days": days} for days in ("99999", "٣٠", "9" * 5_000)),
    ],
)
def test_an_impossible_token_is_refused(
    here: World, operator: FlaskClient, form: dict[str, str]
) -> None:
    before = state(here)
    here.app.config["PROPAGATE_EXCEPTIONS"] = False
    data = form | {"form_token": form_token(operator)}
    assert operator.post("/operate/tokens", data=data).status_code == 400
    assert state(here) == before


def test_a_survey_is_closed_by_typing_its_name(
    here: World, operator: FlaskClient, published: PublishedSurvey
) -> None:
    address = f"/surveys/{published.id}/close"
    assert address in operator.get(f"/surveys/{published.id}").text
    secret = {"form_token": form_token(operator, address)}
    wrong = operator.post(address, data=secret | {"name": "app-healht"})
    assert (wrong.status_code, state(here)[1]) == (400, [False])
    done = operator.post(address, data=secret | {"name": published.name})
    assert (done.status_code, state(here)[1]) == (303, [True])
    assert "is already closed" in operator.get(address).text
    assert address not in operator.get(f"/surveys/{published.id}").text


def test_events_are_added_and_removed_on_the_page(
    here: World, operator: FlaskClient, published: PublishedSurvey
) -> None:
    page = f"/surveys/{published.id}"
    secret = {"form_token": form_token(operator, page)}
    form = secret | {"day": "2027-01-20", "words": ' 2.4 <b>"released" '}
    assert operator.post(f"{page}/annotations", data=form).headers["Location"].startswith(page)
    shown = operator.get(page)
    check_page(shown)
    assert shown.text.count('<line class="event"') == 7, "each trend needs a line"
    assert "2027-01-20: 2.4 &lt;b&gt;" in shown.text
    assert "<b>" not in shown.text
    analyst = signed_in(here, "analyst")
    assert "2027-01-20: 2.4 &lt;b&gt;" in analyst.get(page).text
    assert "/annotations" not in analyst.get(page).text
    assert json.loads(analyst.get(f"/v1{page}/results").data)["annotations"] == [
        {"day": "2027-01-20", "round": 684, "words": '2.4 <b>"released"'}
    ]
    for bad in ({"day": "20.1.2027"}, {"words": " "}, {"words": "x" * 201}, {"words": "a\nb"}):
        assert operator.post(f"{page}/annotations", data=form | bad).status_code == 400
    said = operator.post(f"{page}/annotations", data=form | {"day": "Monday"}).text
    assert "Write a day like 2026-12-01, not &#39;Monday&#39;" in said
    gone = operator.post(f"{page}/annotations", data=form | {"remove": "yes"})
    assert (gone.status_code, state(here)[2]) == (303, 0)
    assert 'class="event"' not in operator.get(page).text
    assert operator.post("/surveys/none/annotations", data=form).status_code == 404


def test_a_draft_is_checked_and_not_stored(
    here: World, operator: FlaskClient, published: PublishedSurvey
) -> None:
    secret, before = {"form_token": form_token(operator)}, state(here)
    page = operator.post("/operate/check", data=secret | {"survey": DRAFT})
    check_page(page)
    assert "- minutes: no longer asked" in page.text
    assert "changes the odds" in page.text
    assert state(here) == before
    bad = operator.post("/operate/check", data=secret | {"survey": "<b>" + DRAFT})
    assert 'role="alert"' in bad.text
    assert "<b>" not in bad.text


def test_the_first_use_of_a_token_on_a_day_writes_its_day_and_no_other_use_writes(
    here: World, published: PublishedSurvey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for analysts over HTTP, for sessions, and for apps that send reports."""
    noted, note_use = list[tuple[str, date]](), here.store.note_use

    def counted(identifier: str, day: date) -> None:
        noted.append((identifier, day))
        note_use(identifier, day)

    monkeypatch.setattr(here.store, "note_use", counted)
    headers, app = here.bearer("analyst", days=3), here.bearer("app", days=3)
    client, session = FlaskClient(here.app, Response), here.token("analyst", days=3)
    body = envelope(published, 1, round_number=685).pack()
    for day in range(2):
        here.clock.pass_(days=day)
        client.set_cookie(COOKIE, here.session(session))
        for _ in range(3):
            bearer = FlaskClient(here.app, Response)
            path = f"/v1/surveys/{published.id}/counters"
            assert bearer.get(path, headers=headers).status_code == 200
            assert client.get("/").status_code == 200
            here.clock.pass_(seconds=1)  # intake forgets the token
            assert here.post(body, headers=app).status_code == 200
    days = [NOW.date(), NOW.date() + timedelta(days=1)]
    by_token = {token.id: token.used for token in here.store.tokens()}
    assert sorted(noted) == sorted((token, day) for token in by_token for day in days)
    assert set(by_token.values()) == {days[1]}


def test_a_store_that_cannot_write_keeps_no_token_out(
    here: World, published: PublishedSurvey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreUnusable("the disk is full")

    token = here.token("operator")
    for method in ("note_use", "record_sign_in"):
        monkeypatch.setattr(here.store, method, full)
    client = here.client
    assert client.post("/sign-in", data={"token": token}).status_code == 303
    assert client.get("/operate").status_code == 200


def test_the_audit_log_names_the_token_of_each_action(
    here: World, published: PublishedSurvey
) -> None:
    token, now = new_token(), here.clock.now()
    here.store.add_token(token, "operator", now, now + timedelta(days=1), "anna")
    client = here.client
    client.post("/sign-in", data={"token": token})
    secret = {"form_token": form_token(client)}
    form = secret | {"role": "analyst", "days": "7", "name": "ci"}
    assert client.post("/operate/tokens", data=form).status_code == 200
    (made,) = [token for token in here.store.tokens() if token.name == "ci"]
    client.post(f"/operate/tokens/{made.id}/revoke", data=secret)
    close = secret | {"name": published.name}
    assert client.post(f"/surveys/{published.id}/close", data=close).status_code == 303
    page = client.get("/operate")
    check_page(page)
    audit = page.text[page.text.index('id="audit"') :]
    for action, subject in [
        ("signed in", ""),
        ("created a token", "ci (analyst)"),
        ("revoked a token", "ci (analyst)"),
        ("closed a survey", f"app-health ({published.id[:12]})"),
    ]:
        assert f"<td>anna</td><td>{action}</td><td>{subject}</td>" in audit
    assert "<td>command</td><td>published a survey</td>" in audit
    assert not re.search(r"\d\d:\d\d|127\.0\.0\.1", audit)
    listed = client.get("/operate.json").json
    assert listed is not None
    assert {tuple(entry) for entry in listed["audit"]} == {("day", "actor", "action", "subject")}


@pytest.mark.parametrize("name", ["command", "x" * 61, "a\nb", "anna"])
def test_a_token_cannot_take_a_name_that_misleads_the_audit_log(here: World, name: str) -> None:
    token, now = new_token(), here.clock.now()
    here.store.add_token(token, "operator", now, now + timedelta(days=1), "anna")
    client = here.client
    client.post("/sign-in", data={"token": token})
    form = {"form_token": form_token(client), "role": "analyst", "days": "7", "name": name}
    assert client.post("/operate/tokens", data=form).status_code == 400
    assert [token.name for token in here.store.tokens()] == ["anna"]


def test_retention_deletes_old_audit_entries(here: World, published: PublishedSurvey) -> None:
    def entries_after(days: int) -> int:
        later = datetime.now(UTC) + timedelta(days=days)
        clock = Clock(lambda: later, here.clock.seconds)
        Upkeep(here.store, here.catalogue, clock)._seal()
        return len(here.store.audit())

    assert entries_after(AUDIT_DAYS) == 2
    assert entries_after(AUDIT_DAYS + 1) == 0


def test_health_lists_outcomes_and_the_reason_for_refusing(
    here: World, operator: FlaskClient, published: PublishedSurvey
) -> None:
    here.store.add_counters({(published.sequence, "late"): 1_012})
    page = operator.get("/operate").text
    assert "Accepting reports" in page
    assert re.search(r"GB free", page)
    assert "<td>1,000</td>" in page, "in steps of 20"
    here.writer.stop()
    assert "Reports cannot be accepted: the writer has stopped" in operator.get("/operate").text
