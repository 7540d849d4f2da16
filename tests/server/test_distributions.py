"""Distribution of a number, end to end: tally, results document, text, page and Python."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from deniable.server.analysis import SurveyResults
from deniable.server.pages.charts import CURVE_BOTTOM, CURVE_TOP, curve
from deniable.server.results import Results, csv_chunks, survey_results
from deniable.server.results.document import Distribution, Point
from deniable.server.results.export import report_lines
from deniable.server.store import PublishedSurvey
from tests.server.results_data import NOW, add_round
from tests.server.surveys import until_spring
from tests.server.world import World
from tests.survey_texts import bit, number

pytestmark = pytest.mark.at(NOW)

CLOSED, OPEN, FEW = 683, 685, 684
LOW, HIGH = -20.0, 44.0
COARSE = number(LOW, HIGH, "square-wave", grid=16, epsilon="1", name="degrees")
ASKED = number(LOW, HIGH, "square-wave", grid=64, epsilon="2", name="degrees") + bit()


def fill(here: World, asked: str = ASKED, minimum: int = 100) -> PublishedSurvey:
    """Add two rounds of people near 4 or 24 degrees, and a round with too few people."""
    published = here.publish(until_spring(asked, minimum_reports=minimum))
    steps = published.survey.questions[0].mechanism.answers
    held = [0] * steps
    held[steps * 24 // 65], held[steps * 44 // 65] = 15_000, 15_000
    for period in (CLOSED, OPEN):
        add_round(here.store, published, period, [held, [20_000, 10_000]])
    add_round(here.store, published, FEW, [[99] + [0] * (steps - 1), [99, 0]])
    return published


def results_of(here: World, published: PublishedSurvey) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW)


def of(results: Results, number: int) -> Distribution:
    (period,) = (round_ for round_ in results.rounds if round_.round == number)
    assert isinstance(period.distributions, dict)
    assert list(period.distributions) == ["degrees"]
    return period.distributions["degrees"]


def test_the_document_has_points_and_quantiles_in_the_questions_unit(here: World) -> None:
    published = fill(here)
    results = results_of(here, published)
    found = of(results, CLOSED)
    assert [point.at for point in found.points] == np.linspace(LOW, HIGH, 17).tolist()
    assert sum(point.share for point in found.points) == pytest.approx(1)
    assert sum(point.consistent for point in found.points) == pytest.approx(1)
    at = {point.at: point for point in found.points}
    assert at[4].low < 1 / 2 < at[4].high
    assert at[0].below_low < 0.01 < at[0].below_high < 0.2
    assert at[12].below_low < 1 / 2 < at[12].below_high
    quarter, _, upper = (found.quantiles[n] for n in (1, 2, 3))
    assert quarter.low <= 4 <= quarter.high <= 12
    assert 16 <= upper.low <= 24 <= upper.high
    assert abs(quarter.estimate - 4) < 3
    again = msgspec.json.decode(msgspec.json.encode(results), type=Results)
    assert of(again, CLOSED) == found


def test_an_open_round_has_a_wider_band_and_one_with_few_reports_has_none(here: World) -> None:
    results = results_of(here, fill(here))
    closed, still = of(results, CLOSED), of(results, OPEN)

    def width(point: Point) -> float:
        return point.below_high - point.below_low

    inner = slice(4, -4)
    assert sum(map(width, still.points[inner])) > sum(map(width, closed.points[inner]))
    (few,) = (round_ for round_ in results.rounds if round_.round == FEW)
    assert not few.distributions
    assert b'"distributions"' not in msgspec.json.encode(few)


def test_below_the_survey_s_minimum_there_is_no_distribution(here: World) -> None:
    published = fill(here, minimum=30_001)
    assert not any(period.distributions for period in results_of(here, published).rounds)


def test_a_table_too_coarse_for_a_distribution_has_none(here: World) -> None:
    published = fill(here, ASKED.replace('"square-wave"', '"local-laplace"').replace('"2"', '"1"'))
    assert not any(period.distributions for period in results_of(here, published).rounds)


def test_text_page_and_python_show_the_distribution_and_the_means(here: World) -> None:
    published = fill(here)
    results = results_of(here, published)
    text = " ".join(" ".join(report_lines(results)).split())
    assert re.search(r"degrees: 25 % are below \d\.\d \(.* to .*\); 50 % are below", text)
    assert len("".join(csv_chunks(results, results.rounds)).splitlines()) == 1 + 2 * len(
        results.rounds
    )
    assert SurveyResults(results).estimate("degrees", round=CLOSED).distribution == of(
        results, CLOSED
    )
    assert SurveyResults(results).estimate("crashed", round=CLOSED).distribution is None
    page = here.client.get(f"/surveys/{published.id}?round={CLOSED}").text
    if "quantiles" not in page:  # readers without access get a sign-in page
        page = here.client.get(
            f"/surveys/{published.id}?round={CLOSED}", headers=here.bearer("analyst")
        ).text
    assert "the line is the best estimate" in page
    assert page.count('<th scope="row">50 %</th>') == 1
    assert page.count('<rect class="bar"') >= 16


def test_the_curve_s_band_holds_between_its_points() -> None:
    """The band is made of steps, and the curve rises.

    Between two points, the lower limit is that of the first point and the upper limit that of the
    second.
    """
    points = [
        Point(at, 0.5, 0.4, 0.6, 0.5, 0.5, low, high, middle)
        for at, low, middle, high in [(0, 0.0, 0.1, 0.2), (5, 0.3, 0.4, 0.6), (10, 1.0, 1.0, 1.0)]
    ]
    first, second = curve(Distribution(tuple(points), ())).steps
    assert first.end == second.start
    height = CURVE_BOTTOM - CURVE_TOP
    assert first.bottom == CURVE_BOTTOM
    assert first.top == pytest.approx(CURVE_BOTTOM - 0.6 * height)
    assert second.top == CURVE_TOP
    assert second.bottom == pytest.approx(CURVE_BOTTOM - 0.3 * height)


def weighed(here: World, *numbers: int, **changes: object) -> bool:
    """Return whether an earlier round changes the distribution of the last of these rounds."""
    published = here.publish(until_spring(COARSE, minimum_reports=100, **changes))
    steps = published.survey.questions[0].mechanism.answers
    for period in numbers:
        add_round(here.store, published, period, [[30_000, *[0] * (steps - 1)]])
    tallies = here.store.tallies(published.sequence)
    every, alone = (survey_results(published, read, NOW) for read in (tallies, tallies[-1:]))
    return of(every, numbers[-1]) != of(alone, numbers[-1])


def test_an_earlier_round_weighs_a_distribution_if_neither_can_change(here: World) -> None:
    """Not in an open round, and not with the same latched reports."""
    assert weighed(here, 683, 684, grace_days=2)
    assert not weighed(here, 684, 685, grace_days=2), "it is February, so this round is open"
    latched: dict[str, object] = {"repeat": "latched", "repeat_rounds": 2, "grace_days": 2}
    assert not weighed(here, 683, 684, **latched)
