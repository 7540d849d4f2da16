"""`deniable simulate survey FILE`: intervals, coverage, people needed, and what forgers can do.

The JSON form: `options` and `cells`, one for each question, label, number of people and forged
share: `question`, `label`, `kind`, `statistic`, `mechanism`, `epsilon`, `people` (reports in all),
`forged`, `repetitions`, `truth`, `low`, `high`, `half_width` (means over the repetitions),
`covered` (how often the 95 % interval holds the truth) with its Monte-Carlo error `covered_error`,
`trusted` (95 % half width of a trusted server at the same ε), `shuffled` (the same with a shuffler,
(ε, δ); null where it is not known), `needed` (people for ± `--within`,
null if beyond ten billion, or under attack), `leverage`, `target` (1 for what forgers push),
`shift_exact`, `shift_measured`, `shift_error`. Means are in the question's units, all else in
shares of 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deniable.server.surveys.authored import parse_authored
from deniable.server.surveys.template import template
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import question_document
from deniable.simulations.frame import comparison, option, shuffler
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
DEFAULT = "1e3,1e4,1e5"
LEAST_ASKED = 50  # people for each question but one: with fewer, one might not be asked at all


def _shares(name: str, given: Any) -> list[float]:  # Any: as it was given
    return [_forged(name, value) for value in option.each(given)]


def _forged(name: str, given: Any) -> float:
    share = option.share(name, given)
    if share == 1:
        raise WrongUse(f"{name}: shares from 0 to less than 1, got {given}")
    return share


def _within(name: str, given: Any) -> float:
    within = option.share(name, given)
    if not 0 < within < 1:
        raise WrongUse(f"{name} is above 0 and below 1, got {within:g}")
    return within


def _path(name: str, given: Any) -> Path | None:
    if given is not None and not Path(given).is_file():
        raise WrongUse(f"{name}: there is no file {given}")
    return None if given is None else Path(given)


def _people(name: str, given: Any) -> list[int] | None:
    read: list[int] = option.several(option.whole(2, option.MOST_PEOPLE))(name, given or DEFAULT)
    return read if given else None


OPTIONS = (
    option.Option(
        "file",
        None,
        _path,
        "the survey, as TOML (default: what `deniable survey new` writes)",
        "FILE",
        positional=True,
    ),
    option.Option(
        "answers", None, _path, "true answers, a CSV with a column for each question", "CSV"
    ),
    option.Option(
        "share",
        [],
        option.pairs,
        "who say yes, or hold an option: crashed=0.03, browser.firefox=0.4",
        "NAME=SHARE",
        repeated=True,
    ),
    option.Option("mean", [], option.pairs, "minutes=40", "NAME=NUMBER", repeated=True),
    option.Option("people", None, _people, f"how many (default {DEFAULT}, or all of the CSV)"),
    option.Option("forged", "0.001,0.003,0.01,0.03,0.1", _shares, "shares of forged reports"),
    option.Option("within", 0.01, _within, "the ± that is wanted, of 1 or of the range", "X"),
    shuffler.option_for(),
    option.repetitions(200),
)


def check(given: dict[str, Any]) -> Options:  # Any: what the readers return
    if given["answers"] and (given["share"] or given["mean"]):
        raise WrongUse("give answers, or shares and means, not both")
    survey = _survey(given["file"])
    counts: Any = given["people"] or _people("people", DEFAULT)  # Any: a list
    if given["answers"]:
        populations, count = answers.from_csv(survey, given["answers"])
        counts = given["people"] or [count]
        told: Mapping[str, str] = answers.withheld(populations)
    else:
        populations = answers.from_options(survey, given["share"], given["mean"])
        told = {name: json.dumps(population) for name, population in populations.items()}
    answers.check_shares(populations)
    if min(counts) < (least := LEAST_ASKED * (survey.drawn_from - 1)):
        raise WrongUse(f"people: at least {least}, where each is asked one of the questions")
    return {
        "survey": survey.name,
        "questions": [json.dumps(question_document(q)) for q in survey.questions],
        "populations": [told[q.name] for q in survey.questions],
        "drawn_from": survey.drawn_from,
        "true_answers": bool(given["answers"]),
        "assumed": ""
        if given["answers"]
        else answers.assumed(survey, [*given["share"], *given["mean"]]),
        **{key: given[key] for key in ("forged", "within", "delta", "repetitions")},
        "people": counts,
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
            "delta": options["delta"],
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
                f"keep (ε, {options['delta']:g}), in theory: it {shuffler.TRUST}."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _survey(path: Path | None) -> Survey:
    return parse_authored(
        template(datetime.now(UTC).date()) if path is None else path.read_text("utf-8")
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
    third = f"A shuffler would give {parts}; it {shuffler.TRUST}."
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


STUDY = Study(
    name="survey",
    question="What will this survey be able to say, and what does its privacy cost?",
    options=OPTIONS,
    check=check,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("half of a 95 % interval, about", "1.96 √(V / n)"),
        ("people for a wanted half width h", "n = V (1.96 / h)^2"),
    ),
)
