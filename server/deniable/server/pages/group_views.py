"""Views of groups of people: by a label's value, and by the answer to another question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import msgspec

from deniable.server.pages import charts
from deniable.server.pages.question_view import MAX_TABLE_ROWS
from deniable.server.results.display import Figures, effect_figures, known_figures
from deniable.server.results.document import About, ByLabel, Crossed
from deniable.server.results.round_details import TIMES
from deniable.server.results.sentences import effect_sentences
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question


class CrossedView(NamedTuple):
    """Cross table of two questions."""

    name: str
    figures: Sequence[Figures]  # at most MAX_TABLE_ROWS
    left_out: int
    joint: bool  # whether the intervals hold jointly


class LabelView(NamedTuple):
    """Estimates of one question by one label, and differences from the label's first value."""

    name: str
    figures: Sequence[Figures]  # at most MAX_TABLE_ROWS
    left_out: int
    against: str  # the first value
    differences: Mapping[str, Figures]  # by the name of a row in `figures`
    sentences: Sequence[str]
    notes: Sequence[str]  # reasons for withholding differences
    chart: charts.Chart | None
    are_arms: bool


def crossed_view(survey: Survey, crossed: Crossed) -> CrossedView:
    asked = {question.name: question for question in survey.questions}
    pair = [asked[name] for name in crossed.questions]
    keys = product(*(question.answer_labels for question in pair))
    names = product(*(question.display.options or question.answer_labels for question in pair))
    called = {TIMES.join(key): TIMES.join(name) for key, name in zip(keys, names, strict=True)}
    joint = len(crossed.rows) > charts.MAX_MARKS
    known = known_figures(crossed.rows, "share", joint=joint)
    if joint:
        known.sort(key=lambda row: -row.estimate)
    return CrossedView(
        name=TIMES.join(question.title for question in pair),
        figures=[replace(row, label=called[row.label]) for row in known[:MAX_TABLE_ROWS]],
        left_out=max(0, len(known) - MAX_TABLE_ROWS),
        joint=joint,
    )


def label_views(
    survey: Survey, about: Mapping[str, About], parts: Sequence[ByLabel]
) -> Iterator[LabelView]:
    """Yield a table for each label and each question; a row is one value and one option."""
    for name, question in product(dict.fromkeys(part.name for part in parts), survey.questions):
        members = [part for part in parts if part.name == name]
        options = question.display.options or question.labels
        called = dict(zip(question.labels, options, strict=True)) if len(options) > 1 else {}
        rows = [
            msgspec.structs.replace(row, label=_row_name(part, row.label, called))
            for part in members
            for row in part.questions[question.name]
        ]
        known = known_figures(rows, question.statistic, question.unit, joint=True)
        effects = [part.effects for part in members if part.effects]
        differences = _differences(question, members, called)
        yield LabelView(
            name=f"{question.title} – by {name}",
            figures=known[:MAX_TABLE_ROWS],
            left_out=max(0, len(known) - MAX_TABLE_ROWS),
            against=members[0].value,
            differences=differences,
            sentences=[*effect_sentences(members, question.name, about[question.name], called)],
            notes=[*dict.fromkeys(part.note for part in effects if part.note)],
            chart=charts.chart([*differences.values()][: charts.MAX_MARKS], (0.0, 0.0)),
            are_arms=survey.arms is not None and survey.arms.name == name,
        )


def _differences(
    question: Question, parts: Sequence[ByLabel], called: Mapping[str, str]
) -> dict[str, Figures]:
    effects = [
        msgspec.structs.replace(effect, label=_row_name(part, effect.label, called))
        for part in parts
        if part.effects
        for effect in part.effects.questions.get(question.name, ())
    ]
    rows = effect_figures(effects, question.statistic, question.unit)
    return {row.label: row for row in rows}


def _row_name(part: ByLabel, label: str, called: Mapping[str, str]) -> str:
    """Return a value, and the option's display name if there are several."""
    return TIMES.join((part.value, called.get(label, label))) if called else part.value
