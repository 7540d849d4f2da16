"""Parts that every study shares: cells from options, prose, tables, and the elements of a figure.

A study sweeps its options into cells, computes rows in each cell, and reports the rows. What does
not depend on its question is here; what does not even depend on there being studies is in `engine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from deniable.simulations.engine.comparison import Series, figure, middle, number, pick
from deniable.simulations.engine.figures import FAINT, LIMIT_DASH, Look, new_figure
from deniable.simulations.engine.study import Cell, Options, Row, Table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def sweep(options: Options, /, *names: str, **axes: Sequence[Any]) -> list[Cell]:
    """Return one cell for each combination of the named options, then of the further axes.

    Every cell also has the options that are single values. Any: what JSON can hold.

    >>> sweep({"epsilon": ["1", "2"], "share": 0.3}, "epsilon", question=["votes"])[1]
    {'share': 0.3, 'epsilon': '2', 'question': 'votes'}
    """
    axes = {name: options[name] for name in names} | axes
    return [
        _single(options) | dict(zip(axes, values, strict=True))
        for values in product(*axes.values())
    ]


def grid(*names: str) -> Callable[[Options], list[Cell]]:
    """Return the `cells` of a study that sweeps these options."""
    return lambda options: sweep(options, *names)


def cross(options: Options, /, first: str, second: str, **more: Any) -> list[Cell]:
    """Return, for each ε, all values of either option at the middle value of the other.

    Any: what JSON can hold.
    """
    middle_first, middle_second = middle(options[first]), middle(options[second])
    pairs = [(value, middle_second) for value in options[first]]
    pairs += [(middle_first, value) for value in options[second] if value != middle_second]
    return [
        {**_single(options), **more, "epsilon": epsilon, first: one, second: other}
        for epsilon in options["epsilon"]
        for one, other in pairs
    ]


def _single(options: Options) -> dict[str, Any]:  # Any: what JSON can hold
    return {name: value for name, value in options.items() if not isinstance(value, list)}


def by_series(rows: Sequence[Row], series: Sequence[Series]) -> dict[Series, Row]:
    """Return the row of each series that has one, among the rows of one cell."""
    named = {(row["model"], row.get("estimator", row.get("mechanism"))): row for row in rows}
    keys = {one: (one.model, one.mechanism) for one in series}
    return {one: named[key] for one, key in keys.items() if key in named}


def points_of(
    rows: Sequence[Row], series: Series, x: str, y: str, scale: float = 1.0
) -> list[tuple[float, float]]:
    """Return the points of a series: one key of its rows against another."""
    names = (series.model, series.mechanism)
    mine = [r for r in rows if (r["model"], r.get("estimator", r.get("mechanism"))) == names]
    return sorted((float(str(row[x])), scale * number(row, y)) for row in mine)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line; blank lines separate them."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def percent(value: object) -> str:
    """Return a probability in percent, never as 100 % if it is less.

    >>> percent(0.73105), percent(0.99999), percent(1.0)
    ('73.1 %', '> 99.9 %', '100.0 %')
    """
    assert isinstance(value, (int, float))
    text = f"{100 * value:.1f}"
    return f"{'> 99.9' if text == '100.0' and value < 1 else text} %"


def table(
    title: str,
    rows: Sequence[Row],
    keys: Mapping[str, str],
    columns: Mapping[str, Callable[[Sequence[Row]], str]],
) -> Table:
    """Group the rows by the values of the keys, and write one line for each group.

    `keys` map a column's title to the key of a row, `columns` to the text for a group.
    """
    groups = dict.fromkeys(tuple(row[key] for key in keys.values()) for row in rows)
    lines = []
    for values in groups:
        group = pick(rows, **dict(zip(keys.values(), values, strict=True)))
        first = [value if isinstance(value, str) else f"{value:,}" for value in values]
        lines.append([*first, *(text(group) for text in columns.values())])
    return Table(title, [*keys, *columns], lines)


def column(
    series: Series,
    key: str = "exact",
    scale: float = 1.0,
    root: bool = False,
    times_n: bool = False,
    before: str = "",
) -> Callable[[Sequence[Row]], str]:
    """Return a column of a table: a value of the series, or its root, with three digits."""

    def text(cell: Sequence[Row]) -> str:
        row = by_series(cell, [series])[series]
        value = number(row, key) * (number(row, "people") if times_n else 1.0)
        return before + figure(scale * (math.sqrt(value) if root else value))

    return text


def chart(
    title: str, x: str, y: str, width: float = 7.0, height: float = 4.6
) -> tuple[matplotlib.figure.Figure, matplotlib.axes.Axes]:
    """Return a figure with one panel, both of its axes logarithmic."""
    picture = new_figure(width, height)
    axes = picture.subplots()
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y, title=title)
    axes.grid(visible=True)
    return picture, axes


def marked_line(
    axes: matplotlib.axes.Axes, points: Iterable[tuple[float, float]], look: Look, label: str
) -> None:
    """Draw the points in the order of x, with markers and a line through them."""
    if points := sorted(points):
        axes.plot(*zip(*points, strict=True), label=label, **look.style)


def bars(
    axes: matplotlib.axes.Axes,
    points: Sequence[tuple[float, float, float]],
    look: Look,
    label: str | None = None,
) -> None:
    """Draw measured values: x, y, and the half length of the error bar."""
    if points:
        x, y, half = zip(*points, strict=True)
        axes.errorbar(x, y, half, fmt=look.marker, color=look.color, capsize=2, label=label)


def limit_line(
    axes: matplotlib.axes.Axes, points: Iterable[tuple[float, float]], look: Look, label: str
) -> None:
    """Draw a limit: a thin dotted line in the colour of what it limits."""
    if points := sorted(points):
        axes.plot(*zip(*points, strict=True), color=look.color, lw=1.2, ls=LIMIT_DASH, label=label)


def reference_line(axes: matplotlib.axes.Axes, y: float, dotted: bool = True) -> None:
    """Draw a faint horizontal line at a value that others are compared with."""
    axes.axhline(
        y, color=FAINT, linewidth=1.2 if dotted else 0.8, linestyle=LIMIT_DASH if dotted else "-"
    )
