"""Report on a survey: findings, tables, intervals next to the truth, and effects of forgery."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.server.estimation.statements import final_reading
from deniable.simulations.engine import figures
from deniable.simulations.engine.estimators import Rows, number
from deniable.simulations.engine.figures import INK, LOOKS, SHUFFLED_LOOK, Panel
from deniable.simulations.engine.presentation import View, figure, listed, margin
from deniable.simulations.engine.study import Report, Row, Table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MANY = "more than ten billion"
MAX_LABELS = 20  # largest number of labels per question in tables and figures


def report(view: View) -> Report:
    rows, people, within = view.rows, view.people, view.within
    honest, attacked = rows.at(forged=0.0), Rows(row for row in rows.at(target=1) if row["forged"])
    shown = honest.at(people=people)
    drawings: dict[str, figures.Draw] = {"intervals": lambda: interval_figure(few(shown), people)}
    if attacked:
        drawings["attack"] = lambda: attack_figure(attacked, people)
    needed = [row["needed"] for row in shown]
    mixed, watched = _margins(shown, "shuffled"), _margins(shown, "until_final")
    worst = max(attacked, key=lambda row: number(row, "leverage"), default=None)
    values = {
        "margins": _margins(shown, "half_width"),
        "until_final": view.words("until_final", watched=watched) if watched else "",
        "level": 100 * final_reading(view.looks).confidence,
        "covered": 100 * sum(number(row, "covered") for row in honest) / len(honest),
        "within": _percent(within),
        "enough": MANY if None in needed else f"{max(int(n or 0) for n in needed):,}",
        "forgers": view.words("forgers", worst=worst) if worst else "",
        "mixed": view.words("shuffled", mixed=mixed) if mixed else "",
        "true_answers_shown": view.words("private") if view.true_answers else "",
        "one_of": view.words("one_of") if view.drawn_from > 1 else "",
    }
    return view.report(values, drawings, [_interval_table(honest, within), _attack_table(attacked)])


def _margins(rows: Rows, key: str) -> str:
    """Return the margin of each question's widest estimate; empty if there is none."""
    groups = rows.groups("question").values()
    widest = [max(group, key=lambda row: number(row, "half_width")) for group in groups]
    texts = [f"{_margin(r, key)} for {r['question']}" for r in widest if r[key] is not None]
    return listed(texts) if texts else ""


def few(rows: Rows) -> list[Row]:
    """Return the rows of each question's most frequent options, in their original order."""
    result: list[Row] = []
    for mine in rows.groups("question").values():
        top = sorted(mine, key=lambda row: -number(row, "truth"))[:MAX_LABELS]
        result += [row for row in mine if row in top]
    return result


def _name(row: Row) -> str:
    return f"{row['question']}: {row['label']}"


def _amount(row: Row, key: str) -> str:
    """Return a value as text: in points for shares, in the question's units for means."""
    if row["statistic"] == "mean":
        return figure(number(row, key))
    return f"{figure(100 * number(row, key))} points"


def _margin(row: Row, key: str) -> str:
    return "" if row[key] is None else margin(_amount(row, key))


def _percent(within: float) -> str:
    return margin(f"{100 * within:g} %")


def _interval_table(rows: Rows, within: float) -> Table:
    columns = {
        "question": _name,
        "people": lambda row: f"{row['people']:,}",
        "truth": lambda row: _amount(row, "truth").replace(" points", " %"),
        "you": lambda row: _margin(row, "half_width"),
        "you, until final": lambda row: _margin(row, "until_final"),
        "contained the truth": _covered,
        "a shuffler": lambda row: _margin(row, "shuffled"),
        "a trusted server": lambda row: _margin(row, "trusted"),
        f"people for {_percent(within)}": lambda row: (
            "> 10 billion" if row["needed"] is None else f"{row['needed']:,}"
        ),
    }
    shown = few(rows) if len(rows) <= MAX_LABELS else rows[: 3 * MAX_LABELS]
    return _table("Results to expect", shown, columns)


def _attack_table(rows: Rows) -> Table:
    columns = {
        "target of forgers": _name,
        "forged reports": lambda row: f"{100 * number(row, 'forged'):g} %",
        "shift": lambda row: _amount(row, "shift_exact"),
        "measured": lambda row: _amount(row, "shift_measured"),
        "contained the truth": _covered,
    }
    return _table("The effect of forged reports", rows, columns)


def _covered(row: Row) -> str:
    return f"{100 * number(row, 'covered'):.1f} %"


def _table(title: str, rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> Table:
    return Table(title, [*columns], [[text(row) for text in columns.values()] for row in rows])


def interval_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    """Draw intervals next to the truth, with one panel for all shares and one for each mean."""
    shares = [row for row in rows if row["statistic"] == "share"]
    panels = ([shares] if shares else []) + [[row] for row in rows if row["statistic"] == "mean"]
    heights = [len(panel) + 0.9 for panel in panels]
    picture = figures.new_figure(height=1.1 + 0.42 * sum(heights))
    grid = picture.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(grid, panels, strict=True):
        _intervals(axes, panel)
    grid[0].set_title(f"Results to expect from {people:,} people")
    entries = grid[0].get_legend_handles_labels()
    picture.legend(*entries, loc="outside lower center", ncols=4, fontsize=9)
    return picture


def _intervals(axes: matplotlib.axes.Axes, rows: Sequence[Row]) -> None:
    scale = 1 if rows[0]["statistic"] == "mean" else 100
    truth, trusted, mixed, low, high = (
        np.array([math.nan if row[key] is None else scale * number(row, key) for row in rows])
        for key in ("truth", "trusted", "shuffled", "low", "high")
    )
    heights = np.arange(len(rows))[::-1]
    axes.plot(truth, heights, "|", color=INK, markersize=16, label="truth")
    for label, look, up, centre, half in (
        ("you", LOOKS[0], 0.2, (low + high) / 2, (high - low) / 2),
        ("a shuffler", SHUFFLED_LOOK, 0.0, truth, mixed),
        ("a trusted server", LOOKS[1], -0.2, truth, trusted),
    ):
        axes.errorbar(
            centre, heights + up, xerr=half, fmt=look.marker, color=look.color, capsize=3,
            markersize=4, label=label,
        )  # fmt: skip
    labels = [len(group) for group in Rows(rows).groups("question").values() for _ in group]
    names = [
        str(row["question"]) if n == 1 else _name(row) for row, n in zip(rows, labels, strict=True)
    ]
    axes.set_yticks(heights, names)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("%" if scale == 100 else f"mean of {rows[0]['question']}")
    axes.grid(visible=True, axis="x")


def attack_figure(rows: Rows, people: int) -> matplotlib.figure.Figure:
    """Draw the shift by forged reports, in points of a share or in percent of the range."""

    def percent(key: str, times: int = 1) -> Callable[[Row], float]:
        return lambda row: 100 * times * number(row, key) / number(row, "span")

    drawn = figures.Drawn(
        percent("shift_exact"), percent("shift_measured"), percent("shift_error", 3)
    )
    groups = rows.groups("question", "label").items()
    curves = [
        part
        for look, ((question, label), group) in zip(LOOKS, groups, strict=False)
        for name in [f"{question}" if label in ("yes", "mean") else f"{question}: {label}"]
        for part in drawn.curves(group, look, name, lambda row: 100 * number(row, "forged"))
    ]
    title = f"The effect of forged reports, {people:,} reports"
    words = "forged, % of the reports", "shift, points or % of the range"
    return figures.draw([Panel(title, curves, *words)])
