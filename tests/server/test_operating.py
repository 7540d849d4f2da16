"""Operator pages: roles, and protection of the forms against other sites."""

from __future__ import annotations

import json
import re

import pytest
from flask.testing import FlaskClient

from deniable.server.http.context import COOKIE
from deniable.server.store import PublishedSurvey
from tests.server.results_data import NOW
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
    return len(here.store.tokens()), [survey.closed for survey in surveys], noted


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
    assert here.store.role_of(shown[1], here.clock.now()) == "analyst"
    assert shown[1] not in operator.get("/operate").text
    (made,) = [token for token in here.store.tokens() if token.role == "analyst"]
    answer = operator.post(f"/operate/tokens/{made.id}/revoke", data=secret)
    assert answer.status_code == 303
    assert here.store.role_of(shown[1], here.clock.now()) is None
    again = operator.post(f"/operate/tokens/{made.id}/revoke", data=secret)
    assert (again.status_code, "may have been revoked" in again.text) == (404, True)


@pytest.mark.parametrize(
    "form", [{"role": "root", "days": "7"}, {"role": "app"}, {"role": "app", "days": "99999"}]
)
def test_an_impossible_token_is_refused(
    here: World, operator: FlaskClient, form: dict[str, str]
) -> None:
    before = state(here)
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


def test_health_lists_outcomes_and_the_reason_for_refusing(
    here: World, operator: FlaskClient, published: PublishedSurvey
) -> None:
    here.store.add_counters({(published.sequence, "late"): 12})
    page = operator.get("/operate").text
    assert "Accepting reports" in page
    assert re.search(r"GB free", page)
    assert "<td>12</td>" in page
    here.writer.stop()
    assert "Reports cannot be accepted: the writer has stopped" in operator.get("/operate").text
