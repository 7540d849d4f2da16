"""Figures, declared as curves in panels that share one style of axes, marks and legends.

There are three standard figures: `errors` (with their limits), `ratios` (errors divided by a limit,
with a line at 1) and `prices` (the price of locality). Lines are
formulas, points are simulations, and dotted lines are limits in the colour of their model.

The colours are from Okabe and Ito 2008, "Color universal design", so that colour-blind readers can
distinguish them. Each series also has its own marker and dash pattern. `INK` is the colour of text
and axes, which the page replaces by the reader's light or dark text colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from deniable.simulations.engine.estimators import (
    BOTH,
    POINTS,
    THESE,
    Estimator,
    Rows,
    Target,
    Unit,
    Value,
    number,
    root,
    value_of,
)
from deniable.simulations.engine.study import Row

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    from matplotlib.artist import Artist

INK = "#1c1e21"
FAINT = "#8a8f98"
LIMIT_STYLE: dict[str, Any] = {"ls": (0, (1, 1.5)), "lw": 1.2}  # dotted. Any: matplotlib's


class Look(NamedTuple):
    """Colour, marker and dash pattern of one series."""

    color: str
    marker: str
    dash: str | tuple[float, tuple[float, ...]]


LOOKS = (
    Look("#0072b2", "o", "-"),  # blue
    Look("#d55e00", "s", "--"),  # vermilion
    Look("#009e73", "^", "-."),  # green
    Look("#cc79a7", "D", ":"),  # purple
    Look("#e69f00", "v", (0, (5, 1, 1, 1, 1, 1))),  # orange
    Look("#56b4e9", "P", (0, (3, 1))),  # sky
)
SHUFFLED_LOOK = Look("#8c510a", "X", (0, (4, 1, 1, 1)))  # brown


def distinct_looks(count: int, taken: Sequence[Look] = ()) -> list[Look]:
    """Return looks that differ from each other and from the looks already taken.

    If there are more looks than colours, each further pass through the colours shifts the markers
    and dash patterns.
    """
    free = [look for look in LOOKS if look not in taken]
    n = len(free)
    return [
        Look(
            free[i % n].color,
            free[(i + i // n) % n].marker,
            free[(i + i // n + i // n**2) % n].dash,
        )
        for i in range(count)
    ]


ON_DARK = {  # replacement of each colour on a dark page
    "#0072b2": "#56a8e0",
    "#d55e00": "#f58a42",
    "#009e73": "#2cc79a",
    "#cc79a7": "#e09ac3",
    "#e69f00": "#f0b429",
    "#56b4e9": "#8fd0f5",
    "#8c510a": "#c98a4b",
}
INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")


@contextmanager
def styled() -> Iterator[None]:
    import matplotlib as mpl

    colors: dict[Any, Any] = {
        "grid.color": FAINT,
        **dict.fromkeys(INKED, INK),
    }  # Any: of matplotlib
    with mpl.rc_context(colors, Path(__file__).with_name("figures.mplstyle")):
        yield


@cache
def _figure_class() -> type[matplotlib.figure.Figure]:
    from matplotlib.figure import Figure as Base

    class StyledFigure(Base):
        """Figure that is also saved in the style, which decides how fonts are embedded."""

        def savefig(self, *arguments: Any, **more: Any) -> None:  # Any: matplotlib's
            with styled():
                super().savefig(*arguments, **more)

    return StyledFigure


def new_figure(width: float = 7.0, height: float = 4.6) -> matplotlib.figure.Figure:
    """Return an empty figure of this size in inches; add axes with `figure.subplots()`.

    Create and draw it inside `with styled():`. The engine does so when it calls `Figure.draw`.
    """
    return _figure_class()(figsize=(width, height), layout="constrained")


# Curves and panels

Draw = Callable[[], "matplotlib.figure.Figure"]
Form = Literal["marked", "line", "points", "limit"]
LIMITED_MODELS = ("local", "central")
MAX_LABELLED_TICKS = 8  # largest number of values on an x axis with a tick for each


class Curve(NamedTuple):
    """Points (x, y, half of the error bar) in one look. Equal labels share a legend entry."""

    points: Sequence[tuple[float, float, float]]
    look: Look
    label: str = ""
    form: Form = "marked"


class Panel(NamedTuple):
    """Pair of axes with a title and curves."""

    title: str
    curves: Sequence[Curve]
    x: str
    y: str = ""
    scales: tuple[str, str] = ("log", "log")
    reference: float | None = None
    limits: tuple[float, float] | None = None
    notes: Sequence[tuple[str, Look]] = ()  # texts and markers for the lower left corner


class Drawn(NamedTuple):
    """Value of a row by formula, as measured, and half of its error bar."""

    formula: Value
    measured: Value | None = None
    bar: Value | None = None

    def curves(self, rows: Sequence[Row], look: Look, label: str, x: Value) -> list[Curve]:
        """Return a line of the formula, and the measured points, if any."""
        drawn = [row for row in rows if self.measured and value_of(row, self.measured) is not None]
        line = curve(rows, look, x, self.formula, label, "line" if drawn else "marked")
        points = self.measured or self.formula
        return [line, curve(drawn, look, x, points, label, "points", self.bar)]

    def curves_of(self, estimators: Sequence[Estimator], rows: Rows, x: Value) -> list[Curve]:
        return [
            part for one in estimators for part in self.curves(rows.of(one), one.look, one.label, x)
        ]


def scaled(factor: Callable[[Row], float], formula: str = "exact", measured: bool = True) -> Drawn:
    """Return a column and its measured values with three standard errors, times a factor."""

    def times(key: str, more: float = 1.0) -> Value:
        return lambda row: None if row[key] is None else more * factor(row) * number(row, key)

    points = (times("measured"), times("error", 3)) if measured else ()
    return Drawn(times(formula), *points)


def curve(
    rows: Sequence[Row],
    look: Look,
    x: Value,
    y: Value,
    label: str = "",
    form: Form = "marked",
    bar: Value | None = None,
) -> Curve:
    """Return the curve of y against x, from the rows that have a y."""
    known = (row for row in rows if value_of(row, y) is not None)
    points = {(number(r, x), number(r, y), number(r, bar) if bar else 0.0) for r in known}
    return Curve(sorted(points), look, label, form)


def draw(
    panels: Sequence[Panel], title: str = "", columns: int = 2, share_y: bool = True
) -> matplotlib.figure.Figure:
    """Draw the panels in rows of `columns`, with one legend below them."""
    columns = min(columns, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = new_figure(4.6 * max(columns, 1.5), 4.2 * lines + 0.5)
    grid = list(figure.subplots(lines, columns, squeeze=False, sharey=share_y).flat)
    for empty in grid[len(panels) :]:
        empty.remove()
    for index, (panel, axes) in enumerate(zip(panels, grid, strict=False)):
        _draw_panel(panel, axes)
        if share_y and index % columns:
            axes.set_ylabel("")
    labelled = {c.label: c for panel in panels for c in panel.curves if c.label and c.points}
    handles = [_legend_entry(c) for c in labelled.values()]
    figure.suptitle(title, fontsize=12)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns + 1, fontsize=9)
    return figure


def drawing(*panels: Panel, title: str = "", **more: Any) -> Draw:  # Any: arguments of `draw`
    return lambda: draw(panels, title, **more)


def _draw_panel(panel: Panel, axes: matplotlib.axes.Axes) -> None:
    axes.set(xscale=panel.scales[0], yscale=panel.scales[1], title=panel.title)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    for c in panel.curves:
        if c.points:
            _draw_curve(c, axes)
    if panel.reference is not None:
        axes.axhline(panel.reference, color=FAINT, **LIMIT_STYLE)
    if panel.limits:
        axes.set_ylim(panel.limits)
    for line, (words, look) in enumerate(reversed(panel.notes)):
        at, corner = 0.05 + 0.085 * line, axes.transAxes
        axes.plot([0.04], [at], look.marker, color=look.color, transform=corner)
        axes.text(0.075, at, words, va="center", fontsize=9.5, transform=corner)
    axes.grid(visible=True, which="major")
    ticks = sorted({point[0] for c in panel.curves for point in c.points})
    if len(ticks) == 1:  # a single value would give an axis of length 0
        axes.set_xlim(ticks[0] / 2, ticks[0] * 2)
    if panel.x != "people" and len(ticks) <= MAX_LABELLED_TICKS:
        axes.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(visible=True, color=FAINT)


def _draw_curve(c: Curve, axes: matplotlib.axes.Axes) -> None:
    x, y, bars = zip(*c.points, strict=True)
    if c.form == "points":
        axes.errorbar(x, y, bars, fmt=c.look.marker, color=c.look.color, capsize=2)
    elif c.form == "limit":
        axes.plot(x, y, color=c.look.color, label=c.label, **LIMIT_STYLE)
    else:
        marker = c.look.marker if c.form == "marked" or len(x) == 1 else ""
        axes.plot(x, y, color=c.look.color, ls=c.look.dash, marker=marker, label=c.label)


def _legend_entry(c: Curve) -> Artist:
    from matplotlib.lines import Line2D

    style = {"ls": c.look.dash, "marker": c.look.marker} if c.form != "limit" else LIMIT_STYLE
    return Line2D([], [], color=c.look.color, label=c.label, **style)


# The standard figures


def errors(
    rows: Rows,
    estimators: Sequence[Estimator],
    title: str,
    unit: Unit = POINTS,
    x: str = "people",
    targets: Sequence[Target] = BOTH,
) -> Draw:
    """Return a figure of errors against x, with a panel per target and the limit of each model."""
    panels = [
        error_panel(target.label if len(targets) > 1 else "", rows, estimators, target, unit, x)
        for target in targets
    ]
    return drawing(*panels, title=title)


def error_panel(
    title: str,
    rows: Rows,
    estimators: Sequence[Estimator],
    target: Target = THESE,
    unit: Unit = POINTS,
    x: str = "people",
) -> Panel:
    """Return a panel of errors against x.

    The limit of each model is a dotted line in the colour of its first estimator.
    """
    measured, limit = root(target.measured, unit.factor), root(target.limit, unit.factor)

    def bar(row: Row) -> float:
        """Return three Monte-Carlo standard errors of the square root of the measured value."""
        height = number(row, measured)
        return 1.5 * number(row, target.error) * unit.factor**2 / height if height else 0.0

    positive = Rows(row for row in rows if row[target.exact])  # 0 has no logarithm
    curves = Drawn(unit.of(target), measured, bar).curves_of(estimators, positive, x)
    models = {one.model: one.look for one in reversed(estimators) if one.model in LIMITED_MODELS}
    for model, look in models.items():
        limited = [row for one in estimators if one.model == model for row in rows.of(one)]
        curves.append(curve(limited, look, x, limit, f"{model} limit", "limit"))
    return Panel(title, curves, x, unit.words)


def ratios(
    panels: Sequence[tuple[str, Rows, Value]],
    estimators: Sequence[Estimator],
    x: str,
    unit: str,
    words: str = "",
    bar: Value | None = None,
) -> Draw:
    """Return a figure of errors divided by their limit, with a line at 1.

    Each of `panels` has a title, rows and the ratio. `words` is the label of the x axis. With a
    `bar`, which is half of an error bar, the ratios are measured.
    """

    def panel(heading: str, rows: Rows, ratio: Value) -> Panel:
        known = Rows(row for row in rows if value_of(row, ratio) is not None)
        drawn = Drawn(ratio, ratio if bar else None, bar)
        curves = drawn.curves_of(estimators, known, x)
        return Panel(heading, curves, words or x, unit, reference=1.0)

    return drawing(*(panel(*parts) for parts in panels))


def price_curves(
    rows: Rows,
    local: Estimator,
    central: Estimator,
    x: str = "epsilon",
    target: Target = THESE,
    look: Look | None = None,
    label: str | None = None,
) -> list[Curve]:
    """Return the price of locality by formula, and as measured with three standard errors.

    About these people, the price grows with their number, so it is divided by that number.
    """
    keys = ("epsilon", "people", x)
    central_rows = rows.of(central).groups(*keys)

    def trusted(row: Row) -> Row:
        return central_rows[tuple(row[key] for key in keys)][-1]

    def price(row: Row, column: str) -> float | None:
        if not row[column] or not trusted(row)[column]:
            return None  # not measured, or all noise is 0 at a large ε
        whole = number(row, column) / number(trusted(row), column)
        return whole / number(row, "people") if target is THESE else whole

    def bar(row: Row) -> float:
        both = (row, trusted(row))
        relative = (number(r, target.error) / number(r, target.measured) for r in both)
        return 3 * math.hypot(*relative) * (price(row, target.measured) or 0.0)

    drawn = Drawn(
        lambda row: price(row, target.exact), lambda row: price(row, target.measured), bar
    )
    words = central.label if label is None else label
    return drawn.curves(rows.of(local), look or central.look, words, x)


def prices(rows: Rows, local: Estimator, centrals: Sequence[Estimator], x: str) -> Draw:
    """Return a figure of prices per person: a panel per central estimator, a line per ε."""
    epsilons = dict.fromkeys(str(row["epsilon"]) for row in rows)
    looks = dict(zip(epsilons, distinct_looks(len(epsilons)), strict=True))

    def panel(central: Estimator) -> Panel:
        curves = [
            c
            for e, look in looks.items()
            for c in price_curves(rows.at(epsilon=e), local, central, x, THESE, look, f"ε {e}")
        ]
        return Panel(central.label, curves, x, "price of locality / people")

    return drawing(*map(panel, centrals), columns=3)
