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
from typing import assert_never

from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Bit, Choice, Number, Question, Text, Vector
from deniable.simulations.engine.redaction import Redacted, digest
from deniable.simulations.studies.survey.people import NO_TEXTS, NO_VECTORS, Population

ASSUMED = {"bit": "10 % say yes", "number": "all in the middle", "choice": "options alike"}
YES = 0.1


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
        populations[question.name] = _told(question, told_shares, told_means)
    if unknown := [*told_shares, *told_means]:
        raise WrongUse(
            f"{unknown[0]!r} fits no question: --share is for bits and choices (crashed=0.03, "
            "browser.firefox=0.4), --mean for numbers (minutes=40)"
        )
    return populations


def _told(question: Question, shares: dict[str, float], means: dict[str, float]) -> Population:
    match question:
        case Number():
            return _everybody_at(question, means.pop(question.name, None))
        case Bit():
            yes = shares.pop(question.name, YES)
            return [[0, 1 - yes], [1, yes]]
        case Choice():
            return _options(question, shares)
        case Vector():
            raise WrongUse(NO_VECTORS.format(question.name))
        case Text():
            raise WrongUse(NO_TEXTS.format(question.name))
        case _:
            assert_never(question)


def assumed(survey: Survey, told: Sequence[str]) -> str:
    """A sentence about what nobody said."""
    named = {text.split("=")[0].split(".")[0] for text in told}
    missing = [q for q in survey.questions if q.name not in named]
    said = "; ".join(f"{q.name}: {ASSUMED[q.kind]}" for q in missing)
    return f"Assumed, as nothing was said: {said}." if missing else ""


def _column(question: Question, texts: list[str], path: Path) -> Population:
    counts: Counter[float] = Counter()
    for line, text in enumerate(texts, start=2):
        try:
            counts[_place(question, text.strip())] += 1
        except ValueError:
            raise WrongUse(
                f"{path}, line {line}: what stands under {question.name!r} is no answer to a "
                f"{question.kind} question"
            ) from None
    return [[place, count] for place, count in sorted(counts.items())]


def _place(question: Question, text: str) -> float:
    """ValueError if the text is no answer."""
    if isinstance(question, Vector):
        raise WrongUse(NO_VECTORS.format(question.name))
    if isinstance(question, Text):
        raise WrongUse(NO_TEXTS.format(question.name))
    placed = question.place(question.answer_of(text))
    if placed is None:
        raise ValueError
    if isinstance(question, Number):
        return placed / question.mechanism.answer_at(question.mechanism.steps)
    return placed


def _pairs(texts: Sequence[str]) -> dict[str, float]:
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            pairs[name] = float(value)
        except ValueError:
            raise WrongUse(f"write NAME=NUMBER, like crashed=0.03; got {text!r}") from None
    return pairs


def _everybody_at(question: Number, mean: float | None) -> Population:
    place = 0.5 if mean is None else (mean - question.low) / question.span
    if not 0 <= place <= 1:
        raise WrongUse(
            f"--mean {question.name}: {mean:g} is not from {question.low} to {question.high}"
        )
    return [[place, 1.0]]


def _options(question: Choice, told: dict[str, float]) -> Population:
    """What is told, and the others alike."""
    mine = {option: told.pop(f"{question.name}.{option}", None) for option in question.options}
    left = 1 - sum(share for share in mine.values() if share is not None)
    silent = sum(share is None for share in mine.values())
    if left < -1e-9 or (not silent and left > 1e-9):
        raise WrongUse(f"--share: the options of {question.name} do not add up to 1")
    rest = max(left, 0.0) / max(silent, 1)
    return [[place, rest if share is None else share] for place, share in enumerate(mine.values())]


def check_shares(populations: Mapping[str, Population]) -> None:
    for name, population in populations.items():
        if any(weight < 0 for _, weight in population):
            raise WrongUse(f"--share {name}: a share is from 0 to 1")
