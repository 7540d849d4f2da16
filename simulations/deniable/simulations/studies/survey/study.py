"""`deniable simulate survey FILE`: intervals, coverage, people needed, and what forgers can do.

The JSON form: `options` and `cells`, one for each question, label, number of people and forged
share: `question`, `label`, `kind`, `statistic`, `mechanism`, `epsilon`, `people` (reports in all),
`forged`, `repetitions`, `truth`, `low`, `high`, `half_width` (means over the repetitions),
`covered` (how often the 95 % interval holds the truth) with its Monte-Carlo error `covered_error`,
`trusted` (95 % half width of a trusted server at the same ε), `needed` (people for ± `--within`,
null if beyond ten billion, or under attack), `leverage`, `target` (1 for what forgers push),
`shift_exact`, `shift_measured`, `shift_error`. Means are in the question's units, all else in
shares of 1.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.server.surveys.authored import parse_authored
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import question_document
from deniable.simulations.frame import comparison, option_lists
from deniable.simulations.frame.comparison import number
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.survey import answers
from deniable.simulations.studies.survey.cell import run
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
LEAST_ASKED = 50  # people for each question but one: with fewer, one might not be asked at all


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the survey, as TOML")
    parser.add_argument(
        "--answers", type=Path, metavar="CSV", help="true answers: a column for each question"
    )
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="NAME=SHARE",
        help="who say yes, or hold an option: crashed=0.03, browser.firefox=0.4",
    )
    parser.add_argument(
        "--mean", action="append", default=[], metavar="NAME=NUMBER", help="minutes=40"
    )
    parser.add_argument(
        "--people", metavar="LIST", help="with commas (default 1e3,1e4,1e5, or all of the CSV)"
    )
    parser.add_argument(
        "--forged",
        default="0.001,0.003,0.01,0.03,0.1",
        metavar="LIST",
        help="shares of forged reports (default %(default)s)",
    )
    parser.add_argument(
        "--within",
        type=float,
        default=0.01,
        help="the ± that is wanted, of 1 or of the range (default %(default)s)",
    )
    parser.add_argument("--repetitions", default="200", metavar="N", help="(default %(default)s)")


def options(chosen: Namespace) -> Options:
    if chosen.answers and (chosen.share or chosen.mean):
        raise WrongUse("say --answers, or --share and --mean, not both")
    if not 0 < chosen.within < 1:
        raise WrongUse(f"--within is above 0 and below 1, got {chosen.within:g}")
    survey, people = _survey(chosen.file), chosen.people or "1e3,1e4,1e5"
    if chosen.answers:
        populations, count = answers.from_csv(survey, _readable(chosen.answers))
        people = chosen.people or str(count)
        told: Mapping[str, str] = answers.withheld(populations)
    else:
        populations = answers.from_options(survey, chosen.share, chosen.mean)
        told = {name: json.dumps(population) for name, population in populations.items()}
    answers.check_shares(populations)
    counts = option_lists.people(people)
    if min(counts) < (least := LEAST_ASKED * (survey.drawn_from - 1)):
        raise WrongUse(f"--people: at least {least}, where each is asked one of the questions")
    return {
        "survey": survey.name,
        "questions": [json.dumps(question_document(q)) for q in survey.questions],
        "populations": [told[q.name] for q in survey.questions],
        "drawn_from": survey.drawn_from,
        "true_answers": bool(chosen.answers),
        "assumed": "" if chosen.answers else answers.assumed(survey, [*chosen.share, *chosen.mean]),
        "people": counts,
        "forged": [_forged(text) for text in chosen.forged.split(",")],
        "within": chosen.within,
        "repetitions": option_lists.whole(chosen.repetitions, 2, 10**6, "--repetitions"),
    }


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people without forgers, and every forged share at the middle number."""
    middle = comparison.middle(options["people"])
    kinds = [(people, 0.0) for people in options["people"]]
    kinds += [(middle, forged) for forged in options["forged"] if forged]
    drawn = {"drawn_from": options["drawn_from"]} if options["drawn_from"] > 1 else {}
    return [
        {
            "question": question,
            "population": population,
            "people": people,
            "forged": forged,
            "within": options["within"],
            "repetitions": options["repetitions"],
            **drawn,
        }
        for question, population in zip(options["questions"], options["populations"], strict=True)
        for people, forged in kinds
    ]


def report(options: Options, rows: Sequence[Row]) -> Report:
    people = comparison.middle(options["people"])
    honest = comparison.pick(rows, forged=0.0)
    shown, attacked = comparison.pick(honest, people=people), comparison.pick(rows, target=1)
    attacked = [r for r in attacked if r["forged"]]
    figures = [
        Figure(
            "intervals",
            f"The 95 % interval to expect of each question with {people:,} people, and what a "
            f"trusted "
            "server could say at the same ε. The bar is the truth of this population.",
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
                "question by itself."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _survey(path: Path) -> Survey:
    return parse_authored(_readable(path).read_text("utf-8"))


def _readable(path: Path) -> Path:
    if not path.is_file():
        raise WrongUse(f"there is no file {path}")
    return path


def _forged(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise WrongUse(f"--forged: shares from 0 to less than 1, got {text!r}")
    return share


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
    return [first, f"{second}."]


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
                f"± {_amount(row, 'trusted')}",
                "> 10 billion" if needed is None else f"{needed:,}",
            ]
        )
    columns = ["question", "people", "truth", "you", "held the truth", "a trusted server"]
    return Table(
        "What you will be able to say", [*columns, f"people for ± {100 * within:g} %"], lines
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


STUDY = Study(
    name="survey",
    question="What will this survey be able to say, and what does its privacy cost?",
    arguments=arguments,
    options=options,
    cells=cells,
    run=run,
    report=report,
)
