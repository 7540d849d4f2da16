"""The population of a survey's question: from a CSV of true answers, or from shares and means.

    bit        shares of no and yes
    number     places in the range, 0 to 1, and how many stand at each
    choice     shares of the options

It is JSON, a list of [place, weight], so that a cell can carry it: for bits and choices the place
is the answer's number. That of a CSV is withheld: what is written has its digest alone.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Population, Question
from deniable.simulations.engine.redaction import Redacted, digest
from deniable.simulations.studies.survey.people import people_class


def from_csv(survey: Survey, path: Path) -> tuple[dict[str, Population], int]:
    """A line for each person, a column for each question; and how many people there are."""
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    names = set(lines[0]) if lines else set()
    for question in survey.questions:
        if question.name not in names:
            raise WrongUse(
                f"{path}: there is no column {question.name!r}; give one to each question"
            )
    return {
        q.name: _column(q, [line[q.name] for line in lines], path) for q in survey.questions
    }, len(lines)


def withheld(populations: Mapping[str, Population]) -> dict[str, Redacted]:
    """For options and cells: one digest of all questions together, since that of a single one
    would be found by trying."""
    texts = {name: json.dumps(population) for name, population in populations.items()}
    together = digest(json.dumps(texts, sort_keys=True).encode())
    return {name: Redacted(together, text) for name, text in texts.items()}


def from_options(
    survey: Survey, shares: Sequence[str], means: Sequence[str]
) -> dict[str, Population]:
    """`shares` are like crashed=0.03 or browser.firefox=0.4, `means` like minutes=40."""
    told_shares, told_means = (_pairs(texts) for texts in (shares, means))
    populations = {}
    for question in survey.questions:
        people = people_class(question)
        populations[question.name] = people.told(question, told_shares, told_means)
    if unknown := [*told_shares, *told_means]:
        raise WrongUse(
            f"{unknown[0]!r} fits no question: --share is for bits and choices (crashed=0.03, "
            "browser.firefox=0.4), --mean for numbers (minutes=40)"
        )
    return populations


def assumed(survey: Survey, told: Sequence[str]) -> str:
    """A sentence about what nobody said."""
    named = {text.split("=")[0].split(".")[0] for text in told}
    missing = [q for q in survey.questions if q.name not in named]
    said = "; ".join(f"{q.name}: {q.assumed}" for q in missing)
    return f"Assumed, as nothing was said: {said}." if missing else ""


def _column(question: Question, texts: list[str], path: Path) -> Population:
    counts: Counter[float] = Counter()
    for line, text in enumerate(texts, start=2):
        try:
            counts[people_class(question).place(question, text.strip())] += 1
        except ValueError:
            raise WrongUse(
                f"{path}, line {line}: what stands under {question.name!r} is no answer to a "
                f"{question.kind} question"
            ) from None
    return [[place, count] for place, count in sorted(counts.items())]


def _pairs(texts: Sequence[str]) -> dict[str, float]:
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            pairs[name] = float(value)
        except ValueError:
            raise WrongUse(f"write NAME=NUMBER, like crashed=0.03; got {text!r}") from None
    return pairs


def check_shares(populations: Mapping[str, Population]) -> None:
    for name, population in populations.items():
        if any(weight < 0 for _, weight in population):
            raise WrongUse(f"--share {name}: a share is from 0 to 1")
