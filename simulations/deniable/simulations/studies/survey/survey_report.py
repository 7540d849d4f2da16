"""The report on a survey: findings, tables, intervals next to the truth, and the attack curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import SHUFFLED, TRUST, figure, number, pick
from deniable.simulations.engine.figures import INK, LOOKS, new_figure, plain_ticks
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.building_blocks import bars, paragraphs

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

TRUE_ANSWERS = (
    "This page and the files next to it show true shares and means of the answers file, exactly "
    "and without any privacy: give them only to people who may know these. Nothing else of that "
    "file is written except a digest of it."
)
ONE_OF = (
    "Each person is asked one of the {} questions, drawn again in each repetition; the truth is "
    "that of all people, and forgers choose the question that they push."
)
MAX_LABELS = 20  # of one question, in tables and figures


def report(options: Options, rows: Sequence[Row]) -> Report:
    people = comparison.middle(options["people"])
    honest = pick(rows, forged=0.0)
    shown, attacked = pick(honest, people=people), pick(rows, target=1)
    attacked = [row for row in attacked if row["forged"]]
    figures = [
        Figure(
            "intervals",
            f"The expected 95 % interval of each question with {people:,} people, next to those "
            "of a trusted server at the same ε, and of a shuffler, which needs all people to be "
            "honest. The bar is the truth of this population.",
            lambda: interval_figure(_few(shown), people),
        )
    ]
    if attacked:
        figures.append(
            Figure(
                "attack",
                "The shift of their target by forged reports: yes, the least held option, the high "
                "end of the range. Lines are formulas, points are simulations.",
                lambda: attack_figure(attacked, people),
            )
        )
    return Report(
        findings=_findings(options, honest, shown, attacked, people),
        figures=figures,
        tables=[_interval_table(honest, options["within"]), _attack_table(attacked)],
        method=paragraphs(
            f"""{options["assumed"]}

            {TRUE_ANSWERS if options["true_answers"] else ""}

            {ONE_OF.format(options["drawn_from"]) if options["drawn_from"] > 1 else ""}

            Whole populations are drawn and estimated by the server's own code,
            {options["repetitions"]} times each; people are fixed, and an interval is about the
            people who report.

            A mean on the command line means that all people have that number; an answers file has
            the real spread. The number of people needed is that of the server's interval for the
            expected tally.

            A trusted server has the same ε for one person's answer, for each question separately; a
            shuffler has reports at a larger ε₀, which together have (ε, {options["delta"]:g}), in
            theory: it {TRUST}."""
        ),
        document=comparison.cells_document(options, rows),
    )


def _few(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the most held options of each question, in their own order."""
    result: list[Row] = []
    for question in dict.fromkeys(row["question"] for row in rows):
        mine = pick(rows, question=question)
        top = sorted(mine, key=lambda row: -number(row, "truth"))[:MAX_LABELS]
        result += [row for row in mine if row in top]
    return result


def _name(row: Row) -> str:
    return f"{row['question']}: {row['label']}"


def _amount(row: Row, key: str) -> str:
    """Return a value as text: in points for shares, in the question's own units for numbers."""
    if row["statistic"] == "mean":
        return figure(number(row, key))
    return f"{figure(100 * number(row, key))} points"


def _findings(
    options: Options,
    honest: Sequence[Row],
    shown: Sequence[Row],
    attacked: Sequence[Row],
    people: int,
) -> list[str]:
    widest = [
        max(pick(shown, question=q), key=lambda r: number(r, "half_width"))
        for q in dict.fromkeys(r["question"] for r in shown)
    ]
    parts = ", ".join(f"{r['question']} to ± {_amount(r, 'half_width')}" for r in widest)
    covered = sum(number(r, "covered") for r in honest) / len(honest)
    needed = [r["needed"] for r in shown]
    most = None if None in needed else max(n for n in needed if isinstance(n, int))
    takes = f"takes {most:,} people" if most else "takes more than ten billion people"
    first = (
        f"With {people:,} people you learn {parts}; the 95 % intervals contained the truth in "
        f"{100 * covered:.1f} % of the runs."
    )
    second = f"To estimate everything to ± {100 * options['within']:g} % {takes}"
    if attacked:
        worst = max(attacked, key=lambda r: number(r, "leverage"))
        second += (
            f"; one forged report counts as much as up to {figure(number(worst, 'leverage'))} "
            f"honest ones ({worst['question']})"
        )
    mixed = [row for row in widest if row["shuffled"] is not None]
    parts = ", ".join(f"{r['question']} to ± {_amount(r, 'shuffled')}" for r in mixed)
    third = f"With a shuffler you would learn {parts}; it {TRUST}."
    return [first, f"{second}.", *([third] if mixed else [])]


