"""Smoothed trends in results and on the page, for a survey that states `most_change`."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta

import msgspec
import numpy as np
import pytest

from deniable.server.analysis import open_results
from deniable.server.estimation.statements import CONFIDENCE
from deniable.server.estimation.trend import LENGTHS
from deniable.server.results import Results, SurveyEstimates, csv_chunks
from deniable.server.results.advice import describe
from deniable.server.results.document import Smoothed
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.cli.command import main
from deniable.shared.survey.document import parse_document, render_document
from tests import survey_texts as texts
from tests.server.results_data import AFTER_GRACE, add_round, start_times
from tests.server.surveys import BIT, survey
from tests.server.test_period_pages import page, words
from tests.server.world import World

pytestmark = pytest.mark.at(AFTER_GRACE)
DAYS = 20
FIRST = 20_026  # 30 October 2024


def daily(here: World, questions: str = BIT, **changes: object) -> PublishedSurvey:
    """Publish a survey of 20 days, with 1,000 people a day of whom 300 have the last answer."""
    opens = date(2024, 10, 30)
    days = {"opens": opens, "closes": opens + timedelta(DAYS - 1), "round": "day"}
    asked = survey(
        questions, **({"minimum_reports": 100, "most_change": "0.5 points"} | days | changes)
    )
    published = here.publish(asked)
    options = len(published.survey.questions[0].labels) or 1
    people = [700, 300] if options < 2 else [700, *[0] * (options - 2), 300]
    for day in range(DAYS):
        add_round(here.store, published, FIRST + day, [people])
    return published


def trend(
    here: World, published: PublishedSurvey, now: datetime = AFTER_GRACE
) -> tuple[Smoothed, ...]:
    tallies = here.store.tallies(published.sequence)
    made = SurveyEstimates(published, tallies, now).trends
    return made[published.survey.questions[0].name]


def test_each_round_has_a_smoothed_estimate_from_the_rounds_before_it(here: World) -> None:
    published = daily(here)
    found = trend(here, published)
    tallies = here.store.tallies(published.sequence)
    assert [row.round for row in found] == [*range(FIRST, FIRST + DAYS)]
    assert [row.rounds for row in found[:4]] == [1, 2, 3, 4]
    assert max(row.rounds for row in found) in LENGTHS
    last = found[-1]
    pooled = sum(tallies[-last.rounds + 1 :], tallies[-last.rounds])
    (alone,) = SurveyEstimates(published, [pooled], AFTER_GRACE).estimated([pooled.round])
    assert last.estimate == alone.questions["crashed"][0].estimate
    (raw,) = SurveyEstimates(published, tallies, AFTER_GRACE).estimated([last.round])
    (row,) = raw.questions["crashed"]
    assert row.low is not None
    assert row.high is not None
    assert row.low_these is not None
    assert row.high_these is not None
    assert last.high_these - last.low_these < 0.7 * (row.high_these - row.low_these)
    assert last.high - last.low < row.high - row.low
    assert found[0].low == row_of(published, tallies[0]).low


def row_of(published: PublishedSurvey, tally: RoundTally) -> Smoothed:
    (made,) = SurveyEstimates(published, [tally], AFTER_GRACE).trends["crashed"]
    return made


def test_a_larger_change_gives_a_shorter_window_and_a_wider_interval(here: World) -> None:
    made = [
        trend(here, daily(here, most_change=f"{points} points"))[-1]
        for points in ("0.05", "0.5", "5")
    ]
    assert [row.rounds for row in made] == sorted((row.rounds for row in made), reverse=True)
    widths = [row.high_these - row.low_these for row in made]
    assert widths == sorted(widths)


def test_intervals_hold_at_every_look_while_reports_arrive(here: World) -> None:
    published = daily(here)
    now = datetime(2024, 11, 19, tzinfo=UTC)
    early, final = trend(here, published, now)[-1], trend(here, published)[-1]
    assert early.estimate == final.estimate
    assert early.low < final.low < final.high < early.high


def test_a_survey_that_is_read_once_has_a_trend_of_its_final_rounds(here: World) -> None:
    published = daily(here, looks="once", grace_days=4)
    shown = trend(here, published, datetime(2024, 11, 10, 1, tzinfo=UTC))
    assert shown[-1].round == FIRST + 6, "the day whose grace ended on 10 November"


def test_rounds_with_forged_reports_are_left_out(here: World) -> None:
    options = texts.choice(20, "unary", name="it", epsilon="2")
    published = daily(here, options)
    bad = np.zeros(20, np.int64)
    bad[-1] = 400
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(FIRST + 10, 0, bad))
    assert FIRST + 10 not in {row.round for row in trend(here, published)}


def test_a_survey_without_the_key_has_no_trend(here: World) -> None:
    published = start_times(here)
    estimates = SurveyEstimates(published, here.store.tallies(published.sequence), AFTER_GRACE)
    assert estimates.trends == {}
    assert b"trends" not in msgspec.json.encode(estimates.header)
    assert "smoothed" not in next(csv_chunks(estimates.header, ()))
    html = page(here, f"/surveys/{published.id}?by=round")
    assert "Smoothed" not in html
    assert "stay the same" in words(page(here, f"/surveys/{published.id}"))


def test_vectors_texts_and_long_lists_have_no_trend(here: World) -> None:
    published = daily(here, texts.choice(30, name="it"))
    assert trend(here, published) == ()


def test_json_csv_and_python_have_the_trend(here: World) -> None:
    published, analyst = start_times(here, most_change="1 points"), here.bearer("analyst")
    address = f"/v1/surveys/{published.id}/results"
    results = msgspec.json.decode(here.client.get(address, headers=analyst).data, type=Results)
    assert results.most_change == 1
    made = (results.trends or {})["seconds"]
    assert len(made) == 21
    table = here.client.get(f"{address}.csv", headers=analyst).text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert float(rows[-1]["smoothed_estimate"]) == made[-1].estimate
    assert int(rows[-1]["smoothed_rounds"]) == made[-1].rounds
    assert float(rows[-1]["smoothed_low_these"]) == made[-1].low_these
    local = open_results(here.store.data, "start-time")
    assert local.trend("seconds")[-1] == made[-1]


def test_the_command_states_the_model(here: World, capsys: pytest.CaptureFixture[str]) -> None:
    published = start_times(here, most_change="1 points")
    place = ("results", "start-time", "--data", str(here.store.data))
    assert main([*place, "--round", "2024-11-12"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    (row,) = (row for row in trend(here, published) if row.round == FIRST + 13)
    assert f"Smoothed over {row.rounds} days, seconds: {row.estimate:.2f} s, between" in shown
    assert "if the true mean changes by at most 0.2 s a day." in shown
    assert main([*place, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["trends"]["seconds"]) == 21


def test_the_page_draws_a_band_next_to_the_raw_points(here: World) -> None:
    published = start_times(here, most_change="1 points")
    html = page(here, f"/surveys/{published.id}?by=round")
    text = words(html)
    assert "if the true mean changes by at most 0.2 s a day." in text
    assert html.count('<path class="bar"') == 1
    assert html.count('<circle class="point"') == 21, "the raw points remain"
    (area,) = (part for part in html.split('"') if part.startswith("M") and part.endswith("Z"))
    assert area.count("L") == 2 * 21 - 1
    assert "smoothed, 95 % interval" in text
    assert "Larger changes were found" not in text
    steady = start_times(here, most_change="0.1 points")
    text = words(page(here, f"/surveys/{steady.id}?by=round"))
    assert (
        "Larger changes were found: 8 Nov 2024, 13 Nov 2024. The band does not hold there." in text
    )
    events = words(page(here, f"/surveys/{steady.id}"))
    assert "change by at most 0.1 % of the range from one day to the next" in events


def test_the_page_of_periods_draws_the_band_of_the_respondents(here: World) -> None:
    """Twin: the page of rounds draws the wider band of the population."""
    published = start_times(here, most_change="1 points")
    heights = []
    for by, drawn in (("week", "band"), ("round", "bar")):
        html = page(here, f"/surveys/{published.id}?by={by}")
        (area,) = (part for part in html.split('"') if part.startswith("M") and part.endswith("Z"))
        assert f'<path class="{drawn}" d="{area}"/>' in html
        assert "smoothed, 95 % interval" in words(html)
        ends = [float(point.split()[1]) for point in area[1:-1].split("L")]
        assert len(ends) == 2 * 21
        heights.append(sum(ends[21:]) - sum(ends[:21]))
    (row,) = (row for row in trend(here, published) if row.round == FIRST + 20)
    text = words(page(here, f"/surveys/{published.id}?by=week"))
    assert f"between {row.low_these:.2f} and {row.high_these:.2f} s" in text
    assert heights[0] < heights[1]


def test_several_labels_have_a_band_each(here: World) -> None:
    published = daily(here, texts.choice(3, name="it"))
    html = page(here, f"/surveys/{published.id}")
    assert html.count('<path class="bar"') == 3
    assert "if the true share changes by at most 0.5 points a day." in words(html)


def test_the_key_is_kept_in_the_document_and_described(here: World) -> None:
    published = daily(here, most_change="0.25 points")
    document = render_document(published.survey)
    assert b'"most_change": "0.25 points"' in document
    assert parse_document(document).most_change == 0.25
    assert "at most 0.25 points (for a number: per cent" in "\n".join(describe(published.survey))
    assert "trends assume" not in "\n".join(describe(survey(BIT)))


def test_a_located_change_is_more_than_the_stated_change(here: World) -> None:
    """The step of 2.5 s in one day is a change at 0.02 s a day, and none at 4 s a day."""
    for points, expected in (("0.1 points", 2), ("20 points", 0)):
        published = start_times(here, most_change=points)
        tallies = here.store.tallies(published.sequence)
        changes = SurveyEstimates(published, tallies, AFTER_GRACE).changes["seconds"]
        assert len(changes) == expected
    assert CONFIDENCE == 0.95
