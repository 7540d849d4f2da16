"""What is different from the round before, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deniable.server.estimation.differences import Differences, differences, halved
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import statements
from deniable.server.results.document import Change, Difference
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question

SHARED_NOISE = (
    "each install sends one report in both rounds: they share their noise, and a difference of "
    "theirs has no interval"
)


def change(survey: Survey, number: int, kept: Mapping[int, RoundTally]) -> Change | None:
    """Since the last earlier round with reports; None where there is none."""
    before = max((each for each in kept if each < number), default=None)
    if number not in kept or before is None:
        return None
    if before in survey.span_of(number):
        return Change(since=before, note=SHARED_NOISE, questions={})
    now, then = kept[number], kept[before]
    found = {each.name: _of(survey, each, now, then) for each in survey.questions}
    return Change(since=before, note=None, questions={k: v for k, v in found.items() if v})


def _of(
    survey: Survey, question: Question, now: RoundTally, then: RoundTally
) -> tuple[Difference, ...]:
    """Nothing where one of the rounds has no estimate."""
    sides = [tally.of(survey, question) for tally in (now, then)]
    if any(reports < survey.minimum_reports for reports, _ in sides):
        return ()
    whole = [statements(question, cells, reports) for reports, cells in sides]
    half = [statements(question, cells, reports, halved(CONFIDENCE)) for reports, cells in sides]
    found = differences((whole[0], whole[1]), (half[0], half[1]), looks=False)
    return tuple(rows(question.labels, found))


def rows(labels: Sequence[str], found: Differences) -> Iterator[Difference]:
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
