"""The report on a survey: findings, tables, intervals next to the truth, and the attack curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.simulations.engine import figures, sentences
from deniable.simulations.engine.estimators import Rows, middle, number
from deniable.simulations.engine.figures import INK, LOOKS, SHUFFLED_LOOK, Panel
from deniable.simulations.engine.sentences import TRUST, figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

TRUE_ANSWERS = (
    "This page and the files next to it show true shares and means of the answers file, exactly "
    "and without any privacy: give them only to people who may know these. Nothing else of that "
    "file is written except a digest of it."
)
ONE_OF = (
    "Each person is asked one of the {} questions, drawn again in each repetition. True "
    "values are those of all people, and forgers choose which question they attack."
)
MAX_LABELS = 20  # of one question, in tables and figures


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, people = Rows(found), middle(options["people"])
    honest, attacked = rows.at(forged=0.0), Rows(row for row in rows.at(target=1) if row["forged"])
    shown = honest.at(people=people)
    drawings = [
        Figure(
            "intervals",
            f"The expected 95 % interval of each question with {people:,} people, next to those "
            "of a trusted server at the same ε, and of a shuffler, which needs all people to be "
            "honest. The bar is the truth of this population.",
            lambda: interval_figure(few(shown), people),
        )
    ]
    if attacked:
        drawings.append(
            Figure(
                "attack",
                "The shift of their target by forged reports: yes, the least held option, the high "
                "end of the range. Lines are formulas, points are simulations.",
                lambda: attack_figure(attacked, people),
            )
        )
    return Report(
        _findings(options, honest, shown, attacked, people),
        drawings,
        [_interval_table(honest, options["within"]), _attack_table(attacked)],
        sentences.paragraphs(
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
    )


def few(rows: Rows) -> list[Row]:
    """Return the rows of the most held options of each question, in their own order."""
    result: list[Row] = []
    for mine in rows.groups("question").values():
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
    options: Options, honest: Rows, shown: Rows, attacked: Rows, people: int
) -> list[str]:
    widest = [
        max(group, key=lambda row: number(row, "half_width"))
        for group in shown.groups("question").values()
    ]

    def margins(key: str) -> str:
        known = [row for row in widest if row[key] is not None]
        return ", ".join(f"{row['question']} to ± {_amount(row, key)}" for row in known)

    covered = sum(number(row, "covered") for row in honest) / len(honest)
    needed = [row["needed"] for row in shown]
    most = None if None in needed else max(int(n or 0) for n in needed)
    takes = f"takes {most:,} people" if most else "takes more than ten billion people"
    forgers = ""
    if attacked:
        worst = max(attacked, key=lambda row: number(row, "leverage"))
        forgers = f"""; one forged report counts as much as up to
        {figure(number(worst, "leverage"))} honest ones ({worst["question"]})"""
    mixed = margins("shuffled")
    return sentences.paragraphs(
        f"""With {people:,} people you learn {margins("half_width")}; the 95 % intervals contained
        the truth in {100 * covered:.1f} % of the runs.

        To estimate everything to ± {100 * options["within"]:g} % {takes}{forgers}.

        {f"With a shuffler you would learn {mixed}; it {TRUST}." if mixed else ""}"""
    )


def _interval_table(rows: Rows, within: float) -> Table:
    lines = [
        [
            _name(row),
            f"{row['people']:,}",
            _amount(row, "truth").replace(" points", " %"),
            f"± {_amount(row, 'half_width')}",
            f"{100 * number(row, 'covered'):.1f} %",
            "" if row["shuffled"] is None else f"± {_amount(row, 'shuffled')}",
            f"± {_amount(row, 'trusted')}",
            "> 10 billion" if row["needed"] is None else f"{row['needed']:,}",
        ]
        for row in (few(rows) if len(rows) <= MAX_LABELS else rows[: 3 * MAX_LABELS])
    ]
    columns = ["question", "people", "truth", "you", "contained the truth", "a shuffler"]
    columns += ["a trusted server", f"people for ± {100 * within:g} %"]
    return Table("Results to expect", columns, lines)


def _attack_table(rows: Rows) -> Table:
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
    """Draw the shift in points of a share, or in percent of the range of a number."""

    def percent(key: str, times: int = 1) -> Callable[[Row], float]:
        return lambda row: 100 * times * number(row, key) / number(row, "span")

    curves = []
    for look, ((question, label), group) in zip(
        LOOKS, rows.groups("question", "label").items(), strict=False
    ):
        name = f"{question}" if label in ("yes", "mean") else f"{question}: {label}"
        curves += figures.formula_and_points(
            *(group, look, name, lambda row: 100 * number(row, "forged")),
            *(percent("shift_exact"), percent("shift_measured"), percent("shift_error", 3)),
        )
    title = f"The effect of forged reports, {people:,} reports"
    words = "forged, % of the reports", "shift, points or % of the range"
    return figures.draw([Panel(title, curves, *words)])
