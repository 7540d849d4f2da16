"""The survey page of periods: the answer first, bands over daily points, and marked forgeries."""

from __future__ import annotations

import re
from datetime import date

import numpy as np
import pytest
from flask import Response
from flask.testing import FlaskClient

from deniable.server.http.context import COOKIE
from deniable.server.store import RoundTally
from tests import survey_texts as texts
from tests.server.results_data import AFTER_GRACE, draw_cells, start_times
from tests.server.surveys import survey
from tests.server.world import World

pytestmark = pytest.mark.at(AFTER_GRACE)


def signed_in(here: World) -> FlaskClient:
    client = FlaskClient(here.app, Response)
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    return client


def page(here: World, address: str) -> str:
    reply = signed_in(here).get(address)
    assert reply.status_code == 200, reply.text[:300]
    return str(reply.text)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_page_begins_with_the_changes_between_events(here: World) -> None:
    published = start_times(here)
    html = page(here, f"/surveys/{published.id}")
    text = words(html)
    answer = "2.4 s higher since 3.0 released (8 Nov): 1.8 to 3.0 higher."
    assert answer in text
    assert text.index(answer) < text.index("change from the one before")
    assert "8 – 12 Nov (3.0 released) 6.6 s 6.1 to 7.1 +2.4 s (+1.8 to +3.0) 7,500" in text
    assert "higher from 8 Nov 2024 on (within 6 – 11 Nov 2024)" in text
    assert html.count('<rect class="bar"') == 3 + 1, "a band for each period, and the legend"
    assert '4.2 s<tspan class="wide tick"> ± 0.4</tspan>' in html


def test_plain_links_switch_between_periods(here: World) -> None:
    published = start_times(here)
    html = page(here, f"/surveys/{published.id}")
    switch = re.findall(r'<li><a href="\?by=(\w+)"( aria-current="page")?>([\w ]+)</a></li>', html)
    assert [(name, bool(current)) for name, current, _ in switch] == [
        ("round", False), ("week", False), ("month", False), ("event", True), ("all", False),
    ]  # fmt: skip
    for name, _, _ in switch:
        assert "Seconds until the first screen" in page(here, f"/surveys/{published.id}?by={name}")
    weeks = words(page(here, f"/surveys/{published.id}?by=week"))
    assert "lower since 11 – 17 Nov" in weeks
    assert "of each period" in weeks
    day = words(page(here, f"/surveys/{published.id}?round=2024-11-08"))
    assert "2024-11-08: 1,500 reports" in day


def test_a_period_s_details_are_shown_on_request(here: World) -> None:
    published = start_times(here)
    text = words(page(here, f"/surveys/{published.id}?by=event&round=20026"))
    assert "30 Oct – 7 Nov 2024: 13,500 reports" in text
    figure = f"/surveys/{published.id}/figures/seconds/trend.svg?by=event&round=20026"
    reply = signed_in(here).get(figure)
    assert reply.mimetype == "image/svg+xml"
    assert b"4.2 s" in reply.data


def test_forged_rounds_are_marked_in_the_figure_and_in_the_table(here: World) -> None:
    options = texts.choice(5, "unary", name="it", epsilon="2")
    days: dict[str, object] = {"opens": date(2024, 11, 4), "closes": date(2024, 11, 24)}
    published = here.publish(survey(options, minimum_reports=100, round="day", **days))
    (asked,) = published.survey.questions
    rng = np.random.default_rng(3)
    with here.store.transaction() as transaction:
        for day in range(21):
            cells = draw_cells(asked, [800, 200, 0, 0, 0], rng)
            cells += 500 * (day == 9)
            number = published.survey.first_round + day
            transaction.add(published.sequence, RoundTally(number, 1_000 + 500 * (day == 9), cells))
    html = page(here, f"/surveys/{published.id}?by=week")
    assert 'class="flag"' in html
    assert "2024-11-13: forged reports" in html
    text = words(html)
    assert "11 – 17 Nov 2024: this period contains forged reports (2024-11-13)" in text
    assert text.count("11 – 17 Nov forged reports") == 5, "once for each option"
    assert "points (" not in text, "no comparison with forged reports"
    assert "Changes found in the estimates" not in text
    quiet = page(here, f"/surveys/{start_times(here).id}")
    assert 'class="flag"' not in quiet
