"""Results by label: for each value, the estimates from the reports that carry it.

A value with few reports is folded into “other”, and its name is not shown. In an open set, the same
applies to all but the most common values. The choice depends only on the numbers of reports, never
on their noise, so the intervals of a value are those of a survey with its reports alone. The joint
intervals hold for all values of a label and all options of a question together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from deniable.server.results.answers import question_rounds
from deniable.server.results.document import ByLabel, QuestionResult
from deniable.server.results.estimate_cache import Counts, EstimateCache
from deniable.server.store import OTHER, RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

FEWEST = 20  # minimum number of reports for a value to be shown by name
MAX_VALUES = 200  # shown values of an open set, in one round
MAX_ROWS_BY_LABEL = 50_000  # in one round
TYPICAL_VALUES = 20  # assumed size of an open set when a response is planned
OTHER_NAME = "other"


@dataclass(frozen=True)
class Slice:
    """Reports of one round that carry one value of a label."""

    round: int  # its index in the list of rounds
    label: str
    value: str
    tally: RoundTally
    values: int  # number of slices of this label in the round
    looks: bool  # whether the round is open


def rows_by_label(survey: Survey) -> int:
    """Return the number of rows by label that a round is assumed to have."""
    values = sum(1 + (len(label.listed) or TYPICAL_VALUES) for label in survey.labels)
    return min(values * _rows_per_value(survey), MAX_ROWS_BY_LABEL)


def _rows_per_value(survey: Survey) -> int:
    return sum(len(question.labels) or 1 for question in survey.questions)


def label_rounds(
    cache: EstimateCache,
    survey: Survey,
    tallies: Sequence[RoundTally | None],
    looks: Sequence[bool],
) -> list[tuple[ByLabel, ...]]:
    """Return each round's results by label; `looks` is true for open rounds."""
    rounds = [list[ByLabel]() for _ in tallies]
    numbered = zip(range(len(tallies)), tallies, looks, strict=True)
    slices = [
        part
        for n, tally, is_open in numbered
        if tally
        for part in _slices(survey, n, tally, is_open)
    ]
    answers = zip(*(_answers(cache, survey, q, slices) for q in survey.questions), strict=True)
    for part, results in zip(slices, answers, strict=True):
        questions, reports = {result.name: result.rows for result in results}, part.tally.reports
        by_label = ByLabel(name=part.label, value=part.value, reports=reports, questions=questions)
        rounds[part.round].append(by_label)
    return [*map(tuple, rounds)]


def _slices(survey: Survey, number: int, tally: RoundTally, looks: bool) -> Iterator[Slice]:
    limit = min(MAX_VALUES, MAX_ROWS_BY_LABEL // len(survey.labels) // _rows_per_value(survey))
    for index, label in enumerate(survey.labels):
        named, rest = dict[str, RoundTally](), list[RoundTally]()
        parts = (
            (value, RoundTally(tally.round, int(counts[0]), counts[1:]))
            for (of, value), counts in tally.labels.items()
            if of == index
        )
        for value, part in sorted(parts, key=lambda pair: (-pair[1].reports, pair[0])):
            few = part.reports < FEWEST or len(named) == limit
            text = (
                label.listed[value[0]]
                if label.listed and value != OTHER
                else value.decode("latin-1")
            )
            name = OTHER_NAME if few or value == OTHER else text
            if name == OTHER_NAME:
                rest.append(part)
            else:
                named[name] = part
        while named and 0 < sum(part.reports for part in rest) < FEWEST:
            # The overall counts would reveal such a small remainder, so fold the rarest value too.
            rest.append(named.pop(min(named, key=lambda name: named[name].reports)))
        ordered = [value for value in label.listed if value in named] or [*named]
        members = [(name, named[name]) for name in ordered]
        if rest and members:
            members.append((OTHER_NAME, sum(rest[1:], rest[0])))
        for name, part in members:
            yield Slice(number, label.name, name, part, len(members), looks)


def _answers(
    cache: EstimateCache, survey: Survey, question: Question, slices: Sequence[Slice]
) -> Iterator[QuestionResult]:
    """Yield the results of one question in each slice, with joint intervals over its label."""
    made = [Counts.of(survey, question, part.tally, part.looks) for part in slices]
    counts = [Counts(m.cells, m.reports, m.looks, m.enough and m.reports >= FEWEST) for m in made]
    for values, members in groupby(zip(slices, counts, strict=True), lambda pair: pair[0].values):
        group = [made for _, made in members]
        yield from question_rounds(cache, survey, question, group, None, FEWEST, values)
