"""Charts of studies: every line and point is at its row's number, on the labelled axes."""

import json
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import matplotlib.axes
import matplotlib.figure
import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from deniable.server.estimation.statements import Reading
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import THESE, Z95, Estimator, Rows, Unit
from deniable.simulations.engine.figures import (
    LOOKS,
    distinct_looks,
    errors,
    price_curves,
)
from deniable.simulations.engine.presentation import error_tables
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.survey.survey_cells import people_needed
from deniable.simulations.studies.survey.survey_people import people_of
from deniable.simulations.studies.survey.survey_report import attack_figure, few, interval_figure

Z = NormalDist().inv_cdf(0.975)
LOCAL = Estimator("local", "one", "one of local", LOOKS[0])
CENTRAL = Estimator("central", "two", "two of central", LOOKS[1])
PERCENT = Unit("± points", 100 * Z95)
Points = list[tuple[float, float]]


def row(estimator: Estimator, people: int, exact: float) -> Row:
    return {
        "model": estimator.model, "estimator": estimator.name, "epsilon": "1", "people": people,
        "exact": exact, "measured": 1.21 * exact, "error": 0.1 * exact, "limit": exact / 4,
    }  # fmt: skip


def survey_row(label: str, truth: float, **more: str | float) -> Row:
    return {
        "question": "browser", "label": label, "kind": "choice", "statistic": "share",
        "people": 1_000, "truth": truth,
        "low": truth - 0.1, "high": truth + 0.3, "half_width": 0.2, "covered": 0.95,
        "trusted": 0.01, "shuffled": 0.05, "needed": 5_000, "span": 1.0, **more,
    }  # fmt: skip


def the_axes(figure: matplotlib.figure.Figure) -> matplotlib.axes.Axes:
    (axes,) = figure.axes
    return axes


def lines(axes: matplotlib.axes.Axes) -> list[Points]:
    """Return the lines that connect points."""
    drawn = [line for line in axes.lines if line.get_linestyle() != "None"]
    return [_points(line.get_xdata(), line.get_ydata()) for line in drawn]


def bars(axes: matplotlib.axes.Axes, upright: int) -> list[list[tuple[float, float, float]]]:
    """Return each point that has an error bar, with the ends of its bar."""
    found = []
    for container in axes.containers:
        assert isinstance(container, ErrorbarContainer)
        data, _, (ends,) = container.lines
        middles = np.asarray((data.get_xdata(), data.get_ydata())[upright], dtype=float)
        limits = [np.asarray(segment)[:, upright] for segment in ends.get_segments()]
        found.append([(m, *sorted(limit)) for m, limit in zip(middles, limits, strict=True)])
    return found


def _points(xs: object, ys: object) -> Points:
    return list(zip(np.asarray(xs).tolist(), np.asarray(ys).tolist(), strict=True))


def near(expected: Sequence[tuple[float, ...]]) -> list[object]:
    return [pytest.approx(one) for one in expected]


ROWS = Rows([row(LOCAL, 100, 4.0), row(LOCAL, 10_000, 0.04), row(CENTRAL, 100, 0.25)])


def test_an_error_figure_draws_errors_by_formula_as_measured_and_their_limits() -> None:
    """Give a measured root of 1.1 times the formula's, and a limit of half of it."""
    canvas = errors(ROWS, [LOCAL, CENTRAL], "title", PERCENT, targets=[THESE])()
    axes = the_axes(canvas)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("people", "± points")
    assert canvas.get_suptitle() == "title"
    local, central, *limits = lines(axes)
    assert local == near([(100, 200 * Z), (10_000, 20 * Z)])
    assert central == near([(100, 50 * Z)])
    assert sorted(limits, key=len) == [
        near([(100, 25 * Z)]),
        near([(100, 100 * Z), (10_000, 10 * Z)]),
    ]
    (first, _), _ = bars(axes, upright=1)
    half = 3 * 220 * Z * 0.4 / (2 * 4.84)
    assert first == pytest.approx((220 * Z, 220 * Z - half, 220 * Z + half))


def test_the_legend_lists_each_curve_once_with_its_style() -> None:
    (legend,) = errors(ROWS, [LOCAL, CENTRAL], "title", PERCENT, targets=[THESE])().legends
    looks = {
        text.get_text(): (line.get_color(), line.get_linestyle(), line.get_marker())
        for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)
    }
    assert set(looks) == {LOCAL.label, CENTRAL.label, "local limit", "central limit"}
    assert len(set(looks.values())) == 4
    assert looks["local limit"][0] == LOCAL.look.color


