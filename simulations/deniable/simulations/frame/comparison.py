"""Local against central, for the same question and the same ε: rows, words and figures for it.

Every study of this kind has rows of one form: `model`, `mechanism`, `epsilon`, `people`, and the
mean squared error of the estimate, `exact` by formula and `measured` with its Monte-Carlo standard
error `measured_error`. The price of locality is the ratio of two exact errors: how many times the
people it takes, as errors of local mechanisms fall with 1 / n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.frame.figures import FAINT, LOOKS, Look, new_figure
from deniable.simulations.frame.study import Row, Table

if TYPE_CHECKING:
    import matplotlib.figure

Z95 = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations


@dataclass(frozen=True)
class Series:
    """One mechanism in tables and figures: what readers see it called, and its look."""

    model: str
    mechanism: str
    label: str
    look: Look


def row(
    series: Series, epsilon: str, people: int, exact: float, errors: NDArray[np.floating]
) -> dict[str, str | int | float | None]:
    """`errors` are the deviations from the truth, one for each repetition."""
    squares = errors**2
    return {
        "model": series.model,
        "mechanism": series.mechanism,
        "epsilon": epsilon,
        "people": people,
        "exact": exact,
        "measured": float(squares.mean()),
        "measured_error": float(squares.std(ddof=1) / math.sqrt(len(squares))),
        "repetitions": len(squares),
    }


def number(row: Row, key: str) -> float:
    value = row[key]
    assert isinstance(value, (int, float))
    return value


def pick(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows in which these keys have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def one(rows: Sequence[Row], **wanted: object) -> Row:
    (found,) = pick(rows, **wanted)
    return found


def half_width(row: Row) -> float:
    """What ± stands for everywhere here: 1.96 standard errors, by the formula."""
    return Z95 * math.sqrt(number(row, "exact"))


def middle(values: Sequence[Any]) -> Any:
    """The one that a figure for a single value shows; Any: whatever is listed."""
    return values[(len(values) - 1) // 2]


def error_figure(
    rows: Sequence[Row], series: Sequence[Series], title: str, unit: str, scale: float
) -> matplotlib.figure.Figure:
    """± against people: lines by formula, points as measured, each line named at its end."""
    figure = new_figure()
    axes = figure.subplots()
    ends = []
    for each in series:
        found = pick(rows, model=each.model, mechanism=each.mechanism)
        if not found:
            continue
        people = [number(r, "people") for r in found]
        exact = [scale * half_width(r) for r in found]
        measured = [scale * Z95 * math.sqrt(number(r, "measured")) for r in found]
        bars = [  # three standard errors, through the square root
            3 * m * number(r, "measured_error") / (2 * number(r, "measured")) if m else 0.0
            for m, r in zip(measured, found, strict=True)
        ]
        axes.plot(people, exact, color=each.look.color, linestyle=each.look.dash)
        axes.errorbar(
            people, measured, yerr=bars, fmt=each.look.marker, color=each.look.color, capsize=2
        )
        ends.append((exact[-1], each))
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel=unit, title=title)
    axes.grid(visible=True, which="major")
    _label_ends(axes, ends, max(number(r, "people") for r in rows))
    return figure


def _label_ends(axes: Any, ends: list[tuple[float, Series]], people: float) -> None:
    """Names at the lines' right ends, moved apart where they would overlap; Any: axes are untyped
    in their 3-d variants."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    least_gap, last = 0.055 * (high - low), -math.inf
    for value, each in sorted(ends, key=lambda end: end[0]):
        place = max(math.log10(value), last + least_gap)
        last = place
        axes.annotate(
            each.label,
            xy=(people, value),
            xytext=(1.02, (place - low) / (high - low)),
            textcoords=axes.transAxes,
            va="center",
            color=each.look.color,
            fontweight="bold",
            fontsize=9,
            arrowprops={
                "arrowstyle": "-",
                "color": FAINT,
                "lw": 0.5,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )


def error_table(
    title: str, rows: Sequence[Row], series: Sequence[Series], scale: float, unit: str
) -> Table:
    """One line for each ε and number of people, one column for each mechanism."""
    keys = list(dict.fromkeys((r["epsilon"], r["people"]) for r in rows))
    lines = []
    for epsilon, people in keys:
        cells = []
        for each in series:
            found = pick(
                rows, epsilon=epsilon, people=people, model=each.model, mechanism=each.mechanism
            )
            cells.append(f"± {figure(scale * half_width(found[0]))}{unit}" if found else "")
        lines.append([str(epsilon), f"{people:,}", *cells])
    return Table(title, ["ε", "people", *(each.label for each in series)], lines)


def figure(value: float) -> str:
    """Three digits, without an exponent while that can be read.

    >>> figure(0.012345), figure(1234567.0), figure(1.5e-9)
    ('0.0123', '1,230,000', '1.5e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def worst_deviation(rows: Sequence[Row]) -> float:
    """The largest distance of a measured error from its exact one, in Monte-Carlo errors."""
    return max(
        abs(number(r, "measured") - number(r, "exact")) / number(r, "measured_error")
        for r in rows
        if number(r, "measured_error") > 0
    )


def check_words(rows: Sequence[Row]) -> str:
    return (
        f"Measured by drawing whole populations {int(number(rows[0], 'repetitions')):,} times for "
        f"each line of the table: the largest distance of a measured mean squared error from its "
        f"formula is {worst_deviation(rows):.1f} Monte-Carlo errors, among {len(rows)} of them."
    )


def look(place: int) -> Look:
    return LOOKS[place]


def cells_document(options: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """What --json prints: the options, and the rows as cells. Any: what JSON can hold."""
    return {"options": dict(options), "cells": [dict(row) for row in rows]}
