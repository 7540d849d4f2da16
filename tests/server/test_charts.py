"""Where the marks of a chart go."""

from __future__ import annotations

import pytest

from deniable.server.pages import charts
from deniable.server.pages.charts import (
    LEFT,
    MOST_MARKS,
    MOST_NAMES,
    RIGHT,
    TREND_BOTTOM,
    TREND_TOP,
)
from deniable.server.results.display import STYLES, Figures, figures
from deniable.server.results.document import Row
from deniable.shared.survey.kinds import Statistic


def row(
    label: str, low: float, estimate: float, high: float, statistic: Statistic = "share"
) -> Figures:
    found = figures(
        Row(
            label=label, estimate=estimate, low=low, high=high, low_these=low, high_these=high,
            low_all=low, high_all=high, standard_error=0.1, reports=100, consistent=estimate,
            note=None,
        ),
        statistic,
    )  # fmt: skip
    assert found is not None
    return found


def across(value: float, low: float, high: float) -> float:
    return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)


@pytest.mark.parametrize(
    ("figures", "least", "low", "high", "statistic"),
    [
        ((0.2, 0.3, 0.4), (0, 1), 0, 1, "share"),  # a bit shows all that is possible
        ((0.01, 0.02, 0.03), (0, 0.1), 0, 0.1, "share"),  # a choice at least a tenth
        ((0.2, 0.3, 0.4), (0, 0.1), 0, 0.4, "share"),  # and as far as its intervals reach
        ((-0.2, -0.1, 0.4), (0, 0.1), -0.2, 0.4, "share"),
        ((30.0, 40.0, 50.0), (-10, 120), -10, 120, "mean"),
        ((-30.0, 40.0, 150.0), (-10, 120), -30, 150, "mean"),
    ],
)
def test_an_axis_shows_what_the_question_wants_and_every_interval(
    figures: tuple[float, float, float],
    least: tuple[float, float],
    low: float,
    high: float,
    statistic: Statistic,
) -> None:
    chart = charts.chart([row("a", *figures, statistic)], least)
    assert chart is not None
    (mark,) = chart.marks
    wanted = [across(value, low, high) for value in figures]
    assert [mark.low, mark.at, mark.high] == pytest.approx(wanted, abs=1e-3)
    assert all(LEFT <= tick.at <= RIGHT for tick in chart.ticks)


def test_bars_begin_at_zero_where_zero_means_something() -> None:
    share = charts.chart([row("a", -0.1, 0.1, 0.4)], (0, 0.1))
    mean = charts.chart([row("a", -0.1, 0.1, 0.4, "mean")], (0, 0.1))
    assert share is not None
    assert mean is not None
    assert share.zero == pytest.approx(across(0, -0.1, 0.4), abs=1e-3)
    assert mean.zero is None


def test_ticks_are_round_numbers_in_the_statistic_s_own_measure() -> None:
    share = charts.chart([row("a", 0.2, 0.3, 0.4)], (0, 1))
    mean = charts.chart([row("a", 20, 30, 40, "mean")], (0, 120))
    assert share is not None
    assert mean is not None
    assert [tick.text for tick in share.ticks] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert [tick.text for tick in mean.ticks] == ["0", "20", "40", "60", "80", "100", "120"]
    assert [tick.anchor for tick in mean.ticks][::6] == ["start", "end"]


@pytest.mark.parametrize("labels", [MOST_MARKS, MOST_MARKS + 1])
def test_of_more_labels_than_have_room_the_highest_are_drawn(labels: int) -> None:
    rows = [row(f"option {n}", n / 100 - 0.01, n / 100, n / 100 + 0.01) for n in range(labels)]
    chart = charts.chart(rows, (0, 0.1))
    assert chart is not None
    assert MOST_MARKS == 20
    assert len(chart.marks) == MOST_MARKS
    assert chart.left_out == labels - MOST_MARKS
    drawn = {mark.text.label for mark in chart.marks}
    assert drawn == {f"option {n}" for n in range(labels - MOST_MARKS, labels)}


def test_without_an_estimate_nothing_is_drawn() -> None:
    assert charts.chart([], (0, 1)) is None
    assert charts.trend([("Dec", row("a", 0, 1, 2))]) is None


@pytest.mark.parametrize(("statistic", "bottom"), [("share", 0.0), ("mean", 0.2 - 0.04)])
def test_a_trend_shows_changes_and_for_shares_also_zero(
    statistic: Statistic, bottom: float
) -> None:
    """Its axis ends a tenth of the intervals' reach above them; a mean's begins so much below."""
    rounds = [
        ("Dec", row("a", 0.2, 0.3, 0.4, statistic)),
        ("Jan", row("a", 0.4, 0.5, 0.6, statistic)),
    ]
    trend = charts.trend(rounds)
    assert trend is not None
    top = 0.64

    def down(value: float) -> float:
        return TREND_BOTTOM + (value - bottom) / (top - bottom) * (TREND_TOP - TREND_BOTTOM)

    for point, values in zip(trend.points, ((0.3, 0.2, 0.4), (0.5, 0.4, 0.6)), strict=True):
        wanted = [down(value) for value in values]
        assert [point.y, point.y_low, point.y_high] == pytest.approx(wanted, abs=1e-3)
    assert trend.points[0].at < trend.points[1].at <= RIGHT


def test_under_a_long_trend_the_first_and_the_last_round_are_named() -> None:
    rounds = [(f"round {n}", row("a", 0.2, 0.3, 0.4)) for n in range(10)]
    trend = charts.trend(rounds)
    assert trend is not None
    assert [name.text for name in trend.names] == ["round 0", "round 4", "round 9"]
    assert len(trend.names) == MOST_NAMES == 3


def test_every_statistic_has_a_style() -> None:
    assert STYLES["share"].text(0.123, 1) == "12.3"
    assert STYLES["mean"].text(0.123, 1) == "0.1"
    assert (STYLES["share"].behind(""), STYLES["mean"].behind("min")) == (" %", " min")
    assert STYLES["share"].expected(0.0391, "") == "± 3.9 points"
    assert STYLES["mean"].expected(1.2345, "min") == "± 1.23 min"
