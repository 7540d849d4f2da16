"""What is said and drawn of a survey."""

from __future__ import annotations

from collections.abc import Sequence

from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.survey.figures import attack_figure, interval_figure

TRUE_ANSWERS = (
    "This page and the files beside it show true shares and means of the answers file, exactly and "
    "without any privacy: give them only to those who may know these. No other part of that file "
    "is written, only a digest of it."
)
ONE_OF = (
    "Each person is asked one of the {} questions, drawn anew in each repetition; the truth is "
    "that of all people, and forgers choose the question that they push."
)
MOST_LABELS = 20  # of one question, in tables and figures


def report(options: Options, rows: Sequence[Row]) -> Report:
    people = comparison.middle(options["people"])
    honest = comparison.pick(rows, forged=0.0)
    shown, attacked = comparison.pick(honest, people=people), comparison.pick(rows, target=1)
    attacked = [r for r in attacked if r["forged"]]
    figures = [
        Figure(
            "intervals",
            f"The 95 % interval to expect of each question with {people:,} people, and what a "
            "trusted server could say at the same ε, and a shuffler, which needs all of them to be "
            "honest. The bar is the truth of this population.",
            lambda: interval_figure(_few(shown), people),
        )
    ]
    if attacked:
        figures.append(
            Figure(
                "attack",
                "How far forged reports shift what they aim at: yes, the least held option, the "
                "high end of the range. Lines are formulas, points are simulations.",
                lambda: attack_figure(attacked, people),
            )
        )
    return Report(
        findings=_findings(options, honest, shown, attacked, people),
        figures=figures,
        tables=[_interval_table(honest, options["within"]), _attack_table(attacked)],
        method=[
            *([options["assumed"]] if options["assumed"] else []),
            *([TRUE_ANSWERS] if options["true_answers"] else []),
            *([ONE_OF.format(options["drawn_from"])] if options["drawn_from"] > 1 else []),
            (
                "Whole populations are drawn at once and estimated by the server's own code, "
                f"{options['repetitions']} times each; people are fixed, and an interval is "
                f"about the "
                "people who report."
            ),
            (
                "A mean that is given on the command line stands for people who all hold that "
                "number; "
                "an answers file has the real spread. People needed are found by the server's "
                "interval "
                "for the tally to be expected."
            ),
            (
                "A trusted server is given the same ε for one person who answers otherwise, for "
                "each "
                "question by itself; a shuffler gets reports at a larger ε₀, which all together "
                f"keep (ε, {options['delta']:g}), in theory: it {comparison.TRUST}."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _few(rows: Sequence[Row]) -> list[Row]:
    """The most held options of each question, in their own order."""
    result: list[Row] = []
    for question in dict.fromkeys(r["question"] for r in rows):
        found = comparison.pick(rows, question=question)
        top = sorted(found, key=lambda r: -number(r, "truth"))[:MOST_LABELS]
        result += [r for r in found if r in top]
    return result


def _name(row: Row) -> str:
    return f"{row['question']}: {row['label']}"


def _amount(row: Row, key: str) -> str:
    """In points for shares, in the question's own units for numbers."""
    if row["statistic"] == "mean":
        return comparison.figure(number(row, key))
    return f"{comparison.figure(100 * number(row, key))} points"


def _findings(
    options: Options,
    honest: Sequence[Row],
    shown: Sequence[Row],
    attacked: Sequence[Row],
    people: int,
) -> list[str]:
    widest = [
        max(comparison.pick(shown, question=q), key=lambda r: number(r, "half_width"))
        for q in dict.fromkeys(r["question"] for r in shown)
    ]
    parts = ", ".join(f"{r['question']} to ± {_amount(r, 'half_width')}" for r in widest)
    covered = sum(number(r, "covered") for r in honest) / len(honest)
    needed = [r["needed"] for r in shown]
    most = None if None in needed else max(n for n in needed if isinstance(n, int))
    takes = f"takes {most:,} people" if most else "takes more than ten billion people"
    first = (
        f"With {people:,} people you learn {parts}; the intervals, said to hold the truth "
        f"in 95 % of cases, held it in {100 * covered:.1f} % of the runs."
    )
    second = f"To know everything to ± {100 * options['within']:g} % {takes}"
    if attacked:
        worst = max(attacked, key=lambda r: number(r, "leverage"))
        second += (
            f"; one forged report counts for up to {comparison.figure(number(worst, 'leverage'))} "
            f"honest ones ({worst['question']})"
        )
    mixed = [row for row in widest if row["shuffled"] is not None]
    parts = ", ".join(f"{r['question']} to ± {_amount(r, 'shuffled')}" for r in mixed)
    third = f"A shuffler would give {parts}; it {comparison.TRUST}."
    return [first, f"{second}.", *([third] if mixed else [])]


def _interval_table(rows: Sequence[Row], within: float) -> Table:
    lines = []
    for row in _few(rows) if len(rows) <= MOST_LABELS else rows[: 3 * MOST_LABELS]:
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
    columns = ["question", "people", "truth", "you", "held the truth", "a shuffler"]
    return Table(
        "What you will be able to say",
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
    columns = ["what forgers push", "forged reports", "shift", "measured", "held the truth"]
    return Table("What forged reports do", columns, lines)
