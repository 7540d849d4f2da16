"""The list of surveys: headlines, sparklines, changes, warnings, search, order and states."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from html import unescape

import numpy as np
import pytest
from flask import Response
from flask.testing import FlaskClient

from deniable.server.http.context import COOKIE
from deniable.server.pages import dashboard
from deniable.server.pages.dashboard import ListedSurvey
from deniable.server.pages.survey_page import SurveyPage, page_of
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.server.store.sqlite.sqlite_database import FILE
from tests import survey_texts as texts
from tests.server.results_data import AFTER_GRACE, NOW, add_round, draw_cells, fill, start_times
from tests.server.surveys import BIT, survey, until_spring
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)


def signed_in(here: World) -> FlaskClient:
    client = FlaskClient(here.app, Response)
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    return client


def text(here: World, address: str = "/") -> str:
    return words(signed_in(here).get(address).text)


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def titles(here: World, query: str) -> list[str]:
    html = signed_in(here).get(f"/?{query}").text
    return re.findall(r'<h2><a href="/surveys/\w+">([^<]+)</a>', html)


def listed(here: World) -> list[ListedSurvey]:
    found = here.client.get("/surveys.json", headers=here.bearer("analyst")).json["surveys"]
    return [ListedSurvey(**row) for row in found]


def test_the_headline_of_the_list_is_that_of_the_survey_page(here: World) -> None:
    published = fill(here)
    page = text(here, f"/surveys/{published.id}")
    (row,) = listed(here)
    assert row.headline
    assert row.headline in page
    assert row.headline in text(here)
    assert "No results yet" not in text(here)


@pytest.mark.at(AFTER_GRACE)
def test_the_list_shows_changes_and_a_sparkline(here: World) -> None:
    start_times(here)
    html = signed_in(here).get("/").text
    assert "2.4 s higher since 3.0 released (8 Nov): 1.8 to 3.0 higher." in words(html)
    assert "Located change: lower from 13 Nov 2024 on (within" in words(html)
    (line,) = re.findall(r'<path class="path" d="(M[^"]+)"', html)
    assert len(line.split("L")) == 21, "one point for each day"
    (band,) = re.findall(r'<path class="bar" d="(M[^"]+)Z"', html)
    assert len(band.split("L")) == 42
    assert "<script" not in html
    assert "problem" not in html


def test_a_forged_round_is_marked_and_its_headline_has_no_estimate(here: World) -> None:
    days: dict[str, object] = {"opens": date(2027, 1, 20), "closes": date(2027, 2, 5)}
    daily = survey(texts.choice(4, "unary", name="it", epsilon="2"), minimum_reports=100,
                   name="daily", round="day", grace_days=3, **days)  # fmt: skip
    published = here.publish(daily)
    (asked,), rng = published.survey.questions, np.random.default_rng(3)
    with here.store.transaction() as transaction:
        for day in range(17):
            forged = 600 * (day == 16)
            cells = draw_cells(asked, [800, 200, 0, 0], rng) + forged
            number = published.survey.first_round + day
            transaction.add(published.sequence, RoundTally(number, 1_000 + forged, cells))
    html = signed_in(here).get("/").text
    assert "Forged reports in 2027-02-05" in words(html)
    assert "Some of these reports are forged" in html
    assert "is first" not in html
    assert "%)" not in html
    honest = fill(here)
    part = signed_in(here).get(f"/?q={honest.name}").text
    assert 'class="answer"' in part
    assert "Forged" not in part


def test_an_open_survey_without_reports_in_a_past_round_has_a_warning(here: World) -> None:
    published = here.publish(until_spring(BIT))
    assert "No reports since Dec 2026" in text(here)
    add_round(here.store, published, 683, [[300, 100]])
    assert "No reports since Jan 2027" in text(here)
    add_round(here.store, published, 684, [[300, 100]])
    assert "No reports" not in text(here)


def test_damage_to_one_survey_is_shown_and_leaves_the_others_readable(here: World) -> None:
    published = fill(here)
    other = here.publish(until_spring(BIT, name="other"))
    add_round(here.store, other, 684, [[300, 100]])
    with closing(sqlite3.connect(here.store.data / FILE)) as driver, driver:
        driver.execute("UPDATE tallies SET reports = 7 WHERE survey = ?", (other.sequence,))
    intact, damaged = sorted(listed(here), key=lambda row: row.reports is None)
    assert (intact.id, intact.reports, intact.warnings) == (published.id, 49_000, [])
    assert (damaged.id, damaged.reports) == (other.id, None)
    assert "Damaged counts" in damaged.warnings[0]
    page = signed_in(here).get(f"/surveys/{other.id}")
    assert (page.status_code, page.mimetype) == (503, "text/html")
    assert "no result is shown until the operator repairs them" in page.text
    assert signed_in(here).get(f"/surveys/{published.id}").status_code == 200
    assert intact.headline in text(here)  # type: ignore[operator]  # it has an estimate


def test_an_error_in_one_survey_is_logged_and_leaves_the_others_shown(
    here: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    published = fill(here)
    other = here.publish(until_spring(BIT, name="other"))

    def faulty(one: PublishedSurvey) -> SurveyPage:
        return page_of(one) if one.id == published.id else 1 // 0  # type: ignore[return-value]

    monkeypatch.setattr(dashboard, "page_of", faulty)
    intact, wrong = sorted(listed(here), key=lambda row: row.id == other.id)
    assert intact.headline
    assert (intact.warnings, wrong.warnings) == ([], [dashboard.FAULT])
    assert dashboard.FAULT in text(here)
    assert f"the survey {other.id} could not be summarized" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_search_order_and_state_select_the_surveys_shown(here: World) -> None:
    for title, people, closes in (
        ("Apples", 300, date(2027, 4, 30)), ("Pears", 500, date(2027, 3, 31)),
        ("cherries", 400, date(2027, 2, 28)),
    ):  # fmt: skip
        asked = until_spring(BIT, name=title.lower(), title=title, purpose="Fruit", closes=closes)
        add_round(here.store, here.publish(asked), 684, [[people, 0]])
    here.publish(until_spring(BIT, name="later", title="Plums", opens=date(2027, 3, 1)))
    assert titles(here, "") == ["Plums", "cherries", "Pears", "Apples"]
    assert titles(here, "sort=title") == ["Apples", "cherries", "Pears", "Plums"]
    assert titles(here, "sort=reports") == ["Pears", "cherries", "Apples", "Plums"]
    assert titles(here, "sort=closes") == ["cherries", "Pears", "Plums", "Apples"]
    assert titles(here, "state=waiting") == ["Plums"]
    assert titles(here, "state=open&sort=title") == ["Apples", "cherries", "Pears"]
    assert titles(here, "q=PEAR") == ["Pears"]
    assert titles(here, "q=fruit+app") == ["Apples"]
    assert "No survey matches" in text(here, "/?q=nothing")
    assert "No surveys yet" not in text(here, "/?q=nothing")
    assert titles(here, "sort=none&after=-3") == titles(here, "")


def test_a_search_is_repeated_in_its_field_and_escaped(here: World) -> None:
    html = signed_in(here).get("/", query_string={"q": '"><b>x', "state": "open"}).text
    assert "<b>" not in html
    assert "&#34;&gt;&lt;b&gt;x" in html
    assert "<option selected>open</option>" in html


def test_a_long_list_has_pages(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "MAX_SHOWN", 2)
    for number in range(5):
        here.publish(until_spring(BIT, name=f"n-{number}", title=f"Number {number}"))
    html = signed_in(here).get("/?sort=title").text
    assert "1 to 2 of 5" in html
    (following,) = re.findall(r'<a href="\?([^"]+)">Next', html)
    assert titles(here, unescape(following)) == ["Number 2", "Number 3"]
    assert titles(here, "sort=title&after=4") == ["Number 4"]


def test_a_response_estimates_new_headlines_for_a_limited_time(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each response makes at least one, and later responses use those that were made."""
    monkeypatch.setattr(dashboard, "ESTIMATION_SECONDS", 0.0)
    made = list[str]()

    def counted(published: PublishedSurvey) -> dashboard.Summary:
        made.append(published.name)
        return summary(published)

    summary = dashboard._summary
    monkeypatch.setattr(dashboard, "_summary", counted)
    for number in range(3):
        asked = here.publish(until_spring(BIT, name=f"n-{number}"))
        add_round(here.store, asked, 684, [[300, 100]])
    assert "2 more headlines are being estimated" in text(here)
    assert "1 more headline is being estimated" in text(here)
    assert "being estimated" not in text(here)
    assert "being estimated" not in text(here)
    assert sorted(made) == ["n-0", "n-1", "n-2"], "each survey once"
    here.clock.time += timedelta(seconds=dashboard.FRESH_SECONDS)
    text(here)
    assert len(made) == 4, "a summary is made again after five minutes"
