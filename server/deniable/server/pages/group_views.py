"""Views of groups of people: by a label's value, and by the answer to another question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import msgspec

from deniable.server.pages import charts
from deniable.server.pages.question_view import MAX_TABLE_ROWS, reason_for_no_estimate
from deniable.server.results.display import Figures, effect_figures, known_figures
from deniable.server.results.display import figures as figures_of
from deniable.server.results.document import About, ByLabel, Crossed, Median, Row
from deniable.server.results.round_details import TIMES
from deniable.server.results.sentences import disagreements, effect_sentences, median_name
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question


class RateCell(NamedTuple):
    """Rate of an answer within a group."""

    text: str  # the estimate; a dash if there is none
    interval: str
    heat: int  # shade, from 0 to 9


class RateTable(NamedTuple):
    """Rates of one question's answers within the groups that gave each answer to another."""

    name: str
    sentence: str  # all rates, if the question has one label; otherwise empty
    answers: Sequence[str]
    groups: Sequence[tuple[str, Sequence[RateCell]]]
    chart: charts.Chart | None  # dots, if they are few enough


class CrossedView(NamedTuple):
    """Cross table of two questions."""

    name: str
    figures: Sequence[Figures]  # at most MAX_TABLE_ROWS
    left_out: int
    joint: bool  # whether the intervals hold jointly
    tables: Sequence[RateTable]
    note: str  # reason why there is no estimate


class LabelView(NamedTuple):
    """Estimates of one question by one label, and differences from the label's first value."""

    name: str
    figures: Sequence[Figures]  # at most MAX_TABLE_ROWS
    left_out: int
    against: str  # the first value
    differences: Mapping[str, Figures]  # by the name of a row in `figures`
    sentences: Sequence[str]
    notes: Sequence[str]  # reasons for withholding differences and estimates
    chart: charts.Chart | None
    are_arms: bool


def crossed_view(survey: Survey, crossed: Crossed) -> CrossedView:
    asked = {question.name: question for question in survey.questions}
    pair = [asked[name] for name in crossed.questions]
    keys = product(*(question.answer_labels for question in pair))
    names = product(*map(_answer_names, pair))
    called = {TIMES.join(key): TIMES.join(name) for key, name in zip(keys, names, strict=True)}
    joint = len(crossed.rows) > charts.MAX_MARKS
    known = known_figures(crossed.rows, "share", "", joint)
    if joint:
        known.sort(key=lambda row: -row.estimate)
    return CrossedView(
        name=TIMES.join(question.title for question in pair),
        figures=[replace(row, label=called[row.label]) for row in known[:MAX_TABLE_ROWS]],
        left_out=max(0, len(known) - MAX_TABLE_ROWS),
        joint=joint,
        tables=[
            _rate_table(asked[rates.question], asked[rates.within], rates.rows)
            for rates in crossed.rates
            if len(rates.rows) <= MAX_TABLE_ROWS
        ],
        note=reason_for_no_estimate(crossed.rows),
    )


def _rate_table(question: Question, within: Question, rows: Sequence[Row]) -> RateTable:
    """Return the rates; one that may be anything from 0 to 100 % is not drawn."""
    answers, groups = _answer_names(question)[question.first_label :], _answer_names(within)
    size, is_single = len(answers), len(answers) == 1
    names = [group if is_single else TIMES.join((group, a)) for group in groups for a in answers]
    figures = [
        made if made and (made.low > 0 or made.high < 1) else None
        for row in rows
        for made in [figures_of(row, "share", "", joint=True)]
    ]
    dots = [
        replace(row, label=name, style=replace(row.style, from_zero=False))
        for name, row in zip(names, figures, strict=True)
        if row
    ]
    cells = [*map(_rate_cell, figures)]
    is_short = is_single and dots and len(rows) <= charts.MAX_PANELS
    return RateTable(
        name=f"{question.title} within {within.title}",
        sentence=f"{answers[0]}: {_listed(dots)}." if is_short else "",
        answers=answers,
        groups=[
            (group, cells[number * size : (number + 1) * size])
            for number, group in enumerate(groups)
        ],
        chart=charts.chart(dots, (0.0, 1.0)) if 1 < len(dots) <= charts.MAX_MARKS else None,
    )


def _listed(rates: Sequence[Figures]) -> str:
    highest_first = sorted(rates, key=lambda row: -row.estimate)
    return ", ".join(f"{row.label} {row.whole} ({row.bounds})" for row in highest_first)


def _rate_cell(row: Figures | None) -> RateCell:
    if row is None:
        return RateCell("–", "0 to 100", 0)
    return RateCell(row.whole, row.bounds, min(9, int(10 * row.estimate)))


def _answer_names(question: Question) -> Sequence[str]:
    return question.display.options or question.answer_labels


def label_views(
    survey: Survey,
    about: Mapping[str, About],
    parts: Sequence[ByLabel],
    medians: Sequence[Median] = (),
) -> Iterator[LabelView]:
    """Yield a table for each label and each question; a row is one value and one option.

    The medians over the values come first.
    """
    for name, question in product(dict.fromkeys(part.name for part in parts), survey.questions):
        members = [part for part in parts if part.name == name]
        options = question.display.options or question.labels
        called = dict(zip(question.labels, options, strict=True)) if len(options) > 1 else {}
        own = [one for one in medians if (one.by, one.question) == (name, question.name)]
        listed = [(median_name(median), median.rows) for median in own]
        listed += [(part.value, part.questions[question.name]) for part in members]
        rows = [
            msgspec.structs.replace(row, label=_row_name(value, row.label, called))
            for value, group in listed
            for row in group
            if row.estimate is not None
        ]
        every = (row for part in members for row in part.questions[question.name])
        hidden = filter(None, [question.labels and reason_for_no_estimate(every)])
        known = known_figures(rows[:MAX_TABLE_ROWS], question.statistic, question.unit, joint=True)
        effects = [part.effects for part in members if part.effects]
        names = {row.label for row in known}
        differences = _differences(question, members, called, names)
        are_arms = survey.arms is not None and survey.arms.name == name
        differ = [words for median in own for words in disagreements(median, called)]
        sentences = effect_sentences(members, question.name, about[question.name], called)
        drawn = [*differences.values()][: charts.MAX_MARKS]
        yield LabelView(
            name=f"{question.title} – by {name}",
            figures=known,
            left_out=len(rows) - len(known),
            against=members[0].value,
            differences=differences,
            sentences=[*sentences] if are_arms else [],
            notes=[*dict.fromkeys(part.note for part in effects if part.note), *hidden, *differ],
            chart=charts.chart(drawn, (0.0, 0.0)) if are_arms else None,
            are_arms=are_arms,
        )


def _differences(
    question: Question, parts: Sequence[ByLabel], called: Mapping[str, str], names: set[str]
) -> dict[str, Figures]:
    """Return the differences of the rows with these names."""
    effects = [
        msgspec.structs.replace(effect, label=name)
        for part in parts
        if part.effects
        for effect in part.effects.questions.get(question.name, ())
        if (name := _row_name(part.value, effect.label, called)) in names
    ]
    rows = effect_figures(effects, question.statistic, question.unit)
    return {row.label: row for row in rows}


def _row_name(value: str, label: str, called: Mapping[str, str]) -> str:
    """Return a value, and the option's display name if there are several."""
    return TIMES.join((value, called.get(label, label))) if called else value
