"""The figures of the minimax study: risk against people, and the worth of a crowd against ε.

The names and looks of the estimators are here too, for figures and sentences alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.figures import LOOKS, Look, new_figure
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.building_blocks import limit_line
from deniable.simulations.studies.minimax.clipped_estimators import MANY_LEVELS, MODELS, model_of

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from deniable.simulations.studies.minimax.minimax_report import Slope

LABELS = {
    "one-bit": "local, one bit",
    "ternary": "local, ternary",
    "split-sign": "local, split sign",
    MANY_LEVELS: "local, many levels",
    "laplace": "trusted curator",
    "mean": "no privacy",
}
LOOK_OF = dict(zip(LABELS, map(LOOKS.__getitem__, (0, 1, 4, 5, 2, 3)), strict=True))
OTHER = Look("#8a8f98", "X", (0, (4, 1, 1, 1)))  # tables named by the user
SHOWN_AGAINST_PEOPLE = ("one-bit", "ternary", "laplace", "mean")
FRACTIONS = {2.0: "1/2", 3.0: "2/3", 4.0: "3/4"}


def label(estimator: str) -> str:
    return LABELS.get(estimator) or f"local, {custom_mechanisms.label('number', estimator)}"


def look_of(estimator: str) -> Look:
    return LOOK_OF.get(estimator, OTHER)


def shown(rows: Sequence[Row]) -> list[str]:
    """Return every estimator of these rows, ours first."""
    return in_order(str(row["estimator"]) for row in rows)


def in_order(estimators: Iterable[str]) -> list[str]:
    """Return each estimator once, ours first."""
    names = dict.fromkeys(estimators)
    return [*(name for name in LABELS if name in names), *(n for n in names if n not in LABELS)]


def middle_epsilon(rows: Sequence[Row]) -> float:
    """Return the ε that is nearest to 1."""
    return min({number(row, "epsilon") for row in rows}, key=lambda e: abs(math.log(e)))


def number(row: Row, key: str) -> float:
    """Return a number of a row; infinity is the text "inf" there, as in JSON."""
    value = row[key]
    assert value is not None, key
    return float(value)


def draw_risks(rows: Sequence[Row], slopes: Sequence[Slope]) -> matplotlib.figure.Figure:
    epsilon = middle_epsilon(rows)
    rows = [row for row in rows if row["epsilon"] == epsilon]
    figure, panels = _panels(rows, "people", "mean squared error")
    for moments, axes in panels:
        part = [row for row in rows if number(row, "moments") == moments]
        _draw_limits(axes, part)
        named = [name for name in shown(part) if name not in MODELS]
        for estimator in (*SHOWN_AGAINST_PEOPLE, *named):
            _draw_series(axes, [row for row in part if row["estimator"] == estimator], estimator)
        fits = [s for s in slopes if (s.moments, s.epsilon) == (moments, epsilon)]
        _write_slopes(axes, [s for s in fits if s.estimator in SHOWN_AGAINST_PEOPLE])
    figure.suptitle(f"The error of an estimated mean, at ε = {epsilon:g}", fontsize=12)
    _legend(figure)
    return figure


def draw_worth(rows: Sequence[Row]) -> matplotlib.figure.Figure:
    """Draw 1 / risk: the number of people with the same accuracy without privacy."""
    users = max(int(number(row, "people")) for row in rows)
    rows = [row for row in rows if row["people"] == users]
    figure, panels = _panels(rows, "ε: larger is less private", "worth in people")
    ticks = sorted({number(row, "epsilon") for row in rows})
    for moments, axes in panels:
        for estimator in shown(rows):
            points = sorted(
                (number(row, "epsilon"), 1 / number(row, "risk_measured"))
                for row in rows
                if number(row, "moments") == moments and row["estimator"] == estimator
            )
            if points:
                axes.plot(*zip(*points, strict=True), label=label(estimator), **_style(estimator))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.suptitle(f"What {users:,} people are worth, in people without privacy", fontsize=12)
    _legend(figure)
    return figure


def _panels(
    rows: Sequence[Row], across: str, up: str
) -> tuple[matplotlib.figure.Figure, list[tuple[float, matplotlib.axes.Axes]]]:
    """Return a panel for each family, two in each line, on logarithmic scales."""
    families = sorted({number(row, "moments") for row in rows})
    columns = min(2, len(families))
    lines = math.ceil(len(families) / columns)
    figure = new_figure(4.1 * columns + 0.4, 3.1 * lines + 1.1)
    grid = list(figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat)
    for empty in grid[len(families) :]:
        empty.remove()
    for index, (moments, axes) in enumerate(zip(families, grid, strict=False)):
        axes.set(xscale="log", yscale="log", title=_family(moments))
        axes.minorticks_off()
        axes.grid(visible=True)
        if index + columns >= len(families):
            axes.set_xlabel(across)
            axes.tick_params(labelbottom=True)
        if index % columns == 0:
            axes.set_ylabel(up)
    return figure, list(zip(families, grid, strict=False))


def _draw_series(axes: matplotlib.axes.Axes, rows: Sequence[Row], estimator: str) -> None:
    """Draw the bound as a line, and measured risks as points, mostly larger than their error."""
    users = [number(row, "people") for row in rows]
    style = _style(estimator)
    bounds = [number(row, "risk_bound") for row in rows]
    axes.plot(users, bounds, **{**style, "marker": "none"})
    axes.errorbar(
        users,
        [number(row, "risk_measured") for row in rows],
        yerr=[number(row, "risk_error") for row in rows],
        label=label(estimator),
        **{**style, "ls": "none"},
    )


def _draw_limits(axes: matplotlib.axes.Axes, rows: Sequence[Row]) -> None:
    """Draw each limit in the colour of its model."""
    for model, estimator, words in (
        ("local", "one-bit", "limit of local estimators"),
        ("central", "laplace", "limit of trusted curators"),
    ):
        mine = [row for row in rows if row["model"] == model]
        points = {(number(row, "people"), number(row, "lower_bound")) for row in mine}
        limit_line(axes, points, look_of(estimator), words)


def _write_slopes(axes: matplotlib.axes.Axes, slopes: Sequence[Slope]) -> None:
    """Write the slopes in the lower left corner, which no falling line reaches."""
    for line, slope in enumerate(reversed(slopes)):
        height, look = 0.05 + 0.085 * line, look_of(slope.estimator)
        axes.plot([0.04], [height], look.marker, color=look.color, transform=axes.transAxes)
        axes.text(
            0.075,
            height,
            f"$n^{{{slope.fitted:.3f}}}$  in theory $n^{{{_theory(slope)}}}$",
            transform=axes.transAxes,
            va="center",
            fontsize=9.5,
        )


def _style(estimator: str) -> dict[str, Any]:  # Any: keyword arguments of matplotlib's
    """Return the style of an estimator; without privacy it is hollow, so that it hides nothing."""
    hollow = {"mfc": "none", "ms": 8} if estimator == "mean" else {}
    return {**look_of(estimator).style, "lw": 1.3, **hollow}


def _theory(slope: Slope) -> str:
    if model_of(slope.estimator) == "local" and slope.moments in FRACTIONS:
        return f"-{FRACTIONS[slope.moments]}"
    return f"{slope.theory:.3g}"


def _family(moments: float) -> str:
    if math.isinf(moments):
        return "All numbers within 1 of 0 (k = ∞)"
    power = {2.0: "square", 3.0: "cube", 4.0: "fourth power"}.get(moments)
    words = f"Mean {power}" if power else f"Mean of |X|$^{{{moments:g}}}$"
    return f"{words} at most 1 (k = {moments:g})"


def _legend(figure: matplotlib.figure.Figure) -> None:
    listed = dict(
        pair
        for axes in figure.axes
        for pair in zip(*axes.get_legend_handles_labels()[::-1], strict=True)
    )
    figure.legend(listed.values(), listed.keys(), loc="outside lower center", ncols=3, fontsize=9)
