"""Results by label: for each value, the estimates from the reports that carry it.

A value with few reports is folded into “other”, and its name is not shown. In an open set, the same
applies to all but the most common values. The choice depends only on the numbers of reports, never
on their noise, so the intervals of a value are those of a survey with its reports alone. The joint
intervals hold for all values of a label and all options of a question together.

The median over the values of a label is next to the estimate from all reports. A forger who can
only name fewer than half of the values, because app tokens are bound to them, cannot move it out of
the range of the honest groups. It is unweighted, because forgers can make their groups larger. Only
listed values count, because forgers could invent values of an open set.

Each value is compared with the first one of its label; no one is in both groups. Devices draw arms
with equal probability, so two arms with too different numbers of reports show that an arm changes
who reports. Then a difference would be biased, and is withheld.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace as with_fields

from deniable.server.estimation.share_limits import anytime_rates
from deniable.server.estimation.shares import clopper_pearson
from deniable.server.estimation.statements import Array, Reading, disjoint, joint_confidence
from deniable.server.results.answers import question_rounds
from deniable.server.results.display import figures
from deniable.server.results.document import (
    ByLabel,
    Effect,
    Effects,
    Median,
    QuestionResult,
    Row,
)
from deniable.server.results.estimate_cache import Counts, EstimateCache
from deniable.server.store import OTHER, LabelCrowds, RoundTally
from deniable.server.store.label_counts import HASH_BYTES, label_hash
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

FEWEST = 20  # minimum number of reports for a value to be shown by name
MAX_VALUES = 200  # shown values of an open set, in one round
MAX_ROWS_BY_LABEL = 50_000  # in one round
TYPICAL_VALUES = 20  # assumed size of an open set when a response is planned
OTHER_NAME = "other"
FEWEST_GROUPS = 3  # with a median: of two, no one can say which is forged
ARMS_ERROR = 0.001  # probability of ever withholding the differences of a sound experiment


@dataclass(frozen=True)
class Slice:
    """Reports of one round or period that carry one value of a label."""

    round: int  # its index in the list of rounds or periods
    label: str
    value: str
    tally: RoundTally
    values: int  # number of slices of this label in the round
    reading: Reading
    members: tuple[RoundTally, ...] = ()  # the tallies to add up


def rows_by_label(survey: Survey) -> int:
    """Return the number of rows by label that a round is assumed to have."""
    values = sum(1 + (len(label.listed) or TYPICAL_VALUES) for label in survey.labels)
    return min(values * _rows_per_value(survey), MAX_ROWS_BY_LABEL)


def _rows_per_value(survey: Survey) -> int:
    """Count each label of a question twice: for its estimate and for its difference."""
    return 2 * sum(len(question.labels) or 1 for question in survey.questions)


def label_rounds(
    cache: EstimateCache,
    survey: Survey,
    rounds_by_pool: Sequence[Sequence[RoundTally]],
    readings: Sequence[Reading],
) -> list[tuple[ByLabel, ...]]:
    """Return the results by label of each round or period."""
    rounds = [list[ByLabel]() for _ in rounds_by_pool]
    slices = [
        part
        for n, (tallies, reading) in enumerate(zip(rounds_by_pool, readings, strict=True))
        for part in _merged([p for tally in tallies for p in _slices(survey, n, tally, reading)])
    ]
    tallies = [pool[0] if len(pool) == 1 else None for pool in rounds_by_pool]
    counts = {question: _counts(survey, question, slices) for question in survey.questions}
    answers = zip(*(_answers(cache, survey, q, slices, counts[q]) for q in counts), strict=True)
    effects = _effects(cache, survey, slices, tallies, counts)
    for part, results, made in zip(slices, answers, effects, strict=True):
        questions, reports = {result.name: result.rows for result in results}, part.tally.reports
        by_label = ByLabel(
            name=part.label, value=part.value, reports=reports, questions=questions, effects=made
        )
        rounds[part.round].append(by_label)
    return [*map(tuple, rounds)]


def crowds_by_value(
    survey: Survey, key: bytes, shown: Sequence[ByLabel], crowds: Iterable[tuple[int, LabelCrowds]]
) -> list[int]:
    """Return the smallest crowd of the reports with each shown value, or 0 if none is known.

    The crowds of each round come by the hashes of all labels. `key` is the survey's label key.
    """
    numbers = {label.name: number for number, label in enumerate(survey.labels)}
    values = [
        (row, numbers[part.name], survey.labels[numbers[part.name]].encode(part.value))
        for row, part in enumerate(shown)
        if part.value != OTHER_NAME
    ]
    rest = {numbers[p.name]: row for row, p in enumerate(shown) if p.value == OTHER_NAME}
    smallest = [0] * len(shown)
    for round_, by_labels in crowds:
        rows = {(n, label_hash(n, sent, key, round_)): row for row, n, sent in values}
        for (hashes, people), number in product(by_labels, {numbers[p.name] for p in shown}):
            hashed = hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]
            row = rows.get((number, hashed), rest.get(number))
            if row is not None:
                smallest[row] = min(people, smallest[row] or people)
    return smallest


def _counts(survey: Survey, question: Question, slices: Sequence[Slice]) -> list[Counts]:
    made = [Counts.of(survey, question, s.tally, s.reading, s.members, s.values) for s in slices]
    return [replace(m, enough=m.enough and m.reports >= FEWEST) for m in made]


def _slices(survey: Survey, number: int, tally: RoundTally, reading: Reading) -> Iterator[Slice]:
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
            yield Slice(number, label.name, name, part, len(members), reading)


def _merged(slices: Sequence[Slice]) -> Iterator[Slice]:
    """Add up each value's reports in the rounds that show the value by name."""
    by_value: dict[tuple[str, str], list[Slice]] = {}
    for part in slices:
        by_value.setdefault((part.label, part.value), []).append(part)
    values = Counter(label for label, _ in by_value)
    for (label, _), parts in by_value.items():
        members = tuple(part.tally for part in parts)
        total = sum(members[1:], members[0])
        yield replace(parts[0], tally=total, values=values[label], members=members)


