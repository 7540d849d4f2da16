"""Report on a survey: findings, tables, intervals next to the truth, and effects of forgery."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    "This page and the files next to it contain the exact true shares and means of the answers "
    "file, without any privacy. Show them only to people who may know these values. Apart from "
    "them, only a digest of the file is written."
)
ONE_OF = (
    "Each person is asked one random question of {}, drawn again in each repetition. True values "
    "are those of all people. Forgers choose which question they attack."
)
MAX_LABELS = 20  # largest number of labels per question in tables and figures


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, people = Rows(found), middle(options["people"])
    honest, attacked = rows.at(forged=0.0), Rows(row for row in rows.at(target=1) if row["forged"])
    shown = honest.at(people=people)
    drawings = [
        Figure(
            "intervals",
            f"The expected 95 % interval of each question with {people:,} people, compared with a "
            "trusted server at the same ε, and with a shuffler if all people are honest. The "
            "vertical bar is the true value in this population.",
            lambda: interval_figure(few(shown), people),
        )
    ]
    if attacked:
        drawings.append(
            Figure(
                "attack",
                "The shift of an estimate by forged reports. Forgers push the share of yes, the "
                "option with the fewest people, or the mean. Lines are formulas, points are "
                "simulations.",
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

            For each row, the reports of the whole population are simulated
            {options["repetitions"]} times, and the server's own code estimates from them. The
            people are fixed, and intervals are about the people who report.

            If a mean is given on the command line, all people have that number. An answers file has
            the real spread. The number of people needed is computed from the server's interval for
            the expected tally.

            A trusted server protects one person's answer to each question with the same ε. With a
            shuffler, reports have a larger ε₀ and together are (ε, {options["delta"]:g})-private.
            That guarantee {TRUST}."""
        ),
    )


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


def _findings(
    options: Options, honest: Rows, shown: Rows, attacked: Rows, people: int
) -> list[str]:
    widest = [
        max(group, key=lambda row: number(row, "half_width"))
        for group in shown.groups("question").values()
    ]

    def margins(key: str) -> str:
        known = [row for row in widest if row[key] is not None]
        texts = [f"± {_amount(row, key)} for {row['question']}" for row in known]
        return sentences.listed(texts) if texts else ""

    covered = sum(number(row, "covered") for row in honest) / len(honest)
    needed = [row["needed"] for row in shown]
    most = None if None in needed else max(int(n or 0) for n in needed)
    enough = f"{most:,}" if most else "more than ten billion"
    forgers = ""
    if attacked:
        worst = max(attacked, key=lambda row: number(row, "leverage"))
        forgers = f"""One forged report can count as much as {figure(number(worst, "leverage"))}
        honest ones ({worst["question"]})."""
    mixed = margins("shuffled")
    if mixed:
        mixed = f"With a shuffler, the margins would be {mixed}. Its guarantee {TRUST}."
    return sentences.paragraphs(
        f"""With {people:,} people, the margins of error are {margins("half_width")}. In
        {100 * covered:.1f} % of the simulations, the 95 % intervals contained the truth.

        To estimate everything to ± {100 * options["within"]:g} %, you need {enough} people.
        {forgers}

        {mixed}"""
    )


def _interval_table(rows: Rows, within: float) -> Table:
    columns = {
        "question": _name,
        "people": lambda row: f"{row['people']:,}",
        "truth": lambda row: _amount(row, "truth").replace(" points", " %"),
        "you": lambda row: f"± {_amount(row, 'half_width')}",
        "contained the truth": _covered,
        "a shuffler": lambda r: "" if r["shuffled"] is None else f"± {_amount(r, 'shuffled')}",
        "a trusted server": lambda row: f"± {_amount(row, 'trusted')}",
        f"people for ± {100 * within:g} %": lambda row: (
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
