"""Local against central, for the same question and the same ε: rows, words and figures for it.

Every study of this kind has rows of one form: `model`, `mechanism`, `epsilon`, `people`, and the
mean squared error of the estimate, `exact` by formula and `measured` with its Monte-Carlo standard
error `measured_error`. The price of locality is the ratio of two exact errors: how many times the
people it takes, as errors of local mechanisms fall with 1 / n.

There are two questions, and a study that answers both says so: of *these people*, where only noise
is drawn, in the columns above; and of *the population they are drawn from*, which has the error of
sampling as well, in `exact_drawn`, `measured_drawn`, `error_drawn`. `limit`, `limit_drawn` are what
no mechanism of the same model is below, null where that is not known.

What a shuffler buys: reports that say more, each alone, and give away as little when mixed.

How much more, ε₀ for ε, is what the planner says too (`deniable.server.planning.shuffled`).
Reports are those of the mechanism that a question would have at ε₀, one from each person; with
several reports from each, shufflers can do better, at least in theory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.shuffled import DELTA
from deniable.simulations.engine import option
from deniable.simulations.engine.figures import LOOKS, Look, new_figure
from deniable.simulations.engine.study import Row, Table

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


def drawn_columns(exact: float, errors: NDArray[np.floating]) -> dict[str, float]:
    """What is added to a row about the population that the people are drawn from."""
    squares = errors**2
    return {
        "exact_drawn": exact,
        "measured_drawn": float(squares.mean()),
        "error_drawn": float(squares.std(ddof=1) / math.sqrt(len(squares))),
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


@dataclass(frozen=True)
class Side:
    """Which of the two questions: what readers see it called, and its columns."""

    label: str
    exact: str
    measured: str
    error: str
    limit: str


THESE = Side("these people", "exact", "measured", "measured_error", "limit")
DRAWN = Side(
    "the population they are drawn from",
    *("exact_drawn", "measured_drawn", "error_drawn", "limit_drawn"),
)


def half_width(row: Row, side: Side = THESE) -> float:
    """What ± stands for everywhere here: 1.96 standard errors, by the formula."""
    return Z95 * math.sqrt(number(row, side.exact))


def middle(values: Sequence[Any]) -> Any:
    """The one that a figure for a single value shows; Any: whatever is listed."""
    return values[(len(values) - 1) // 2]


def error_figure(
    rows: Sequence[Row],
    series: Sequence[Series],
    title: str,
    unit: str,
    scale: float,
    sides: Sequence[Side] = (THESE,),
) -> matplotlib.figure.Figure:
    """± against people: lines by formula, points as measured, each line named at its end; one
    panel for each side of the question, on the same scale."""
    figure = new_figure(width=7.0 if len(sides) == 1 else 9.4)
    panels = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    ends: list[tuple[float, Series]] = []
    people = [number(r, "people") for r in rows]
    for side, axes in zip(sides, panels, strict=True):
        ends = [end for each in series for end in _draw(axes, rows, each, side, scale)]
        if min(people) == max(people):  # no axis can be made from one number
            axes.set_xlim(people[0] / 2, people[0] * 2)
        axes.set(xscale="log", yscale="log", xlabel="people")
        axes.set_title(side.label if len(sides) > 1 else title)
        axes.grid(visible=True, which="major")
    if len(sides) > 1:
        figure.suptitle(title, fontsize=12)
    panels[0].set_ylabel(unit)
    _label_ends(panels[-1], ends, max(people))
    return figure


def _draw(
    axes: Any, rows: Sequence[Row], each: Series, side: Side, scale: float
) -> list[tuple[float, Series]]:
    """One line and its points; where it ends. Any: axes are untyped in their 3-d variants."""
    found = pick(rows, model=each.model, mechanism=each.mechanism)
    if not found:
        return []
    people = [number(r, "people") for r in found]
    exact = [scale * half_width(r, side) for r in found]
    measured = [scale * Z95 * math.sqrt(number(r, side.measured)) for r in found]
    bars = [  # three standard errors, through the square root
        3 * m * number(r, side.error) / (2 * number(r, side.measured)) if m else 0.0
        for m, r in zip(measured, found, strict=True)
    ]
    axes.plot(people, exact, color=each.look.color, linestyle=each.look.dash)
    axes.errorbar(
        people, measured, yerr=bars, fmt=each.look.marker, color=each.look.color, capsize=2
    )
    return [(exact[-1], each)]


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
            fontsize=9,
            arrowprops={
                "arrowstyle": "-",
                "color": each.look.color,
                "lw": 1.2,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )


def error_table(
    title: str,
    rows: Sequence[Row],
    series: Sequence[Series],
    scale: float,
    unit: str,
    side: Side = THESE,
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
            cells.append(f"± {figure(scale * half_width(found[0], side))}{unit}" if found else "")
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


TRUST = "needs n honest people and trusts the shuffler"
SHUFFLED = Series("shuffled", "shuffled", "shuffled", Look("#8c510a", "X", (0, (4, 1, 1, 1))))


def delta_option() -> option.Option:
    words = "the probability that a shuffler's promise gives up"
    return option.Option("delta", DELTA, option.inside(), words, "δ")
