"""Your own survey with your own population: intervals, coverage, people needed, forged reports.

A population comes from a CSV of true answers, or from shares and means. Cells store it as a JSON
list of [point, weight]:

    bit, choice    the number of an answer, and its share of the people
    number         a point of the range, from 0 to 1, and the number of people there

The population of a CSV is redacted: only its digest is written.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deniable.server.surveys.survey_file import parse_survey_file, template
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Population, Question
from deniable.shared.survey.questions import question_document
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import middle
from deniable.simulations.engine.option import Redacted, digest
from deniable.simulations.engine.presentation import study
from deniable.simulations.engine.study import Cell, Options
from deniable.simulations.studies.survey.survey_cells import run
from deniable.simulations.studies.survey.survey_people import people_class
from deniable.simulations.studies.survey.survey_report import report

DEFAULT_PEOPLE = "1e3,1e4,1e5"
MIN_ASKED = 50  # people per additional question, so that someone is asked each question


def _forged(name: str, given: Any) -> list[float]:  # Any: user input
    shares = [option.share(name, value) for value in option.listed_values(given)]
    if 1 in shares:
        raise WrongUse(f"{name} must have shares of at least 0 and less than 1, got {given}")
    return shares


def _path(name: str, given: Any) -> Path | None:
    if given is not None and not Path(given).is_file():
        raise WrongUse(f"{name}: file {given} does not exist")
    return None if given is None else Path(given)


def _people(name: str, given: Any) -> list[int] | None:
    read: list[int] = option.several(option.whole(2, option.MAX_PEOPLE))(
        name, given or DEFAULT_PEOPLE
    )
    return read if given else None


OPTIONS = (
    option.Option("file", None, _path, "survey as TOML (default: that of `deniable survey new`)",
                  "FILE", positional=True),
    option.Option("answers", None, _path, "CSV of true answers, one column per question", "CSV"),
    option.Option("share", [], option.pairs,
                  "share of yes, or of an option: crashed=0.03, browser.firefox=0.4",
                  "NAME=SHARE", repeated=True),
    option.Option("mean", [], option.pairs, "mean of a number: minutes=40",
                  "NAME=NUMBER", repeated=True),
    option.Option("people", None, _people,
                  f"numbers of people (default {DEFAULT_PEOPLE}, or all of the CSV)"),
    option.Option("forged", "0.001,0.003,0.01,0.03,0.1", _forged, "shares of forged reports"),
    option.probability("within", 0.01, "wanted margin, as a share of 1 or of the range", "X"),
    option.delta(),
    option.repetitions(200),
)  # fmt: skip


def check(given: dict[str, Any]) -> Options:  # Any: results of the readers
    path, answers, named = given["file"], given["answers"], [*given["share"], *given["mean"]]
    if answers and named:
        raise WrongUse("give either answers, or shares and means")
    survey = parse_survey_file(
        path.read_text("utf-8") if path else template(datetime.now(UTC).date())
    )
    counts: Any = given["people"] or _people("people", DEFAULT_PEOPLE)  # Any: a list
    if answers:
        populations, count = from_csv(survey, answers)
        counts = given["people"] or [count]
    else:
        populations = from_options(survey, given["share"], given["mean"])
    if negative := [n for n, weights in populations.items() if any(w < 0 for _, w in weights)]:
        raise WrongUse(f"--share {negative[0]}: a share must be from 0 to 1")
    if min(counts) < (least := MIN_ASKED * (survey.drawn_from - 1)):
        raise WrongUse(
            f"people must be at least {least}, as each person is asked one of the questions"
        )
    texts = [json.dumps(populations[question.name]) for question in survey.questions]
    return {
        "survey": survey.name,
        "questions": [json.dumps(question_document(q)) for q in survey.questions],
        "populations": redacted(texts) if answers else texts,
        "drawn_from": survey.drawn_from,
        "looks": survey.looks,
        "true_answers": bool(answers),
        "assumed": "" if answers else assumptions(survey, named),
        **{key: given[key] for key in ("forged", "within", "delta", "repetitions")},
        "people": counts,
    }


def cells(options: Options) -> Sequence[Cell]:
    """Return a cell per number of people, and at the middle one also a cell per forged share."""
    attacked = middle(options["people"])
    kinds = [(people, 0.0) for people in options["people"]]
    kinds += [(attacked, forged) for forged in options["forged"] if forged]
    shared = {key: options[key] for key in ("within", "delta", "repetitions", "looks")}
    if options["drawn_from"] > 1:
        shared["drawn_from"] = options["drawn_from"]
    return [
        {"question": question, "population": people, "people": count, "forged": forged, **shared}
        for question, people in zip(options["questions"], options["populations"], strict=True)
        for count, forged in kinds
    ]


# Populations


def from_csv(survey: Survey, path: Path) -> tuple[dict[str, Population], int]:
    """Read a CSV with a line per person; return the populations and the number of people."""
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    if missing := [q.name for q in survey.questions if not lines or q.name not in lines[0]]:
        raise WrongUse(f"{path}: column {missing[0]!r} is missing; every question needs a column")
    columns = {q.name: [line[q.name] for line in lines] for q in survey.questions}
    return {q.name: _column(q, columns[q.name], path) for q in survey.questions}, len(lines)


def redacted(texts: Sequence[str]) -> list[Redacted]:
    """Return the populations in a form that shows only a digest.

    The digest covers all questions together, because the answers to a single question could be
    guessed and confirmed by their digest.
    """
    whole = digest(json.dumps(texts).encode())
    return [Redacted(whole, text) for text in texts]


def from_options(
    survey: Survey, shares: Sequence[str], means: Sequence[str]
) -> dict[str, Population]:
    """Return the populations for shares like browser.firefox=0.4 and means like minutes=40."""
    share_of, mean_of = (_pairs(texts) for texts in (shares, means))
    populations = {
        question.name: people_class(question).from_amounts(question, share_of, mean_of)
        for question in survey.questions
    }
    if unknown := [*share_of, *mean_of]:
        raise WrongUse(
            f"{unknown[0]!r} matches no question; use --share for bits and choices (crashed=0.03, "
            "browser.firefox=0.4), and --mean for numbers (minutes=40)"
        )
    return populations


def assumptions(survey: Survey, given: Sequence[str]) -> str:
    """Return a sentence about the questions for which no share or mean is given."""
    named = {text.split("=")[0].split(".")[0] for text in given}
    missing = [q for q in survey.questions if q.name not in named]
    assumed = "; ".join(f"{q.name}: {q.assumed}" for q in missing)
    return f"Assumed, because no share or mean was given: {assumed}." if missing else ""


def _column(question: Question, texts: list[str], path: Path) -> Population:
    counts: Counter[float] = Counter()
    for line, text in enumerate(texts, start=2):
        try:
            counts[people_class(question).point(question, text.strip())] += 1
        except ValueError:
            raise WrongUse(
                f"{path}, line {line}: the text in column {question.name!r} is not an answer to a "
                f"{question.kind} question"
            ) from None
    return [[point, count] for point, count in sorted(counts.items())]


def _pairs(texts: Sequence[str]) -> dict[str, float]:
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            pairs[name] = float(value)
        except ValueError:
            raise WrongUse(f"write NAME=NUMBER, like crashed=0.03; got {text!r}") from None
    return pairs


STUDY = study("survey", OPTIONS, cells, run, report, check=check)
