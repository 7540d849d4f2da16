"""Charts: positions of the marks, and headlines."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest
from jinja2 import Environment, PackageLoader

from deniable.server.estimation.statements import Statement
from deniable.server.pages import charts
from deniable.server.pages.charts import (
    LEFT,
    LINE_HEIGHT,
    MAX_MARKS,
    MAX_NAMED_EVENTS,
    MAX_NAMES,
    MAX_STRETCH,
    PLOT,
    RIGHT,
    TREND_TOP,
    RoundFigures,
    Trend,
    trends,
)
from deniable.server.planning.planned_question import read
from deniable.server.results.display import (
    STYLES,
    Figures,
    difference_figures,
    figures,
    known_figures,
)
from deniable.server.results.document import Difference, Row
from deniable.server.results.sentences import change, one_label, privacy_cost, several_labels
from deniable.shared.survey.kinds.base import Statistic

LOADER = PackageLoader("deniable.server.pages")


def made(label: str, low: float, estimate: float, high: float) -> Row:
    return Row(
        label=label, estimate=estimate, low=low, high=high, low_these=low, high_these=high,
        low_all=low, high_all=high, standard_error=0.1, reports=100, consistent=estimate,
        note=None,
    )  # fmt: skip


def row(
    label: str, low: float, estimate: float, high: float, statistic: Statistic = "share"
) -> Figures:
    found = figures(made(label, low, estimate, high), statistic, "")
    assert found is not None
    return found


def over(*rows: Figures) -> list[RoundFigures]:
    """Return the rounds of one label."""
    return [RoundFigures(number, f"round {number}", row) for number, row in enumerate(rows)]


def only(*rows: Figures) -> Trend:
    (found,) = trends([over(*rows)])
    return found


def across(value: float, low: float, high: float) -> float:
    return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)


@pytest.mark.parametrize(
    ("figures", "least", "low", "high", "statistic"),
    [
        ((0.2, 0.3, 0.4), (0, 1), 0, 1, "share"),  # the axis of a bit is its whole range
        ((0.01, 0.02, 0.03), (0, 0.1), 0, 0.1, "share"),  # the axis of a choice is at least a tenth
        ((0.2, 0.3, 0.4), (0, 0.1), 0, 0.4, "share"),  # an axis includes the ends of all intervals
        ((-0.2, -0.1, 0.4), (0, 0.1), -0.2, 0.4, "share"),
        ((30.0, 40.0, 50.0), (-10, 120), -10, 120, "mean"),
        ((-30.0, 40.0, 150.0), (-10, 120), -30, 150, "mean"),
    ],
)
def test_an_axis_covers_the_question_s_range_and_every_interval(
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


def test_bars_begin_at_zero_if_zero_has_a_meaning() -> None:
    share = charts.chart([row("a", -0.1, 0.1, 0.4)], (0, 0.1))
    mean = charts.chart([row("a", -0.1, 0.1, 0.4, "mean")], (0, 0.1))
    assert share is not None
    assert mean is not None
    assert share.zero == pytest.approx(across(0, -0.1, 0.4), abs=1e-3)
    assert mean.zero is None


def test_ticks_are_round_numbers_in_the_unit_of_the_statistic() -> None:
    share = charts.chart([row("a", 0.2, 0.3, 0.4)], (0, 1))
    mean = charts.chart([row("a", 20, 30, 40, "mean")], (0, 120))
    assert share is not None
    assert mean is not None
    assert [tick.text for tick in share.ticks] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert [tick.text for tick in mean.ticks] == ["0", "20", "40", "60", "80", "100", "120"]
    assert [tick.anchor for tick in mean.ticks][::6] == ["start", "end"]


def test_a_long_list_shows_only_options_clearly_above_zero() -> None:
    few = [row(f"{n}", n / 100 - 0.01, n / 100, n / 100 + 0.01) for n in range(MAX_MARKS)]
    assert charts.picked(few) == (few, ())
    for clear, drawn in ((0, 0), (7, 7), (30, MAX_MARKS)):
        rows = [row(f"{n}", 0.01 * (n >= 40 - clear), n / 100, 1) for n in range(40)]
        shown, others = charts.picked(rows)
        assert [text.label for text in shown] == [f"{39 - n}" for n in range(drawn)]
        assert len(others) == 40 - drawn


def test_the_noise_is_shown_for_all_rows_of_a_figure_or_for_none() -> None:
    """An interval for the respondents can be wider than the one for the population, by chance."""
    inside = row("a", 0.2, 0.3, 0.4)
    outside = replace(inside, low_these=0.19)
    for rows, shows in (([inside] * 3, True), ([inside, outside, inside], False)):
        chart = charts.chart(rows, (0, 1))
        assert chart is not None
        assert [bool(mark.these) for mark in chart.marks] == [shows] * 3
        assert [bool(point.these) for point in only(*rows).points] == [shows] * 3


def test_a_forged_round_is_marked_without_its_estimate() -> None:
    honest, forged = row("a", 0.2, 0.3, 0.4), row("a", 0.85, 0.9, 0.95)
    rounds = over(honest, forged, honest, honest)
    (shown,), (plain,) = trends([rounds]), trends([over(*[honest] * 4)])
    assert shown.points[0].at != plain.points[0].at, "the twin: it is not marked yet"
    rounds[1] = rounds[1]._replace(forged=True)
    (shown,) = trends([rounds])
    assert [point.at for point in shown.points] == [plain.points[0].at] * 3
    assert [mark.across for mark in shown.forged] == [plain.points[1].across]
    assert trends([[one._replace(forged=True) for one in rounds]]) == ()


def test_a_single_mark_needs_no_name() -> None:
    one = charts.chart([row("yes", 0.2, 0.3, 0.4)], (0, 1))
    two = charts.chart([row("a", 0.2, 0.3, 0.4), row("b", 0.2, 0.3, 0.4)], (0, 1))
    assert one is not None
    assert two is not None
    assert (one.named, two.named) == (False, True)
    assert two.height > 2 * one.height - 24 * 2


def test_long_texts_are_shortened_for_a_phone() -> None:
    source = '{% import "charts.html" as charts %}{{ charts.words(text, "", "") }}'
    template = Environment(loader=LOADER, autoescape=True).from_string(source)

    def drawn(text: str) -> list[str]:
        return re.findall(r">([^<>]*\w[^<>]*)<", template.render(text=text))

    assert drawn("short") == ["short"]
    whole = "x " * 35 + "x"
    assert drawn(whole) == [whole, "x " * 29 + "x…", whole, "x " * 9 + "x…"]


def test_without_an_estimate_nothing_is_drawn() -> None:
    assert charts.chart([], (0, 1)) is None
    assert trends([over(row("a", 0, 1, 2))]) == ()


@pytest.mark.parametrize(("statistic", "bottom"), [("share", 0.0), ("mean", 0.2 - 0.04)])
def test_the_axis_of_a_trend_fits_its_intervals_and_for_shares_includes_zero(
    statistic: Statistic, bottom: float
) -> None:
    """The axis extends above the intervals by a tenth of their reach.

    The axis of a mean also extends below them by a tenth.
    """
    trend = only(row("a", 0.2, 0.3, 0.4, statistic), row("a", 0.4, 0.5, 0.6, statistic))
    top = 0.64

    def down(value: float) -> float:
        return TREND_TOP + PLOT - (value - bottom) / (top - bottom) * PLOT

    for point, values in zip(trend.points, ((0.3, 0.2, 0.4), (0.5, 0.4, 0.6)), strict=True):
        wanted = [down(value) for value in values]
        assert [point.at, point.low, point.high] == pytest.approx(wanted, abs=1e-3)
        assert point.these == pytest.approx(wanted[1:], abs=1e-3)
    assert trend.points[0].across < trend.points[1].across <= RIGHT
    assert not is_cut(trend)


def is_cut(trend: Trend) -> bool:
    return any(point.off or any(point.cut) for point in trend.points)


def test_an_interval_much_wider_than_usual_is_cut_and_marked() -> None:
    usual = [row("a", 0.3, 0.4, 0.5)] * 6
    wide = row("a", 0.95 - 0.1 * MAX_STRETCH - 0.01, 0.95, 0.95 + 0.1 * MAX_STRETCH + 0.01)
    trend = only(*usual, wide)
    *_, last = trend.points
    assert last.cut == (False, True)
    assert last.off
    assert last.at == last.high == trend.top
    assert is_cut(trend)
    assert trend.points[0].at == only(*usual).points[0].at
    near = row("a", 0.4 - 0.1 * MAX_STRETCH, 0.4, 0.4 + 0.1 * MAX_STRETCH)
    assert not is_cut(only(*usual, near)), "an interval of this width still fits the scale"


def test_panels_share_a_scale_and_each_has_its_label() -> None:
    low = over(row("a", 0.0, 0.05, 0.1), row("a", 0.0, 0.05, 0.1))
    high = over(row("b", 0.7, 0.8, 0.9), row("b", 0.7, 0.8, 0.9))
    first, second = trends([low, high])
    assert (first.label, second.label) == ("a", "b")
    assert first.ticks == second.ticks
    assert first.points[0].at > second.points[0].at
    assert first.height < only(row("a", 0, 1, 2), row("a", 0, 1, 2)).height


def test_rounds_are_placed_in_proportion_to_time() -> None:
    """A round without reports leaves a gap."""
    rounds = [RoundFigures(n, f"{n}", row("a", 0.2, 0.3, 0.4)) for n in (10, 11, 14)]
    (trend,) = trends([rounds])
    first, second, last = (point.across for point in trend.points)
    assert (second - first) / (last - first) == pytest.approx(0.25, abs=1e-4)


def test_a_long_trend_names_only_its_first_and_last_round() -> None:
    trend = only(*[row("a", 0.2, 0.3, 0.4)] * 10)
    assert [name.text for name in trend.names] == ["round 0", "round 4", "round 9"]
    assert len(trend.names) == MAX_NAMES == 3


def test_an_event_is_a_line_at_its_round_with_its_text_above() -> None:
    rounds = over(*[row("a", 0.2, 0.3, 0.4)] * 10)
    happened = {-1: "before", 2: "early", 8: "late"} | {n: f"{n}" for n in (3, 4, 5)}
    (trend,) = trends([rounds], happened)
    assert [line.words for line in trend.lines] == ["late", "5", "4", "3", "early"]
    assert [line.at for line in trend.lines] == [trend.points[n].across for n in (8, 5, 4, 3, 2)]
    assert (trend.lines[0].anchor, trend.lines[-1].anchor) == ("end", "start")
    assert [line.y is None for line in trend.lines] == [False] * MAX_NAMED_EVENTS + [True]
    assert trend.top == TREND_TOP + MAX_NAMED_EVENTS * LINE_HEIGHT
    panels = trends([rounds, rounds], happened)
    assert all(line.y is None for panel in panels for line in panel.lines)


def test_all_numbers_of_a_column_have_equally_many_decimals() -> None:
    """The number of decimals suits the median margin."""
    rows = [made("a", 0.1, 0.2, 0.3), made("b", 0.11, 0.12, 0.13), made("c", 0.2, 0.3011, 0.4)]
    assert [figure.whole for figure in known_figures(rows, "share", "")] == ["20 %", "12 %", "30 %"]


def test_noise_alone_is_shown_only_within_the_interval() -> None:
    wide = row("a", 0.2, 0.3, 0.4)
    assert wide.noise_alone == (0.2, 0.4)
    apart = msgspec.structs.replace(made("a", 0.2, 0.3, 0.4), low_these=0.19)
    (found,) = known_figures([apart], "share", "")
    assert found.noise_alone is None
    assert found.these == "19 to 40"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", 0.1, 0.3, 0.5), ("b", -0.1, 0.0, 0.05)], "a is first (30 %)."),
        (
            [("a", 0.6, 0.7, 0.8), ("b", 0.2, 0.3, 0.4), ("c", 0, 0, 0.1)],
            "a is first (70 %), b second (30 %).",
        ),
        (
            [("a", 0.2, 0.3, 0.4), ("b", 0.3, 0.35, 0.4)],
            "b and a lead. The data cannot say which is ahead.",
        ),
        (
            [(f"{n}", 0.1, 0.2, 0.3) for n in range(5)],
            "Too close to call: any of 5 options may be first.",
        ),
        (
            [("a", -0.1, 0.3, 0.5), ("b", -0.1, 0.1, 0.2)],
            "No option stands out from zero yet.",
        ),
        (
            [(f"{n}", 0.1 - 0.01 * n, 0.2, 0.3) for n in range(30)],
            "10 of 30 options are clearly above zero.",
        ),
    ],
)
def test_the_headline_names_the_leader_if_the_intervals_allow(
    rows: list[tuple[str, float, float, float]], words: str
) -> None:
    assert several_labels([row(*arguments) for arguments in rows], 20) == words


def test_overlapping_intervals_leave_the_lead_open() -> None:
    """The second estimate is clearly below the leader's interval, but its interval overlaps.

    Twin: an interval that ends at the estimate.
    """
    leader, rival = row("a", 0.30, 0.40, 0.50), row("b", 0.10, 0.20, 0.31)
    assert several_labels([rival, leader], 20) == (
        "a and b lead. The data cannot say which is ahead."
    )
    apart = row("b", 0.10, 0.20, 0.20)
    assert several_labels([apart, leader], 20) == "a is first (40 %)."


def test_a_single_label_is_described_in_a_sentence() -> None:
    assert one_label(row("yes", 0.052, 0.08, 0.108)) == "8.0 % say yes, between 5.2 and 10.8."
    mean = row("mean", 33.5, 34.2, 34.9, "mean")
    assert one_label(mean) == "The mean is 34.20, between 33.50 and 34.90."


@pytest.mark.parametrize(
    ("low", "estimate", "high", "words"),
    [
        (0.003, 0.021, 0.039, "2.1 points higher since May: 0.3 to 3.9 higher."),
        (-0.039, -0.021, -0.003, "2.1 points lower since May: 0.3 to 3.9 lower."),
        (-0.004, 0.01, 0.024,
         "No clear change since May (difference: −0.4 to +2.4 points)."),
    ],
)  # fmt: skip
def test_a_change_is_stated_only_if_it_is_clear(
    low: float, estimate: float, high: float, words: str
) -> None:
    found = Difference(
        label="yes", estimate=estimate, low=low, high=high, low_these=low, high_these=high
    )
    (shown,) = difference_figures([found], "share", "")
    assert change(shown, "May") == words


def test_every_statistic_has_a_style() -> None:
    assert STYLES["share"].text(0.123, 1) == "12.3"
    assert STYLES["mean"].text(0.123, 1) == "0.1"
    assert (STYLES["share"].behind(""), STYLES["mean"].behind("min")) == (" %", " min")
    assert STYLES["share"].margin(0.0391) == "± 3.9 points"
    assert STYLES["share"].margin(0.00998) == "± 1.0 points"
    assert STYLES["share"].margin(0.01) == "± 1 point"
    assert STYLES["mean"].margin(1.2345, "min") == "± 1.23 min"


@pytest.mark.parametrize("asked_one_of", [1, 3])
def test_the_privacy_cost_is_about_the_people_of_the_interval(asked_one_of: int) -> None:
    """At ε 1/2 the noise of n answers has n times the variance e^ε / (e^ε - 1)^2 = 3.917.

    At a share f the answers are worth f (1 - f) / (f (1 - f) + 3.917) times as many open answers,
    which would have the root of that times the margin. At both ends, 5 and 11 %, that is .01198 and
    .02439. A margin of one point at 11 % needs 1.96² (.0979 + 3.917) / .01² people.
    """
    question = read({"name": "crashed", "kind": "bit", "epsilon": "0.5"})
    words = privacy_cost(question, Statement(0.08, 0.05, 0.11, 20_000), "", asked_one_of)
    people = {1: "150,000", 3: "460,000"}[asked_one_of]
    assert words == (
        "Asked openly, these 20,000 people would have given ± 0.47 points; deniably, it is ± 3 "
        "points. Their answers are worth 240 to 490 asked openly. "
        f"For ± 1 point you need about {people} people."
    )


def test_the_privacy_cost_has_the_looks_of_the_interval() -> None:
    """Any-time intervals need more people for the same margin. Twin: one look."""
    question = read({"name": "crashed", "kind": "bit", "epsilon": "0.5"})
    mean = read({"name": "minutes", "kind": "number", "low": 0, "high": 100, "epsilon": "1"})
    yes = Statement(0.01, -0.02, 0.04, 20_000)
    needed = []
    for looks in (False, True):
        words = privacy_cost(question, replace(yes, looks=looks))
        (people,) = re.findall(r"about ([\d,]+) people", words)
        needed.append(int(people.replace(",", "")))
    assert needed[1] > 3 * needed[0]
    alone = privacy_cost(question, replace(yes, reports=1))
    assert alone.startswith("Asked openly, this person would have given")
    assert "are worth at most 190 asked openly" in privacy_cost(question, yes)
    below = Statement(-0.03, -0.04, -0.02, 20_000)
    assert "are worth less than one answer" in privacy_cost(question, below)
    assert "are worth 1,500 asked openly" in privacy_cost(mean, Statement(32, 30, 34, 20_000))
    browser = read({"name": "it", "kind": "choice", "epsilon": "1", "options": ["a", "b", "c"]})
    assert " points for b; deniably" in privacy_cost(browser, yes, "b")