def _answers(
    cache: EstimateCache,
    survey: Survey,
    question: Question,
    slices: Sequence[Slice],
    counts: Sequence[Counts],
) -> Iterator[QuestionResult]:
    """Yield the results of one question in each slice, with joint intervals over its label."""
    for values, members in groupby(zip(slices, counts, strict=True), lambda pair: pair[0].values):
        group = [made for _, made in members]
        yield from question_rounds(cache, survey, question, group, None, FEWEST, values)


# Medians over the values of a label


def medians(survey: Survey, parts: Sequence[ByLabel]) -> Iterator[Median]:
    """Yield the medians of a round or period with these results by label.

    The reports under "other" are no group: anyone may send them.
    """
    for label, question in product(survey.labels, survey.questions):
        groups = {
            part.value: rows
            for part in parts if part.name == label.name and part.value != OTHER_NAME
            for rows in [part.questions[question.name]] if rows[0].estimate is not None
        }  # fmt: skip
        if label.values and question.labels and len(groups) >= FEWEST_GROUPS:
            rows = tuple(_median(question, label.name, groups))
            yield Median(by=label.name, question=question.name, groups=len(groups), rows=rows)


def _median(question: Question, label: str, groups: Mapping[str, Sequence[Row]]) -> Iterator[Row]:
    """Yield the median row of each option, from a row of each group.

    Each end of an interval is the median of the groups' ends. If their number is even, it is the
    outer one of the two middle values.
    """
    middles = (len(groups) - 1) // 2, len(groups) // 2
    for rows in zip(*groups.values(), strict=True):
        columns = np.array([[r.estimate, r.consistent, r.low_all, r.high_all] for r in rows])
        below, above = np.sort(columns, axis=0)[[*middles]].tolist()
        estimate, consistent = (
            (one + other) / 2 for one, other in zip(below[:2], above, strict=False)
        )
        ends, reports = (below[2], above[3]), sum(row.reports for row in rows)
        median = Row(
            rows[0].label, estimate, None, None, None, None, *ends, None, reports, consistent, None
        )
        if columns[:, 2].max() > columns[:, 3].min():
            distances = np.maximum(columns[:, 2] - estimate, estimate - columns[:, 3])
            note = _disagreement(question, label, median, [*groups], rows, int(distances.argmax()))
            median = with_fields(median, note=note)
        yield median


def _disagreement(
    question: Question,
    label: str,
    median: Row,
    values: Sequence[str],
    rows: Sequence[Row],
    farthest: int,
) -> str:
    """Return the note about the group that is farthest from the median."""
    shown = [
        figures(row, question.statistic, question.unit, joint=True)
        for row in (rows[farthest], median)
    ]
    made, middle = (one for one in shown if one)
    reports = np.array([row.reports for row in rows])
    totals = np.array([row.estimate for row in rows], np.float64) * reports
    together = totals.sum() / reports.sum()
    without = (totals.sum() - totals[farthest]) / (reports.sum() - reports[farthest])
    value = values[farthest]
    return (
        f"the groups by {label} differ by more than chance explains: {value} has {made.interval}, "
        f"the median is {middle.whole}; without {value}, the others together have "
        f"{made.text(without)}{made.unit} instead of {made.text(together)}{made.unit}. Either "
        "these people differ, or reports are forged"
    )


