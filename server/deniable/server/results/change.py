"""What is different from the round before, with intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deniable.server.estimation.differences import Differences, Side, differences, halved, side
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.results.counts import Counts, alike
from deniable.server.results.document import Change, Difference
from deniable.server.results.said import limits, said
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

SHARED_NOISE = (
    "each install sends one report in both rounds: they share their noise, and a difference of "
    "theirs has no interval"
)

Rows = tuple[Difference, ...]


def changes(
    survey: Survey, before: Mapping[int, int], counts: Mapping[str, Mapping[int, Counts]]
) -> dict[int, Change]:
    """Of each round since the one before it. `counts` are by question and by round."""
    shared = {number for number, since in before.items() if since in survey.span_of(number)}
    pairs = [pair for pair in before.items() if pair[0] not in shared]
    found: dict[int, dict[str, Rows]] = {number: {} for number in before}
    for asked in survey.questions:
        of = counts[asked.name]
        now, then = ([of[pair[side]] for pair in pairs] for side in (0, 1))
        for (number, _), rows in zip(pairs, compared(asked, now, asked, then), strict=True):
            if rows:
                found[number][asked.name] = rows
    return {
        number: Change(
            since=since,
            note=SHARED_NOISE if number in shared else None,
            questions=found[number],
        )
        for number, since in before.items()
    }


def round_before(number: int, ascending: Sequence[int]) -> int | None:
    """The last earlier round of those with reports that were read."""
    place = bisect_left(ascending, number)
    return ascending[place - 1] if place else None


def compared(
    question: Question, now: Sequence[Counts], other: Question, then: Sequence[Counts]
) -> list[Rows]:
    """For each two rounds, of the labels that both questions have; nothing where one of the two has
    no estimate."""
    found: list[Rows] = [()] * len(now)
    theirs = set(other.labels)
    labels = [label for label in question.labels if label in theirs]
    if not labels:  # as of a text, which has none beforehand
        return found
    known = [place for place, each in enumerate(now) if each.enough and then[place].enough]

    def looks(place: int) -> bool:
        return now[place].looks or then[place].looks

    for places in alike(known, looks, question.mechanism.cells):
        later, earlier = (
            _side(asked, [rounds[place] for place in places], labels, looks(places[0]))
            for asked, rounds in ((question, now), (other, then))
        )
        for place, rows in zip(places, _rows(labels, differences(later, earlier)), strict=True):
            found[place] = rows
    return found


def _side(question: Question, rounds: Sequence[Counts], labels: Sequence[str], looks: bool) -> Side:
    half = halved(CONFIDENCE)
    like = limits(question, rounds, half, "like")
    these = limits(question, rounds, half, "these") if looks else None
    found = side(said(question, rounds), like, these)
    if len(labels) == len(question.labels):
        return found
    places = {label: place for place, label in enumerate(question.labels)}
    return found.of([places[label] for label in labels])


def _rows(labels: Sequence[str], found: Differences) -> Iterator[Rows]:
    columns = np.stack((found.estimate, *found.like, *found.these), axis=-1)
    for numbers in columns.tolist():
        yield tuple(
            Difference(
                label=label,
                estimate=estimate,
                low=low,
                high=high,
                low_these=low_these,
                high_these=high_these,
            )
            for label, (estimate, low, high, low_these, high_these) in zip(
                labels, numbers, strict=True
            )
        )