@pytest.mark.parametrize("taken", [0, 2])
def test_styles_differ_even_with_more_curves_than_colours(taken: int) -> None:
    looks = distinct_looks(20 - taken, LOOKS[:taken])
    assert len({*looks, *LOOKS[:taken]}) == 20


def test_a_price_is_a_ratio_of_squared_errors() -> None:
    line, points = price_curves(ROWS.at(people=100), LOCAL, CENTRAL)
    assert line.points == near([(1, 16 / 100, 0)])
    ((_, price, half),) = points.points
    assert (price, half) == pytest.approx((0.16, 3 * 0.16 * 2**0.5 * 0.1 / 1.21))


def test_an_error_table_has_the_same_half_widths() -> None:
    (table,) = error_tables(
        "Of {target}", Rows(ROWS[:1]), [LOCAL, CENTRAL], PERCENT, targets=[THESE]
    )
    assert table.title == "Of these people (noise alone)"
    assert table.columns == ["ε", "people", "one of local", "two of central"]
    assert table.rows == [["1", "100", "± 392", ""]]


def test_local_intervals_are_centred_on_estimates_and_trusted_ones_on_the_truth() -> None:
    axes = the_axes(interval_figure([survey_row("a", 0.2), survey_row("b", 0.6)], 1_000))
    assert axes.get_xlabel() == "%"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["browser: a", "browser: b"]
    yours, mixed, trusted = bars(axes, upright=0)
    assert yours == near([(30, 10, 50), (70, 50, 90)])
    assert mixed == near([(20, 15, 25), (60, 55, 65)])
    assert trusted == near([(20, 19, 21), (60, 59, 61)])


def test_the_attack_figure_has_percents_on_both_axes() -> None:
    shifts = {"shift_exact": 0.05, "shift_measured": 0.06, "shift_error": 0.004}
    rows = [survey_row("a", 0.2, forged=forged, **shifts) for forged in (0.01, 0.1)]
    rows = [{**one, "span": 0.5} for one in rows]
    axes = the_axes(attack_figure(Rows(rows), 1_000))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "forged, % of the reports"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10"]
    assert lines(axes)[0] == near([(1, 10), (10, 10)])
    (measured,) = bars(axes, upright=1)
    assert measured == near([(12, 9.6, 14.4)] * 2)


# Caps


def honest(labels: int) -> list[Row]:
    return [survey_row(f"option {n}", n / 1_000, forged=0.0, target=0) for n in range(labels)]


@pytest.mark.parametrize(("labels", "shown"), [(20, 20), (21, 20)])
def test_a_question_shows_its_twenty_most_held_options(labels: int, shown: int) -> None:
    found = few(Rows(honest(labels)))
    assert [one["label"] for one in found] == [
        f"option {n}" for n in range(labels - shown, labels)
    ], "omits the rarest options and keeps the survey's order"


def test_more_people_than_the_maximum_are_refused() -> None:
    assert option.people("1e9").read("people", "1e9") == [10**9]
    with pytest.raises(WrongUse, match="1,000,000,000"):
        option.people("1e9").read("people", "1000000001")


@pytest.mark.parametrize(("within", "needed"), [(1e-4, True), (1e-6, False)])
def test_people_beyond_ten_billion_are_not_searched_for(within: float, needed: bool) -> None:
    """A bit at ε 1 needs about (1.96 / within)^2 e / (e - 1)^2 people: 3.5e8 and 3.5e12."""
    document: Mapping[str, object] = json.loads('{"name": "a", "kind": "bit", "epsilon": "1"}')
    question = parse_question(Reader("question", dict(document)))
    people = people_of(question, [[0, 0.9], [1, 0.1]])
    found = people_needed(question, people, 0, within, 1, Reading())
    assert (found is not None) == needed
    if found is not None:
        mechanism = RandomizedResponse(Epsilon("1"))
        keep, lie = mechanism.keep / 2**64, mechanism.lie / 2**64
        assert found == pytest.approx((Z / within) ** 2 * keep * lie / (keep - lie) ** 2, rel=0.2)