def _interval_table(rows: Sequence[Row], within: float) -> Table:
    lines = []
    for row in _few(rows) if len(rows) <= MAX_LABELS else rows[: 3 * MAX_LABELS]:
        needed = row["needed"]
        lines.append(
            [
                _name(row),
                f"{row['people']:,}",
                _amount(row, "truth").replace(" points", " %"),
                f"± {_amount(row, 'half_width')}",
                f"{100 * number(row, 'covered'):.1f} %",
                "" if row["shuffled"] is None else f"± {_amount(row, 'shuffled')}",
                f"± {_amount(row, 'trusted')}",
                "> 10 billion" if needed is None else f"{needed:,}",
            ]
        )
    columns = ["question", "people", "truth", "you", "contained the truth", "a shuffler"]
    return Table(
        "Results to expect",
        [*columns, "a trusted server", f"people for ± {100 * within:g} %"],
        lines,
    )


def _attack_table(rows: Sequence[Row]) -> Table:
    lines = [
        [
            _name(row),
            f"{100 * number(row, 'forged'):g} %",
            _amount(row, "shift_exact"),
            _amount(row, "shift_measured"),
            f"{100 * number(row, 'covered'):.1f} %",
        ]
        for row in rows
    ]
    columns = ["target of forgers", "forged reports", "shift", "measured", "contained the truth"]
    return Table("The effect of forged reports", columns, lines)


def interval_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    """Draw intervals next to the truth; shares have one scale, each mean its own."""
    shares = [row for row in rows if row["statistic"] == "share"]
    panels = ([shares] if shares else []) + [[row] for row in rows if row["statistic"] == "mean"]
    heights = [len(panel) + 0.9 for panel in panels]
    picture = new_figure(height=1.1 + 0.42 * sum(heights))
    grid = picture.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _intervals(axes, panel)
    grid[0, 0].set_title(f"Results to expect from {people:,} people")
    picture.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9
    )
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
        ("a shuffler", SHUFFLED.look, 0.0, truth, mixed),
        ("a trusted server", LOOKS[1], -0.2, truth, trusted),
    ):
        axes.errorbar(
            centre, heights + up, xerr=half, fmt=look.marker, color=look.color, capsize=3,
            markersize=4, label=label,
        )  # fmt: skip
    axes.set_yticks(heights, [_tick(row, rows) for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("%" if scale == 100 else f"mean of {rows[0]['question']}")
    axes.grid(visible=True, axis="x")


def _tick(row: Row, rows: Sequence[Row]) -> str:
    single = len(pick(rows, question=row["question"])) == 1
    return str(row["question"]) if single else _name(row)


def attack_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    """Draw the shift in points of a share, or in percent of the range of a number."""
    picture = new_figure()
    axes = picture.subplots()
    names = list(dict.fromkeys((str(r["question"]), str(r["label"])) for r in rows))
    for look, (question, label) in zip(LOOKS, names, strict=False):
        mine = pick(rows, question=question, label=label)
        forged = [100 * number(row, "forged") for row in mine]
        exact, measured, errors = (
            [factor * _part(row, key) for row in mine]
            for factor, key in ((100, "shift_exact"), (100, "shift_measured"), (300, "shift_error"))
        )
        name = question if label in ("yes", "mean") else f"{question}: {label}"
        axes.plot(forged, exact, color=look.color, ls=look.dash, label=name)
        bars(axes, list(zip(forged, measured, errors, strict=True)), look)
    axes.set(xscale="log", yscale="log", xlabel="forged, % of the reports")
    axes.set(ylabel="shift, points or % of the range")
    axes.set_title(f"The effect of forged reports, {people:,} reports")
    plain_ticks(axes, sorted({100 * number(row, "forged") for row in rows}))
    axes.legend(loc="upper left")
    return picture


def _part(row: Row, key: str) -> float:
    """Return a value as a part of 1, or of the range of a number."""
    return number(row, key) / number(row, "span")
