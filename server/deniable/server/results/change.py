"""What is different from the round before, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deniable.server.estimation.differences import Differences, differences, halved
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import Statements
from deniable.server.results.document import Change, Difference
from deniable.server.results.said import said
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question

SHARED_NOISE = (
    "each install sends one report in both rounds: they share their noise, and a difference of "
    "theirs has no interval"
)


@dataclass(frozen=True)
class Side:
    """One round of a survey."""

    survey: Survey
    tally: RoundTally
    looks: bool  # whether its intervals are to hold at every look at once

    def is_known(self, question: Question) -> bool:
        return self.tally.of(self.survey, question)[0] >= self.survey.minimum_reports

    def said(self, question: Question, labels: Sequence[str], confidence: float) -> Statements:
        """Of these labels, in their order."""
        reports, cells = self.tally.of(self.survey, question)
        found = said(question, cells, reports, confidence, self.looks)
        if len(labels) == len(question.labels):
            return found
        places = {label: place for place, label in enumerate(question.labels)}
        return found.of([places[label] for label in labels])


def change(
    survey: Survey,
    number: int,
    kept: Mapping[int, RoundTally],
    is_open: Callable[[int], bool],
) -> Change | None:
    """Since the last earlier round with reports; None where there is none."""
    before = round_before(number, kept)
    if number not in kept or before is None:
        return None
    if before in survey.span_of(number):
        return Change(since=before, note=SHARED_NOISE, questions={})
    now, then = (Side(survey, kept[each], is_open(each)) for each in (number, before))
    found = {each.name: compared(each, now, each, then) for each in survey.questions}
    return Change(since=before, note=None, questions={k: v for k, v in found.items() if v})


def round_before(number: int, kept: Mapping[int, RoundTally]) -> int | None:
    """The last earlier round with reports, of those that were read."""
    return max((each for each in kept if each < number), default=None)


def compared(question: Question, now: Side, other: Question, then: Side) -> tuple[Difference, ...]:
    """Of the labels that both questions have; nothing where one has no estimate."""
    if not (now.is_known(question) and then.is_known(other)):
        return ()
    both = set(question.labels) & set(other.labels)
    labels = [label for label in question.labels if label in both]
    if not labels:  # as of a text, which has none beforehand
        return ()
    whole, half = (
        (now.said(question, labels, level), then.said(other, labels, level))
        for level in (CONFIDENCE, halved(CONFIDENCE))
    )
    return tuple(_rows(labels, differences(whole, half, now.looks or then.looks)))


def _rows(labels: Sequence[str], found: Differences) -> Iterator[Difference]:
    columns = (found.estimate, *found.like, *found.these)
    for label, estimate, low, high, low_these, high_these in zip(
        labels, *(column.tolist() for column in columns), strict=True
    ):
        yield Difference(
            label=label,
            estimate=estimate,
            low=low,
            high=high,
            low_these=low_these,
            high_these=high_these,
        )
