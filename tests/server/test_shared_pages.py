"""Reports that are shared by a secret address, or downloaded: contents, expiry and revocation."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import requests
from flask import Response
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from deniable.server.http.context import COOKIE
from deniable.server.store import FILE, Place, PublishedSurvey, create_store
from deniable.server.surveys import shared_results
from tests.command import asked_json, run
from tests.eventually import PATIENCE, eventually
from tests.server.results_data import AFTER_GRACE, NOW, add_round, fill, start_times
from tests.server.surveys import BIT, published, survey, until_spring
from tests.server.test_dashboard import Page
from tests.server.test_survey_list import words
from tests.server.world import World, serving

pytestmark = pytest.mark.at(NOW)


def signed_in(here: World, role: str = "analyst") -> FlaskClient:
    client = FlaskClient(here.app, Response)
    client.set_cookie(COOKIE, here.session(here.token(role)))
    return client


def act(client: FlaskClient, asked: PublishedSurvey, view: str = "", **form: str) -> TestResponse:
    page = client.get(f"/surveys/{asked.id}{view}").text.partition('id="shares"')[2]
    (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', page))
    fields = {"by": "", "round": "", "days": "30"}
    for name in ("by", "round"):
        (fields[name],) = re.findall(rf'name="{name}" value="([^"]*)"', page)
    address = f"/surveys/{asked.id}/shares"
    return client.post(address, data={"form_token": token, **fields, **form})


def shared(here: World, asked: PublishedSurvey, view: str = "", **form: str) -> str:
    """Share a view of a survey as an analyst does, and return the path that the page shows."""
    client, before = signed_in(here), {share.path for share in here.store.shares()}
    reply = act(client, asked, view, **form)
    assert (reply.status_code, reply.location) == (303, f"/surveys/{asked.id}#shares")
    (path,) = {share.path for share in here.store.shares()} - before
    assert f'href="http://localhost{path}"' in client.get(f"/surveys/{asked.id}").text
    return path


def answers_of(html: str) -> list[str]:
    return re.findall(r'<p class="answer[^>]*>([^<]+)<', html)


def test_a_shared_page_shows_the_results_of_the_survey_page_to_anyone(here: World) -> None:
    asked = fill(here)
    path = shared(here, asked)
    reply = here.devices.get(path)
    assert reply.status_code == 200
    page = signed_in(here).get(f"/surveys/{asked.id}").text
    assert len(answers_of(reply.text)) == 3
    assert answers_of(reply.text) == answers_of(page)
    for part in ("<svg", "Asked openly", "2027-02-10", "until 2027-03-12", "updated every hour"):
        assert part in reply.text
    (share,) = here.store.shares()
    assert f"Shared by {share.actor} on 2027-02-10; updated every hour" in words(reply.text)
    assert "CSV" not in reply.text, "which its readers do not have"
    assert not share.is_linked
    shared(here, asked, linked="1")
    assert [one.is_linked for one in here.store.shares()].count(True) == 1
    assert "By default, an app uses" not in reply.text


def test_a_shared_page_needs_no_script_and_leaks_no_address(here: World) -> None:
    reply = here.devices.get(shared(here, fill(here)))
    assert not {"script", "form", "a"} & set(Page(reply.text).tags)
    assert {*Page(reply.text).addresses} == {
        f"../static/{name}" for name in ("icon.svg", "style.css", "chart.css")
    }
    for address in Page(reply.text).addresses:
        assert here.devices.get(f"/shared/{address}".replace("/shared/..", "")).status_code == 200
    assert '<meta name="robots" content="noindex">' in reply.text
    headers = reply.headers
    assert headers["X-Robots-Tag"] == "noindex"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "script" not in headers["Content-Security-Policy"]
    assert "Set-Cookie" not in headers


def test_an_address_has_192_random_bits_and_only_the_exact_path_is_served(here: World) -> None:
    asked = fill(here)
    paths = [shared(here, asked) for _ in range(3)]
    assert all(re.fullmatch(r"/shared/[\w-]{32}", path) for path in paths)
    assert len({path[8:] for path in paths}) == 3
    assert here.devices.get(paths[0]).status_code == 200
    for wrong in (paths[0][:-1], f"{paths[0]}/", f"{paths[0]}x", paths[0].swapcase(), "/shared/",
                  "/shared/%25", "/shared/none", f"/public/{paths[0][8:]}"):  # fmt: skip
        assert here.devices.get(wrong).status_code == 404, wrong


def test_an_expired_or_revoked_page_is_replaced_by_plain_words(here: World) -> None:
    asked = fill(here)
    first, second = shared(here, asked, days="1"), shared(here, asked, days="2")
    assert here.devices.get(second).status_code == 200
    act(signed_in(here), asked, revoke=second)
    gone = here.devices.get(second)
    assert (gone.status_code, gone.mimetype) == (404, "text/html")
    assert "The address may be incomplete, or the page has expired" in words(gone.text)
    assert {share.path for share in here.store.shares()} == {first}
    here.clock.time = datetime(2027, 2, 11, 23, 59, tzinfo=UTC)
    assert here.devices.get(first).status_code == 200
    here.clock.pass_(minutes=1)
    assert here.devices.get(first).data == gone.data
    assert here.store.shares() == [], "deleted when the next pages are published"
    actions = {entry.action for entry in here.store.audit()}
    assert {"shared results", "stopped sharing results"} <= actions
    assert not any(first[8:] in entry.subject for entry in here.store.audit())


def test_a_page_expires_even_if_no_reader_runs(here: World) -> None:
    """Intake compares the day, so it does not depend on the process that deletes pages."""
    asked = fill(here)
    path = shared(here, asked, days="1")
    assert here.devices.get(path).status_code == 200
    for today, is_shown in ((date(2027, 2, 11), True), (date(2027, 2, 12), False)):
        assert bool(here.store.shared_page(path, today)) == is_shown


def test_a_shared_page_is_updated_every_hour(here: World) -> None:
    asked = here.publish(until_spring(BIT))
    path = shared(here, asked)
    assert "No reports yet" in here.devices.get(path).text
    add_round(here.store, asked, 684, [[3_000, 1_000]])
    here.clock.pass_(minutes=59)
    assert "No reports yet" in here.devices.get(path).text
    here.clock.pass_(minutes=1)
    assert answers_of(here.devices.get(path).text) == [*answers_of(page_text(here, asked))]
    assert "4,000 reports" in here.devices.get(path).text


def page_text(here: World, asked: PublishedSurvey) -> str:
    return signed_in(here).get(f"/surveys/{asked.id}").text


@pytest.mark.at(AFTER_GRACE)
def test_a_shared_page_keeps_the_view_that_was_shared(here: World) -> None:
    asked = start_times(here)
    events, weeks, day = (
        here.devices.get(shared(here, asked, view)).text
        for view in ("", "?by=week", "?round=2024-11-08")
    )
    assert "2.4 s higher since 3.0 released" in words(events)
    assert "11 – 17 Nov" in words(weeks)
    assert "2024-11-08: 1,500 reports" in words(day)


def test_unreleased_results_are_not_on_a_shared_page(here: World) -> None:
    asked = fill(here, until_spring(looks="once"))
    text = here.devices.get(shared(here, asked, "?round=685")).text
    assert "results are shown on" in text
    assert answers_of(text) == []
    assert "<svg" not in text


def test_only_a_form_of_the_same_session_can_share(here: World) -> None:
    asked = fill(here)
    address, client = f"/surveys/{asked.id}/shares", signed_in(here)
    other = signed_in(here).get(f"/surveys/{asked.id}").text
    (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', other))
    for sent in ("", token):
        assert client.post(address, data={"days": "3", "form_token": sent}).status_code == 403
    assert here.client.post(address, data={"days": "3"}).status_code == 401
    assert here.store.shares() == []


@pytest.mark.parametrize("days", ["0", "366", "x", "²", "٣٠", "-1", "9" * 5_000])
def test_a_wrong_number_of_days_is_refused(here: World, days: str) -> None:
    here.app.config["PROPAGATE_EXCEPTIONS"] = False
    reply = act(signed_in(here), fill(here), days=days)
    assert (reply.status_code, "1 to 365 days" in reply.text) == (400, True)
    assert here.store.shares() == []


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("3", "This round does not exist, or has not begun"),
        ("686", "This round does not exist, or has not begun"),
        ("99999999999", "Write a round as a number or a day like 2026-12-01"),
        ("٦٨٥", "Write a round as a number or a day like 2026-12-01"),
    ],
)
def test_a_round_that_the_survey_does_not_have_cannot_be_shared(
    here: World, number: str, reason: str
) -> None:
    reply = act(signed_in(here), fill(here), round=number)
    assert (reply.status_code, reason in words(reply.text)) == (404, True)
    assert here.store.shares() == []


def test_the_number_of_shared_pages_is_limited(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_results, "MAX_SHARES", 2)
    asked, other = fill(here), here.publish(until_spring(BIT, name="other"))
    for _ in range(2):
        shared(here, asked)
    assert act(signed_in(here), asked).status_code == 400
    shared(here, other)


def test_a_damaged_survey_keeps_its_last_shared_page(here: World) -> None:
    """The other shared pages are still updated."""
    asked, other = fill(here), here.publish(until_spring(BIT, name="other"))
    paths = [shared(here, one) for one in (asked, other)]
    before = here.devices.get(paths[0]).data
    with closing(sqlite3.connect(here.store.data / FILE)) as driver, driver:
        driver.execute("UPDATE tallies SET reports = 7 WHERE survey = ?", (asked.sequence,))
    add_round(here.store, other, 684, [[3_000, 1_000]])
    here.clock.pass_(hours=1)
    assert here.devices.get(paths[0]).data == before
    assert "4,000 reports" in here.devices.get(paths[1]).text


def test_the_texts_of_a_survey_are_escaped_in_a_report(here: World) -> None:
    asked = here.publish(until_spring(BIT, purpose="<script>alert(1)</script>", owner='"><b>x'))
    add_round(here.store, asked, 684, [[3_000, 1_000]])
    for text in (
        here.devices.get(shared(here, asked)).text,
        signed_in(here).get(f"/surveys/{asked.id}/report.html").text,
    ):
        assert "<script" not in text
        assert "<b>" not in text


def test_a_report_to_download_is_the_shared_page_in_one_file(here: World) -> None:
    asked = fill(here)
    reply = signed_in(here).get(f"/surveys/{asked.id}/report.html")
    assert reply.status_code == 200
    assert reply.headers["Content-Disposition"] == (
        'attachment; filename="app-health-2027-02-10.html"'
    )
    assert Page(reply.text).addresses == []
    assert "@media print" in reply.text
    shared_text = here.devices.get(shared(here, asked)).text
    start, end = '<section class="results">', "Results as of 2027-02-10, data version"
    parts = [text[text.index(start) : text.index(end)] for text in (reply.text, shared_text)]
    assert parts[0] == parts[1]
    assert here.client.get(f"/surveys/{asked.id}/report.html").status_code == 401
    assert signed_in(here).get("/surveys/none/report.html").status_code == 404


def test_the_data_version_changes_with_the_shown_counts_only(here: World) -> None:
    asked = here.publish(until_spring(BIT))

    def version() -> str:
        text = signed_in(here).get(f"/surveys/{asked.id}/report.html").text
        (found,) = re.findall(r"data version ([0-9a-f]{12}),", text)
        return str(found)

    empty = version()
    assert version() == empty
    add_round(here.store, asked, 683, [[300, 100]])
    first = version()
    assert first != empty
    add_round(here.store, asked, 684, [[300, 100]])
    assert version() not in (empty, first)


def test_a_real_server_serves_a_page_that_an_analyst_shares_and_revokes(place: Place) -> None:
    today = datetime.now(UTC).date()
    with create_store(place) as store:
        asked = published(
            store, survey(BIT, round="day", opens=today - timedelta(days=3), closes=today)
        )
        for day in range(3):
            add_round(store, asked, asked.survey.first_round + day, [[3_000, 1_000]])
    with serving(place) as server:
        session, url = requests.Session(), f"{server.dashboard}/surveys/{asked.id}"
        page = session.get(url, params={"token": server.token}, timeout=PATIENCE).text
        (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', page))
        form = {"form_token": token, "days": "7", "by": "", "round": ""}
        page = session.post(f"{url}/shares", data=form, timeout=PATIENCE).text
        (address,) = re.findall(r'href="([^"]+/shared/[\w-]+)"', page)
        assert address.startswith(server.url)

        def read() -> requests.Response:
            return requests.get(address, timeout=PATIENCE)

        eventually(lambda: read().status_code == 200, "published")
        (answer,) = answers_of(read().text)
        assert answer in page
        assert f"until {today + timedelta(days=7)}" in read().text
        path = address.removeprefix(server.url)
        session.post(f"{url}/shares", data=form | {"revoke": path}, timeout=PATIENCE)
        assert read().status_code == 404
        assert "This page is not shared" in read().text
    with create_store(place) as store:
        assert [entry.action for entry in store.audit() if "shar" in entry.action] == [
            "shared results", "stopped sharing results",
        ]  # fmt: skip


def test_a_command_shares_lists_and_revokes_pages_of_a_running_server(place: Place) -> None:
    today = datetime.now(UTC).date()
    with create_store(place) as store:
        days = {"opens": today - timedelta(days=3), "closes": today}
        asked = published(store, survey(BIT, round="day", **days))
        other = published(store, survey(BIT, round="day", name="other", **days))
        add_round(store, asked, asked.survey.first_round, [[3_000, 1_000]])
    with serving(place) as server:
        where = ("--data", place) if isinstance(place, Path) else ("--store", place.url)
        chosen = (asked.name, *where, "--device-url", server.url)

        def addresses(*arguments: object) -> list[str]:
            return [
                share["address"] for share in asked_json("share", *chosen, *arguments)["shares"]
            ]

        def status(address: str) -> int:
            return requests.get(address, timeout=PATIENCE).status_code

        done = run("share", *chosen, "--days", 7)
        address, _, words_ = done.stdout.strip().partition("  ")
        assert words_ == f"until {today + timedelta(days=7)}, by command on {today}"
        assert re.fullmatch(rf"{server.url}/shared/[\w-]{{32}}", address)
        eventually(lambda: status(address) == 200, "published")
        assert "4,000 reports" in requests.get(address, timeout=PATIENCE).text
        (weekly,) = addresses("--by", "week")
        (first,) = addresses("--round", days["opens"])
        (elsewhere,) = asked_json("share", other.name, *chosen[1:])["shares"]
        assert {*addresses("--list")} == {address, weekly, first}
        assert addresses("--revoke", weekly) == [weekly]
        eventually(lambda: status(first) == 200, "published")
        assert status(weekly) == 404
        assert {*addresses("--revoke")} == {address, first}
        assert [status(one) for one in (address, weekly, first)] == [404] * 3
        assert addresses("--list") == []
        assert asked_json("share", other.name, *chosen[1:], "--list")["shares"] == [elsewhere]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--days", 0), 2, "a shared page can be read for 1 to 365 days"),
        (("--days", 366), 2, "a shared page can be read for 1 to 365 days"),
        (("--round", 682), 3, "this round does not exist, or has not begun"),
        (("--round", 9_999), 3, "this round does not exist, or has not begun"),
        (("--revoke", "/shared/none"), 3, "app-health has no such shared page"),
        (("--round", 683, "--by", "week"), 2, "not allowed with"),
        (("--list", "--revoke"), 2, "not allowed with"),
    ],
)
def test_the_command_refuses_what_cannot_be_shared(
    tmp_path: Path, arguments: tuple[object, ...], code: int, reason: str
) -> None:
    with create_store(tmp_path) as store:
        published(store, survey(BIT))
    done = run("share", "app-health", "--data", tmp_path, *arguments)
    assert done.returncode == code
    assert reason in done.stderr
    assert asked_json("share", "app-health", "--data", tmp_path, "--list") == {"shares": []}
