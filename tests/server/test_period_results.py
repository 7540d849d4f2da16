"""Periods in results: pooled rounds in JSON, CSV, the command and Python."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime

import msgspec
import numpy as np
import pytest

from deniable.server.analysis import open_results
from deniable.server.results import Results, SurveyEstimates, csv_chunks
from deniable.server.results.document import Period
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.periods import DIVISIONS, Division, divide
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.server.store.label_counts import LabelCounts
from deniable.shared.cli.command import main
from tests import survey_texts as texts
from tests.server.results_data import AFTER_GRACE, add_round, draw_cells, start_times
from tests.server.surveys import BIT, survey
from tests.server.world import World

pytestmark = pytest.mark.at(AFTER_GRACE)
DAILY: dict[str, object] = {
    "opens": date(2024, 10, 30), "closes": date(2024, 11, 19), "round": "day",
}  # fmt: skip
FIRST = 20_026  # 30 October 2024


def periods(here: World, published: PublishedSurvey, by: Division = "all") -> tuple[Period, ...]:
    return header(here, published, by).periods or ()


def header(here: World, published: PublishedSurvey, by: Division = "all") -> Results:
    tallies = here.store.tallies(published.sequence)
    events = here.store.annotations(published.sequence)
    return SurveyEstimates(published, tallies, AFTER_GRACE, annotations=events, by=by).header


def daily(here: World, days: dict[int, tuple[int, int]], **changes: object) -> PublishedSurvey:
    """Publish a bit and add people by answer for some of the days."""
    published = here.publish(survey(BIT, minimum_reports=100, **(DAILY | changes)))
    for day, (no, yes) in days.items():
        add_round(here.store, published, FIRST + day, [[no, yes]])
    return published


def test_start_times_rose_by_two_and_a_half_seconds_and_fell_again(here: World) -> None:
    before, slow, after = periods(here, start_times(here), "event")
    assert [period.reports for period in (before, slow, after)] == [13_500, 7_500, 10_500]
    assert [period.event for period in (slow, after)] == ["3.0 released", "3.0.1 released"]
    means = [period.questions["seconds"][0] for period in (before, slow, after)]
    assert [f"{row.estimate:.1f}" for row in means] == ["4.2", "6.6", "4.3"]
    assert slow.change is not None
    (change,) = slow.change.questions["seconds"]
    texts = [f"{n:.1f}" for n in (change.estimate, change.low_these, change.high_these)]
    assert texts == ["2.4", "1.8", "3.0"]
    assert change.low < change.low_these < change.high_these < change.high


def test_both_releases_are_located_without_their_events(here: World) -> None:
    changes = (header(here, start_times(here)).changes or {})["seconds"]
    assert [(change.day, change.direction) for change in changes] == [
        ("2024-11-08", "higher"), ("2024-11-13", "lower"),
    ]  # fmt: skip


def test_changes_in_a_cache_are_those_of_the_same_counts(here: World) -> None:
    """A series of forged rounds, or of other counts, has changes of its own."""
    cache, published = EstimateCache(), start_times(here)
    tallies = here.store.tallies(published.sequence)

    def located(shown: list[RoundTally]) -> list[str]:
        made = SurveyEstimates(published, shown, AFTER_GRACE, cache=cache).changes["seconds"]
        return [change.day for change in made]

    assert located(tallies) == located(tallies) == ["2024-11-08", "2024-11-13"]
    assert located(tallies[:12]) == ["2024-11-08"]


def test_a_period_has_the_estimates_of_all_its_reports(here: World) -> None:
    published = daily(here, {0: (900, 100), 1: (500, 500), 5: (40, 10)})
    (period,) = periods(here, published)
    tallies = here.store.tallies(published.sequence)
    total = sum(tallies[1:], tallies[0])
    row = period.questions["crashed"][0]
    alone = SurveyEstimates(published, [total], AFTER_GRACE).estimated([FIRST])[0]
    single = alone.questions["crashed"][0]
    assert (period.reports, period.rounds, row.reports) == (2_050, 3, 2_050)
    assert (row.estimate, row.low_these) == (single.estimate, single.low_these)
    assert row.low is not None
    assert single.low is not None
    assert row.low < single.low, "the same people may be in all three rounds"


def test_days_are_divided_by_weeks_months_and_events(here: World) -> None:
    published = start_times(here)
    events = header(here, published).annotations or ()
    numbers = range(FIRST, FIRST + 21)
    lengths = {
        by: [len(part) for part in divide(published.survey, numbers, by, events)]
        for by in DIVISIONS
    }
    assert lengths == {"week": [5, 7, 7, 2], "month": [2, 19], "event": [9, 5, 7], "all": [21]}


def test_rounds_that_share_one_report_count_once(here: World) -> None:
    published = daily(
        here,
        {0: (300, 200), 1: (310, 210), 6: (150, 150), 7: (160, 160)},
        repeat="latched", repeat_rounds=14,
    )  # fmt: skip
    first, second, *_ = periods(here, published, "week")
    assert (first.reports, first.rounds) == (520, 1)
    assert (second.reports, second.rounds, second.change) == (0, 0, None)
    (everything,) = periods(here, published)
    assert (everything.reports, everything.rounds) == (520, 1)


def test_a_period_names_its_forged_rounds(here: World) -> None:
    options = texts.choice(20, "unary", name="it", epsilon="2")
    published = here.publish(survey(options, minimum_reports=100, **DAILY))
    (asked,) = published.survey.questions
    rng = np.random.default_rng(3)
    for day in range(3):
        cells = draw_cells(asked, [1_000, *[0] * 19], rng)
        cells[-1] += 400 * (day == 1)
        with here.store.transaction() as transaction:
            transaction.add(published.sequence, RoundTally(FIRST + day, 1_000, cells))
    (period,) = periods(here, published)
    rounds = SurveyEstimates(published, here.store.tallies(published.sequence), AFTER_GRACE)
    forged = [one.round for one in rounds.estimated([*rounds.facts]) if one.warning]
    assert period.forged_rounds == tuple(forged) == (FIRST + 1,)
    assert period.warning == ("this period contains forged reports (2024-10-31); do not rely on it")


def test_one_question_of_several_is_pooled_among_those_who_were_asked(here: World) -> None:
    questions = texts.bit() + texts.bit("slow")
    published = here.publish(survey(questions, ask=1, minimum_reports=100, **DAILY))
    with here.store.transaction() as transaction:
        for day in range(4):
            cells = np.array([30, 20, 25, 25, 50, 50])
            transaction.add(published.sequence, RoundTally(FIRST + day, 100, cells))
    (period,) = periods(here, published)
    assert [period.questions[name][0].reports for name in ("crashed", "slow")] == [200, 200]
    drawn = period.questions["crashed"][0]
    alone = here.publish(survey(texts.bit(), name="alone", minimum_reports=100, **DAILY))
    tallies = [RoundTally(FIRST + day, 50, np.array([30, 20])) for day in range(4)]
    everyone = SurveyEstimates(alone, tallies, AFTER_GRACE, by="all").header.periods or ()
    asked = everyone[0].questions["crashed"][0]
    assert (drawn.estimate, drawn.low_these) == (asked.estimate, asked.low_these)
    assert drawn.low is not None
    assert asked.low is not None
    assert drawn.low > asked.low, "few people draw the same question in all four rounds"


def test_json_and_csv_have_the_periods_that_are_asked_for(here: World) -> None:
    published, analyst = start_times(here), here.bearer("analyst")
    address = f"/v1/surveys/{published.id}/results"
    reply = here.client.get(f"{address}?by=event&from=2024-11-08", headers=analyst)
    results = msgspec.json.decode(reply.data, type=Results)
    assert [period.reports for period in results.periods or ()] == [7_500, 10_500]
    assert len(results.rounds) == 12
    assert b'"periods"' not in here.client.get(address, headers=analyst).data
    assert here.client.get(f"{address}?by=year", headers=analyst).status_code == 400
    assert here.client.get(f"{address}?round=yesterday", headers=analyst).status_code == 400
    table = here.client.get(f"{address}.csv?by=event", headers=analyst).text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["until"] for row in rows] == ["2024-11-07", "2024-11-12", "2024-11-19"]
    assert rows[1]["event"] == "3.0 released"
    assert float(rows[1]["change_low_these"]) == pytest.approx(1.78, abs=0.01)


def test_the_command_shows_periods_and_compares_any_two(
    here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    published = start_times(here)
    place = ("results", "start-time", "--data", str(here.store.data))
    assert main([*place, "--by", "event"]) == 0
    shown = capsys.readouterr().out
    assert "8 – 12 Nov 2024 (3.0 released)" in shown
    assert "+2.4 s (+1.8 to +3.0)" in shown
    assert main([*place, "--round", "2024-11-08", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"][0]["round"] == 20_035
    period = ("--from", "2024-11-08", "--until", "2024-11-12")
    assert main([*place, *period, "--against", "2024-10-30..2024-11-07", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert (compared["round"], compared["last_round"]) == (20_035, 20_039)
    (row,) = compared["questions"]["seconds"]
    assert (round(row["low_these"], 2), round(row["high_these"], 2)) == (1.78, 3.0)
    assert main([*place, *period, "--against", "2024-11-01..2024-11-08"]) == 3
    assert "without a common round" in capsys.readouterr().err
    assert main([*place, "--round", "soon"]) == 2
    rule = ("--by", "event", "--until", "2024-11-12", "--fail-if", "seconds > 5.5")
    assert main([*place, *rule]) == 1, "the rule is judged over the newest period"
    assert "fails" in capsys.readouterr().err
    results = open_results(here.store.data, "start-time", by="event", first="2024-11-08")
    first, second = results.periods("seconds")
    assert repr(first).startswith("seconds, rounds 20035 to 20039: mean 6.57 s")
    assert second.change[0].high_these < 0
    assert published.name == "start-time"


def test_values_of_a_label_are_pooled_over_the_rounds_that_name_them(here: World) -> None:
    """A value with few reports in a round stays folded in the sum of rounds."""
    label = texts.label("platform", values=["ios", "web"])
    published = here.publish(survey(label + BIT, minimum_reports=20, **DAILY))
    with here.store.transaction() as transaction:
        for day, web in enumerate((300, 5, 400)):
            counts = {(0, b"\x00"): 500, (0, b"\x01"): web}
            labels = {key: np.array([n, n // 2, n - n // 2], np.int64) for key, n in counts.items()}
            cells = np.sum([*labels.values()], axis=0)[1:]
            named = LabelCounts(labels, published.label_key)
            tally = RoundTally(FIRST + day, 500 + web, cells, named)
            transaction.add(published.sequence, tally)
    (period,) = periods(here, published)
    by_value = {part.value: part.reports for part in period.labels or ()}
    assert by_value["web"] == 700


def test_the_csv_of_rounds_is_unchanged_without_periods(here: World) -> None:
    published = start_times(here)
    tallies = here.store.tallies(published.sequence)
    estimates = SurveyEstimates(published, tallies, AFTER_GRACE)
    assert "last_round" not in next(csv_chunks(estimates.header, estimates.rounds()))


def test_a_period_holds_at_every_look_until_all_its_reports_are_in_it(here: World) -> None:
    """Planned looks at a round are no planned looks at a sum that grows day by day."""
    published = daily(here, dict.fromkeys(range(21), (300, 200)), grace_days=14)
    tallies = here.store.tallies(published.sequence)

    def weeks(now: datetime) -> list[tuple[bool, float]]:
        made = SurveyEstimates(published, tallies, now, by="week").header.periods or ()
        return [(period.any_time, period.confidence) for period in made]

    assert weeks(datetime(2024, 11, 19, tzinfo=UTC)) == [(False, 0.975)] + 3 * [(True, 0.975)]
    assert weeks(AFTER_GRACE) == 4 * [(False, 0.975)]


@pytest.mark.parametrize(("looks", "shown"), [("twice", (True, 3, 1_500)), ("once", (False, 0, 0))])
def test_a_period_has_the_rounds_that_are_shown(
    here: World, looks: str, shown: tuple[bool, int, int]
) -> None:
    """The first two days are final, and the third has had its first look.

    A survey that is read once shows a period once: a sum that grows would be read again and again.
    """
    published = daily(here, dict.fromkeys(range(3), (300, 200)), looks=looks, grace_days=4)
    tallies = here.store.tallies(published.sequence)
    now = datetime(2024, 11, 5, 1, tzinfo=UTC)
    made = SurveyEstimates(published, tallies, now, by="all")
    (period,) = made.header.periods or ()
    assert (period.any_time, period.rounds, period.reports) == shown
