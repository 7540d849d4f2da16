"""The survey page of periods: the answer first, bands over daily points, and marked forgeries."""

from __future__ import annotations

import re
from datetime import date

import numpy as np
import pytest
from flask import Response
from flask.testing import FlaskClient

from deniable.server.estimation.statements import Reading
from deniable.server.http.context import COOKIE
from deniable.server.results.estimate_cache import EstimateCache, Pool
from deniable.server.store import Annotation, PublishedSurvey, RoundTally
from deniable.shared.survey.document import Survey
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


@pytest.mark.parametrize("view", ["/", "/surveys.json", "{}", "{}?by=week", "{}.json?by=all"])
def test_rounds_in_which_nobody_was_asked_a_question_are_shown(here: World, view: str) -> None:
    published = asked_one(here, [(300, 0), (300, 0)])
    here.store.annotate(published.sequence, Annotation(date(2024, 11, 5), "released"))
    assert signed_in(here).get(view.format(f"/surveys/{published.id}")).status_code == 200


def test_a_round_in_which_nobody_was_asked_widens_no_interval(here: World) -> None:
    """Twin: with a report in the second round, one person may be in both."""
    asked, widths = asked_one(here, []).survey, list[float]()
    for last in (0, 1):
        tallies = [counted(asked, 0, (300, 300)), counted(asked, 1, (300, last))]
        counts = Pool(range(2), tuple(tallies), Reading()).counts(asked, asked.questions[1])
        (made,) = EstimateCache().statements(asked.questions[1], [counts])
        widths.append(float(made.like[1][0] - made.like[0][0]))
        alone = Pool(range(1), tuple(tallies[:1]), Reading()).counts(asked, asked.questions[1])
        (single,) = EstimateCache().statements(asked.questions[1], [alone])
        assert np.array_equal(made.like, single.like) == (last == 0)
    assert widths[0] < widths[1]


def asked_one(here: World, people: list[tuple[int, int]]) -> PublishedSurvey:
    """Publish a survey that asks one of two questions; `people` were asked each, day by day."""
    days: dict[str, object] = {"opens": date(2024, 10, 30), "closes": date(2024, 11, 18)}
    asked = survey(texts.bit() + texts.bit("other"), round="day", ask=1, show_when="± 10 points",
                   minimum_reports=1, **days)  # fmt: skip
    published = here.publish(asked)
    with here.store.transaction() as transaction:
        for day, counts in enumerate(people):
            transaction.add(published.sequence, counted(asked, day, counts))
    return published


def counted(asked: Survey, day: int, people: tuple[int, int]) -> RoundTally:
    """Return the tally of one day, in which these numbers of people were asked each question."""
    cells = [[number - number // 3, number // 3] for number in people]
    asked_each = [*cells[0], *cells[1], *people]
    return RoundTally(asked.first_round + day, sum(people), np.array(asked_each))
