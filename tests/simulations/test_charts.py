"""What is drawn: every line and point at the number of its row, on the axes that its label says."""

import json
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import matplotlib.axes
import matplotlib.figure
import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.engine import option
from deniable.simulations.engine.comparison import Series, error_figure, error_table, look
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.survey import survey_report
from deniable.simulations.studies.survey.survey_cells import people_needed
from deniable.simulations.studies.survey.survey_people import people_of
from deniable.simulations.studies.survey.survey_report import attack_figure, interval_figure

Z = NormalDist().inv_cdf(0.975)
LOCAL = Series("local", "one", "one of local", look(0))
CENTRAL = Series("central", "two", "two of central", look(1))
Points = list[tuple[float, float]]


def row(series: Series, people: int, exact: float) -> Row:
    return {
        "model": series.model, "mechanism": series.mechanism, "epsilon": "1", "people": people,
        "exact": exact, "measured": 1.21 * exact, "measured_error": 0.1 * exact, "repetitions": 9,
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
    """Those that connect points; not the points themselves."""
    drawn = [line for line in axes.lines if line.get_linestyle() != "None"]
    return [_points(line.get_xdata(), line.get_ydata()) for line in drawn]


def bars(axes: matplotlib.axes.Axes, upright: int) -> list[list[tuple[float, float, float]]]:
    """Each point with the ends of its bar, of the points with error bars."""
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


def test_an_error_figure_draws_half_widths_by_formula_and_as_measured() -> None:
    """As measured: the root of the error is 1.1 times the formula's."""
    rows = [row(LOCAL, 100, 4.0), row(LOCAL, 10_000, 0.04), row(CENTRAL, 100, 0.25)]
    axes = the_axes(error_figure(rows, [LOCAL, CENTRAL], "title", "± points", 100))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("people", "± points")
    assert axes.get_title() == "title"
    local, central = lines(axes)
    assert local == near([(100, 200 * Z), (10_000, 20 * Z)])
    assert central == near([(100, 50 * Z)])
    (first, _), _ = bars(axes, upright=1)
    half = 3 * 220 * Z * 0.4 / (2 * 4.84)
    assert first == pytest.approx((220 * Z, 220 * Z - half, 220 * Z + half))


def test_an_error_table_has_the_same_half_widths() -> None:
    table = error_table("Errors", [row(LOCAL, 100, 4.0)], [LOCAL, CENTRAL], 100, " points")
    assert table.columns == ["ε", "people", "one of local", "two of central"]
    assert table.rows == [["1", "100", "± 392 points", ""]]


def test_intervals_are_drawn_around_their_middle_and_the_trusted_one_around_the_truth() -> None:
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
    axes = the_axes(attack_figure(rows, 1_000))
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
    found = survey_report._few(honest(labels))
    assert [one["label"] for one in found] == [
        f"option {n}" for n in range(labels - shown, labels)
    ], "the least held are left out, and the order is the survey's own"


def test_more_people_than_the_most_are_refused() -> None:
    assert option.people("1e9").read("people", "1e9") == [10**9]
    with pytest.raises(WrongUse, match="1,000,000,000"):
        option.people("1e9").read("people", "1000000001")


@pytest.mark.parametrize(("within", "needed"), [(1e-4, True), (1e-6, False)])
def test_people_beyond_ten_billion_are_not_searched_for(within: float, needed: bool) -> None:
    """A bit at ε 1 takes about (1.96 / within)^2 e / (e - 1)^2 people: 3.5e8, and 3.5e12."""
    document: Mapping[str, object] = json.loads('{"name": "a", "kind": "bit", "epsilon": "1"}')
    question = parse_question(Reader("question", dict(document)))
    found = people_needed(question, people_of(question, [[0, 0.9], [1, 0.1]]), 0, within)
    assert (found is not None) == needed
    if found is not None:
        mechanism = RandomizedResponse(Epsilon("1"))
        keep, lie = mechanism.keep / 2**64, mechanism.lie / 2**64
        assert found == pytest.approx((Z / within) ** 2 * keep * lie / (keep - lie) ** 2, rel=0.2)
