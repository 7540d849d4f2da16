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

from deniable.server.surveys.survey_file import parse_survey_file, template
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import question_document
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.study import Cell, Options, Study
from deniable.simulations.studies.survey import answers
from deniable.simulations.studies.survey.cell import run
from deniable.simulations.studies.survey.report import report

DEFAULT = "1e3,1e4,1e5"
LEAST_ASKED = 50  # people for each question but one: with fewer, one might not be asked at all


def _shares(name: str, given: Any) -> list[float]:  # Any: as it was given
    return [_forged(name, value) for value in option.listed_values(given)]


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
    read: list[int] = option.several(option.whole(2, option.MAX_PEOPLE))(name, given or DEFAULT)
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
    comparison.delta_option(),
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


def _survey(path: Path | None) -> Survey:
    return parse_survey_file(
        template(datetime.now(UTC).date()) if path is None else path.read_text("utf-8")
    )


STUDY = Study(
    name="survey",
    question="What will this survey be able to say, and what does its privacy cost?",
    options=OPTIONS,
    check=check,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("half of a 95 % interval, about", r"1.96 \sqrt{V / n}"),
        ("people for a wanted half width h", r"n = V (1.96 / h)^2"),
    ),
)
