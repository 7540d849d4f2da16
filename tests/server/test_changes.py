"""Changes between rounds and between surveys, with intervals or with the reason for none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from itertools import product

import numpy as np
import pytest

from deniable.server.estimation.statements import Reading
from deniable.server.results import Round, survey_results
from deniable.server.results.answers import compared as compared_rounds
from deniable.server.results.estimate_cache import Counts, EstimateCache
from deniable.server.results.export import report_lines
from deniable.server.store import PublishedSurvey
from deniable.shared.cli.command import main
from tests import survey_texts as texts
from tests.server.estimation.single import statements
from tests.server.results_data import NOW, add_round, fill
from tests.server.surveys import BIT, survey, until_spring
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)


def rounds(here: World, published: PublishedSurvey, now: datetime = NOW) -> tuple[Round, ...]:
    return survey_results(published, here.store.tallies(published.sequence), now).rounds


def test_each_round_has_its_change_since_the_previous_one(here: World) -> None:
    first, second, third = rounds(here, fill(here))
    assert first.change is None
    assert second.change is not None
    assert third.change is not None
    assert (second.change.since, third.change.since) == (683, 684)
    for period, before in ((second, first), (third, second)):
        assert period.change is not None
        assert period.change.note is None
        for name, differences in period.change.questions.items():
            pairs = zip(period.questions[name], before.questions[name], differences, strict=True)
            for now, then, difference in pairs:
                assert now.estimate is not None
                assert then.estimate is not None
                assert difference.estimate == pytest.approx(now.estimate - then.estimate)
                assert difference.low < difference.estimate < difference.high


def test_between_closed_rounds_the_interval_about_these_people_is_narrower(here: World) -> None:
    after = datetime(2028, 1, 1, tzinfo=UTC)
    _, second, *_ = rounds(here, fill(here), after)
    assert second.change is not None
    for differences in second.change.questions.values():
        for difference in differences:
            assert difference.low < difference.low_these < difference.high_these < difference.high


def test_the_previous_round_is_the_last_one_with_reports(here: World) -> None:
    published = here.publish(until_spring(BIT, name="gap", minimum_reports=1))
    for number in (683, 685):
        add_round(here.store, published, number, [[50, 50]])
    by_number = {period.round: period.change for period in rounds(here, published)}
    assert by_number[684] is None
    assert by_number[685] is not None
    assert by_number[685].since == 683


def test_rounds_below_the_minimum_are_not_compared(here: World) -> None:
    published = here.publish(until_spring(BIT, name="few", minimum_reports=100))
    for number, people in ((683, 200), (684, 99), (685, 200)):
        add_round(here.store, published, number, [[people, 0]])
    for period in rounds(here, published)[1:]:
        assert period.change is not None
        assert period.change.questions == {}


def test_a_difference_with_an_open_round_holds_at_every_look() -> None:
    """Subtract one round's limit from the other's, each with half of the error probability.

    Between two closed rounds, the noise of both is combined instead, which is narrower. All
    intervals describe the people who reported.
    """
    (asked,) = survey(BIT, minimum_reports=1).questions
    kinds = [
        [Counts(np.array([600, yes]), 600 + yes, Reading(any_time=looks)) for yes in (400, 500)]
        for looks in (False, True)
    ]
    widths, lows = {}, {}
    for now, then in product((0, 1), repeat=2):
        [(found,)] = compared_rounds(
            EstimateCache(), asked, [kinds[now][0]], asked, [kinds[then][1]]
        )
        widths[now, then] = found.high_these - found.low_these
        lows[now, then] = found.low_these
    assert widths[0, 0] < min(widths[0, 1], widths[1, 0])
    assert max(widths[0, 1], widths[1, 0]) < widths[1, 1]
    half = [
        statements(asked, kinds[1][n].cells, kinds[1][n].reports, 0.975, looks=True).these
        for n in (0, 1)
    ]
    assert lows[1, 1] == half[0][0][0] - half[1][1][0]


def test_rounds_that_share_a_latched_report_are_not_compared(here: World) -> None:
    latched = survey(
        texts.bit(), repeat="latched", repeat_rounds=2, minimum_reports=1, closes=date(2027, 3, 31)
    )
    published = here.publish(latched)
    for number in (683, 684, 685):
        add_round(here.store, published, number, [[50, 50]])
    _, same, other = rounds(here, published)
    assert same.change is not None
    assert "contain the same reports" in (same.change.note or "")
    assert same.change.questions == {}
    assert other.change is not None
    assert other.change.questions["crashed"]  # a new draw of noise


def compared(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(["results", *command]) == 0
    return capsys.readouterr().out


def test_two_surveys_are_compared(here: World, capsys: pytest.CaptureFixture[str]) -> None:
    for name, yes in (("old", 2_000), ("new", 4_000)):
        published = here.publish(until_spring(BIT, name=name, minimum_reports=100))
        add_round(here.store, published, 683, [[10_000 - yes, yes]])
    place = ("--data", str(here.store.data))
    said = compared(capsys, "new", "--against", "old", *place)
    assert said.startswith("new, round 683, compared with old, round 683")
    found = json.loads(compared(capsys, "new", "--against", "old", "--json", *place))
    (row,) = found["questions"]["crashed"]
    assert row["low"] < row["low_these"] < 0.2 < row["high_these"] < row["high"]
    assert (found["name"], found["against_name"]) == ("new", "old")


@pytest.mark.parametrize(
    ("other", "words"),
    [("app-health", "cannot be compared with itself"), ("empty", "no round with enough reports")],
)
def test_incomparable_surveys_are_refused(
    here: World, capsys: pytest.CaptureFixture[str], other: str, words: str
) -> None:
    fill(here)
    here.publish(until_spring(BIT, name="empty"))
    command = ["results", "app-health", "--against", other, "--data", str(here.store.data)]
    assert main(command) != 0
    assert words in capsys.readouterr().err


def test_the_command_prints_clear_changes_and_folds_the_rest(here: World) -> None:
    options = [f"option {number}" for number in range(50)]
    asked = texts.choice(options, "k-randomized-response", name="it", epsilon="2")
    published = here.publish(until_spring(asked, name="many", minimum_reports=100))
    add_round(here.store, published, 683, [[5_000, 5_000, *[0] * 48]])
    results = survey_results(published, here.store.tallies(published.sequence), NOW)
    text = "\n".join(report_lines(results))
    assert "option 0" in text
    assert "48 others: too rare to measure (below" in text
    assert "Forgery check: passed (p: it" in text
    assert results.rounds[0].fit["it"].sentence.startswith("Honest reports can give these counts")
