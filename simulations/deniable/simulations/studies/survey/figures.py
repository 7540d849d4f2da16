"""The figures of a survey of one's own: intervals beside the truth, and the attack curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.simulations.engine.comparison import SHUFFLED, number, pick
from deniable.simulations.engine.figures import INK, LOOKS, new_figure
from deniable.simulations.engine.study import Row

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


MOST_LINES = len(LOOKS)


def interval_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    """Shares have one scale; each mean has its own."""
    shares = [row for row in rows if row["statistic"] == "share"]
    panels = ([shares] if shares else []) + [[row] for row in rows if row["statistic"] == "mean"]
    heights = [len(panel) + 0.9 for panel in panels]
    figure = new_figure(height=1.1 + 0.42 * sum(heights))
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _intervals(axes, panel)
    grid[0, 0].set_title(f"What {people:,} people will tell you")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9
    )
    return figure


def _intervals(axes: matplotlib.axes.Axes, rows: Sequence[Row]) -> None:
    scale = 1 if rows[0]["statistic"] == "mean" else 100
    truth, trusted, mixed, low, high = (
        np.array([math.nan if row[key] is None else scale * number(row, key) for row in rows])
        for key in ("truth", "trusted", "shuffled", "low", "high")
    )
    places = np.arange(len(rows))[::-1]
    axes.plot(truth, places, "|", color=INK, markersize=16, label="truth")
    for label, look, up, centre, half in (
        ("you", LOOKS[0], 0.2, (low + high) / 2, (high - low) / 2),
        ("a shuffler", SHUFFLED.look, 0.0, truth, mixed),
        ("a trusted server", LOOKS[1], -0.2, truth, trusted),
    ):
        axes.errorbar(
            centre, places + up, xerr=half, fmt=look.marker, color=look.color, capsize=3,
            markersize=4, label=label,
        )  # fmt: skip
    axes.set_yticks(places, [_name(row, rows) for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("%" if scale == 100 else f"mean of {rows[0]['question']}")
    axes.grid(visible=True, axis="x")


def _name(row: Row, rows: Sequence[Row]) -> str:
    alone = len(pick(rows, question=row["question"])) == 1
    return str(row["question"]) if alone else f"{row['question']}: {row['label']}"


def attack_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    """The shift in points of a share, or in percent of the range of a number."""
    figure = new_figure()
    axes = figure.subplots()
    names = list(dict.fromkeys((str(r["question"]), str(r["label"])) for r in rows))
    for look, (question, label) in zip(LOOKS, names[:MOST_LINES], strict=False):
        found = pick(rows, question=question, label=label)
        forged = [100 * number(r, "forged") for r in found]
        axes.plot(
            forged,
            [100 * _part(r, "shift_exact") for r in found],
            color=look.color,
            linestyle=look.dash,
            label=question if label in ("yes", "mean") else f"{question}: {label}",
        )
        axes.errorbar(
            forged,
            [100 * _part(r, "shift_measured") for r in found],
            yerr=[300 * _part(r, "shift_error") for r in found],
            fmt=look.marker,
            color=look.color,
            capsize=2,
        )
    axes.set(xscale="log", yscale="log", xlabel="forged, % of the reports")
    axes.set(ylabel="shift, points or % of the range")
    axes.set_title(f"What forged reports do, {people:,} reports")
    ticks = sorted({100 * number(r, "forged") for r in rows})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.legend(loc="upper left")
    return figure


def _part(row: Row, key: str) -> float:
    """As a part of 1, or of the range of a number."""
    return number(row, key) / number(row, "span")
