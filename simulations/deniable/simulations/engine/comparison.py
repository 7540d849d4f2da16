"""Comparison of local and central mechanisms for the same question and the same ε.

Every study of this kind has rows of one form: `model`, `mechanism`, `epsilon`, `people`, and the
mean squared error of the estimate, `exact` by formula and `measured` with its Monte-Carlo standard
error `measured_error`. The price of locality is the ratio of two exact errors: how many times the
people it takes, as errors of local mechanisms fall with 1 / n.

There are two questions, and a study that answers both distinguishes them. For *these people* only
the noise is random: the columns above. For *the population they are drawn from* the error includes
that of sampling: `exact_drawn`, `measured_drawn`, `error_drawn`. No mechanism of the same model has
a smaller error than `limit` and `limit_drawn`; they are null where no limit is known.

A shuffler lets reports use a larger ε₀ each, as they are mixed with those of n honest people; the
planner computes the same ε₀ (`deniable.server.estimation.amplification`). Where each person sends
several reports, shufflers can do better, at least in theory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.amplification import DELTA
from deniable.simulations.engine import option
from deniable.simulations.engine.figures import LOOKS, Look, new_figure
from deniable.simulations.engine.study import Row, Table

if TYPE_CHECKING:
    import matplotlib.figure


Z95 = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations


@dataclass(frozen=True)
class Series:
    """One mechanism in tables and figures: its label, and its look."""

    model: str
    mechanism: str
    label: str
    look: Look


def row(
    series: Series, epsilon: str, people: int, exact: float, errors: NDArray[np.floating]
) -> dict[str, str | int | float | None]:
    """Return a row, where `errors` are deviations from the truth, one for each repetition."""
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
    """Return the columns about the population from which the people are drawn."""
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
    """Return the rows in which these keys have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def one(rows: Sequence[Row], **wanted: object) -> Row:
    (row,) = pick(rows, **wanted)
    return row


@dataclass(frozen=True)
class Side:
    """One of the two questions: its label, and its columns."""

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
    """Return 1.96 standard errors by formula: the meaning of every ±."""
    return Z95 * math.sqrt(number(row, side.exact))


def middle(values: Sequence[Any]) -> Any:
    """Return the value that a figure shows if it can show only one. Any: of any type."""
    return values[(len(values) - 1) // 2]


def error_figure(
    rows: Sequence[Row],
    series: Sequence[Series],
    title: str,
    unit: str,
    scale: float,
    sides: Sequence[Side] = (THESE,),
) -> matplotlib.figure.Figure:
    """Draw ± against people: formulas as lines, named at their ends, and measured errors as points.

    Each side of the question has a panel, on the same scale.
    """
    figure = new_figure(width=7.0 if len(sides) == 1 else 9.4)
    panels = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    ends: list[tuple[float, Series]] = []
    people = [number(r, "people") for r in rows]
    for side, axes in zip(sides, panels, strict=True):
        ends = [end for s in series for end in _draw(axes, rows, s, side, scale)]
        if min(people) == max(people):  # a single number gives no axis
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
    axes: Any, rows: Sequence[Row], series: Series, side: Side, scale: float
) -> list[tuple[float, Series]]:
    """Draw one line and its points; return its end. Any: axes are untyped in 3-d variants."""
    chosen = pick(rows, model=series.model, mechanism=series.mechanism)
    if not chosen:
        return []
    people = [number(r, "people") for r in chosen]
    exact = [scale * half_width(r, side) for r in chosen]
    measured = [scale * Z95 * math.sqrt(number(r, side.measured)) for r in chosen]
    bars = [  # three standard errors, through the square root
        3 * m * number(r, side.error) / (2 * number(r, side.measured)) if m else 0.0
        for m, r in zip(measured, chosen, strict=True)
    ]
    axes.plot(people, exact, color=series.look.color, linestyle=series.look.dash)
    axes.errorbar(
        people, measured, yerr=bars, fmt=series.look.marker, color=series.look.color, capsize=2
    )
    return [(exact[-1], series)]


def _label_ends(axes: Any, ends: list[tuple[float, Series]], people: float) -> None:
    """Name the lines at their right ends, moved apart where names would overlap."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    height, min_gap = -math.inf, 0.055 * (high - low)
    for value, series in sorted(ends, key=lambda end: end[0]):
        height = max(math.log10(value), height + min_gap)
        axes.annotate(
            series.label,
            xy=(people, value),
            xytext=(1.02, (height - low) / (high - low)),
            textcoords=axes.transAxes,
            va="center",
            fontsize=9,
            arrowprops={
                "arrowstyle": "-",
                "color": series.look.color,
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
    """Return a table with a line for each ε and number of people, and a column per mechanism."""
    keys = list(dict.fromkeys((r["epsilon"], r["people"]) for r in rows))
    lines = []
    for epsilon, people in keys:
        cells = []
        for s in series:
            names = {"model": s.model, "mechanism": s.mechanism}
            chosen = pick(rows, epsilon=epsilon, people=people, **names)
            cells.append(f"± {figure(scale * half_width(chosen[0], side))}{unit}" if chosen else "")
        lines.append([str(epsilon), f"{people:,}", *cells])
    return Table(title, ["ε", "people", *(s.label for s in series)], lines)


def figure(value: float) -> str:
    """Return a number with three digits, without an exponent where it stays readable.

    >>> figure(0.012345), figure(1234567.0), figure(1.5e-9)
    ('0.0123', '1,230,000', '1.5e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def worst_deviation(rows: Sequence[Row], error: str) -> float:
    """Return the largest distance of a measured error from its formula, in Monte-Carlo errors."""
    return max(
        abs(number(r, "measured") - number(r, "exact")) / number(r, error)
        for r in rows
        if r["exact"] is not None and r["measured"] is not None and number(r, error) > 0
    )


def check_words(rows: Sequence[Row]) -> str:
    worst = worst_deviation(rows, "measured_error")
    return (
        f"Measured by drawing whole populations {int(number(rows[0], 'repetitions')):,} times for "
        f"each line of the table: the largest distance of a measured mean squared error from its "
        f"formula is {worst:.1f} Monte-Carlo errors, among {len(rows)} of them."
    )


def look(number: int) -> Look:
    return LOOKS[number]


def cells_document(options: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the document that --json prints: the options, and the rows as cells."""
    return {"options": dict(options), "cells": [dict(row) for row in rows]}


TRUST = "needs n honest people and an honest shuffler"
SHUFFLED = Series("shuffled", "shuffled", "shuffled", Look("#8c510a", "X", (0, (4, 1, 1, 1))))


def delta_option() -> option.Option:
    words = "probability with which a shuffler's promise may fail"
    return option.Option("delta", DELTA, option.inside(), words, "δ")
