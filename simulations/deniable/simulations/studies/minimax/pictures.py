"""The figures of the minimax study: risk against people, and what a crowd is worth against ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.minimax.estimators import MODELS, model_of
from deniable.simulations.studies.minimax.labels import label, look_of, middle_epsilon, shown
from deniable.simulations.studies.minimax.slopes import Slope, number

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


SHOWN_AGAINST_USERS = ("one-bit", "ternary", "laplace", "mean")
FRACTIONS = {2.0: "1/2", 3.0: "2/3", 4.0: "3/4"}


def draw_risks(rows: Sequence[Row], slopes: Sequence[Slope]) -> matplotlib.figure.Figure:
    epsilon = middle_epsilon(rows)
    rows = [row for row in rows if row["epsilon"] == epsilon]
    figure, panels = _panels(rows, "people", "mean squared error")
    for moments, axes in panels:
        part = [row for row in rows if number(row, "moments") == moments]
        _draw_limits(axes, part)
        named = [name for name in shown(part) if name not in MODELS]
        for estimator in (*SHOWN_AGAINST_USERS, *named):
            _draw_series(axes, [row for row in part if row["estimator"] == estimator], estimator)
        fits = [s for s in slopes if (s.moments, s.epsilon) == (moments, epsilon)]
        _write_slopes(axes, [s for s in fits if s.estimator in SHOWN_AGAINST_USERS])
    figure.suptitle(f"The error of an estimated mean, at ε = {epsilon:g}", fontsize=12)
    _legend(figure)
    return figure


def draw_worth(rows: Sequence[Row]) -> matplotlib.figure.Figure:
    """The inverse of the risk is the number of people who would tell as much without privacy."""
    users = max(int(number(row, "people")) for row in rows)
    rows = [row for row in rows if row["people"] == users]
    figure, panels = _panels(rows, "ε: the larger, the less private", "worth in people")
    ticks = sorted({number(row, "epsilon") for row in rows})
    for moments, axes in panels:
        for estimator in shown(rows):
            series = sorted(
                (number(row, "epsilon"), 1 / number(row, "risk_measured"))
                for row in rows
                if number(row, "moments") == moments and row["estimator"] == estimator
            )
            if series:
                axes.plot(*zip(*series, strict=True), label=label(estimator), **_style(estimator))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.suptitle(f"What {users:,} people are worth, in people without privacy", fontsize=12)
    _legend(figure)
    return figure


def _panels(
    rows: Sequence[Row], across: str, up: str
) -> tuple[matplotlib.figure.Figure, list[tuple[float, matplotlib.axes.Axes]]]:
    """One for each family, two beside each other, on logarithmic scales."""
    families = sorted({number(row, "moments") for row in rows})
    columns = min(2, len(families))
    lines = math.ceil(len(families) / columns)
    figure = new_figure(4.1 * columns + 0.4, 3.1 * lines + 1.1)
    grid = list(figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat)
    for empty in grid[len(families) :]:
        empty.remove()
    for place, (moments, axes) in enumerate(zip(families, grid, strict=False)):
        axes.set(xscale="log", yscale="log", title=_family(moments))
        axes.minorticks_off()
        axes.grid(visible=True)
        if place + columns >= len(families):
            axes.set_xlabel(across)
            axes.tick_params(labelbottom=True)
        if place % columns == 0:
            axes.set_ylabel(up)
    return figure, list(zip(families, grid, strict=False))


def _draw_series(axes: matplotlib.axes.Axes, rows: Sequence[Row], estimator: str) -> None:
    """The bound as a line, what was measured as points; most errors are smaller than the points."""
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
    """Each in the colour of its model."""
    for model, estimator, words in (
        ("local", "one-bit", "no local one is below"),
        ("central", "laplace", "no trusted one"),
    ):
        style: dict[str, Any] = {"color": look_of(estimator).color, "lw": 1.2, "ls": (0, (1, 1.5))}
        limits = sorted(
            {(number(r, "people"), number(r, "lower_bound")) for r in rows if r["model"] == model}
        )
        axes.plot(*zip(*limits, strict=True), label=words, **style)


def _write_slopes(axes: matplotlib.axes.Axes, slopes: Sequence[Slope]) -> None:
    """In the lower left corner, which no falling line reaches."""
    for place, slope in enumerate(reversed(slopes)):
        height, look = 0.05 + 0.085 * place, look_of(slope.estimator)
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
    """Without privacy is a hollow mark, so that what lies on it is seen."""
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
        for each in figure.axes
        for pair in zip(*each.get_legend_handles_labels()[::-1], strict=True)
    )
    figure.legend(listed.values(), listed.keys(), loc="outside lower center", ncols=3, fontsize=9)