# Differences between the values of a label


def _effects(
    cache: EstimateCache,
    survey: Survey,
    slices: Sequence[Slice],
    tallies: Sequence[RoundTally | None],
    counts: Mapping[Question, Sequence[Counts]],
) -> Iterator[Effects | UnsetType]:
    """Yield the differences of each slice from the first one of its label."""
    first, pairs = 0, dict[int, int]()  # from the index of a slice to that of its label's first one
    for index, part in enumerate(slices):
        if (part.round, part.label) != (slices[first].round, slices[first].label):
            first = index
        elif index and part.value != OTHER_NAME and tallies[part.round]:  # not several rounds
            pairs[index] = first
    made = {q: _differences(cache, q, slices, counts[q], pairs) for q in counts if q.labels}
    for index, part in enumerate(slices):
        if index not in pairs:
            yield UNSET
            continue
        note = _imbalance(survey, part, tallies[part.round])
        shown = {q.name: rows[index] for q, rows in made.items() if index in rows and not note}
        yield Effects(against=slices[pairs[index]].value, note=note, questions=shown)


def _differences(
    cache: EstimateCache,
    question: Question,
    slices: Sequence[Slice],
    counts: Sequence[Counts],
    pairs: Mapping[int, int],
) -> dict[int, tuple[Effect, ...]]:
    """Return the differences between two slices with estimates, by the index of the one."""
    made = dict[int, tuple[Effect, ...]]()

    def design(pair: tuple[int, int]) -> tuple[int, Reading]:
        return slices[pair[0]].values, slices[pair[0]].reading

    compared = [pair for pair in pairs.items() if all(counts[index].enough for index in pair)]
    for (values, reading), members in groupby(sorted(compared, key=design), design):
        listed = [*members]
        needed = sorted({index for pair in listed for index in pair})
        one, other = (np.searchsorted(needed, side) for side in zip(*listed, strict=True))
        alone = reading.confidence
        joint = joint_confidence(len(question.labels) * (values - 1), alone)
        columns = list[Array]()
        for confidence in (alone, joint):
            groups = cache.groups(question, [counts[index] for index in needed], confidence)
            estimate, limits = disjoint(groups[one], groups[other], reading.any_time, confidence)
            columns += [*limits] if columns else [estimate, *limits]
        for (index, _), rows in zip(listed, np.stack(columns, axis=-1).tolist(), strict=True):
            named = zip(question.labels, rows, strict=True)
            made[index] = tuple(Effect(label, *numbers) for label, numbers in named)
    return made


def _imbalance(survey: Survey, part: Slice, tally: RoundTally | None) -> str | None:
    """Return why the arms of a round cannot be compared, or None; tests each against the first."""
    arms = survey.arms
    if arms is None or part.label != arms.name or tally is None:
        return None
    values = [(survey.labels.index(arms), bytes([number])) for number in range(len(arms.arms))]
    found = [int(tally.labels[key][0]) if key in tally.labels else 0 for key in values]
    counts = [f"{reports:,}" if reports >= FEWEST else f"fewer than {FEWEST}" for reports in found]
    error = ARMS_ERROR / (len(found) - 1)
    for arm, reports, count in zip(arms.arms[1:], found[1:], counts[1:], strict=True):
        if are_unequal(found[0], reports, part.reading.any_time, error):
            return (
                f"differences are withheld: {arms.arms[0]} and {arm} should have about the same "
                f"number of reports, because devices draw arms with equal probability, but have "
                f"{counts[0]} and {count}. An arm that changes who consents, crashes or returns "
                "biases a difference"
            )
    return None


def are_unequal(one: int, other: int, looks: bool, error: float) -> bool:
    """Return whether two arms with equal probability rarely have these numbers of reports.

    The probability that any reading of a round says so is at most `error`: one half is for each of
    its two parts, or looks.
    """
    limits = anytime_rates if looks else clopper_pearson
    low, high = limits(np.array([one]), max(1, one + other), 1 - error / 2)
    return not low[0] <= 0.5 <= high[0]
