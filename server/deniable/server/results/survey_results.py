"""Results of one survey: from its tallies to the document, round by round."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from hashlib import blake2b

import msgspec
from msgspec import UNSET

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.results.annotations import events
from deniable.server.results.answers import (
    about,
    crossed_rounds,
    distribution_rounds,
    floors,
    question_rounds,
)
from deniable.server.results.comparison import changes, round_before
from deniable.server.results.document import (
    Change,
    Crossed,
    Distribution,
    Fit,
    QuestionResult,
    Results,
    Round,
    RoundFacts,
)
from deniable.server.results.estimate_cache import Counts, EstimateCache
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.notes import notes, shuffled
from deniable.server.results.round_selection import (
    EARLY,
    RoundSelection,
    round_facts,
    rows_per_question,
    rows_per_round,
    select_rounds,
    state_at,
)
from deniable.server.store import Annotation, PublishedSurvey, RoundTally, Store
from deniable.shared.errors import Refused
from deniable.shared.survey.kinds.base import Question

ROWS_PER_BATCH = 8_192  # of rounds that are estimated and held in memory together
MAX_CACHED_ROUND_ROWS = 256
ROWS_PER_ROW = 6  # what a row's objects take of the cache, next to the numbers of an estimate


class SurveyEstimates:
    """Results of one survey, estimated as they are read.

    JSON, CSV, the command, Python and pages are all views of this object; it is made once per
    request.
    """

    def __init__(
        self,
        published: PublishedSurvey,
        tallies: Iterable[RoundTally],
        now: datetime,
        selection: RoundSelection | None = None,
        annotations: Sequence[Annotation] = (),
        cache: EstimateCache | None = None,
        max_rows: int | None = None,
    ) -> None:
        """`max_rows` limits the rows of each round."""
        self.published, self.survey, self.now = published, published.survey, now
        self._cache = EstimateCache() if cache is None else cache
        self.selection = selection or RoundSelection(
            self.survey.first_round, self.survey.last_round
        )
        self._tallies = {tally.round: tally for tally in tallies}
        self._ascending = sorted(self._tallies)
        self._annotations = annotations
        too_long = max_rows is not None and rows_per_round(self.survey) > max_rows
        self._max_rows = rows_per_question(self.survey, max_rows or 0) if too_long else {}
        begun = self.selection.begun(self.survey, now)
        shown = {number for number in self._tallies if number in self.selection}
        self.facts = {number: self._facts(number) for number in sorted(shown.union(begun))}

    @cached_property
    def header(self) -> Results:
        """The document without its rounds."""
        survey = self.survey
        return Results(
            survey=self.published.id,
            name=survey.name,
            title=survey.title,
            state=state_at(self.published, self.now),
            epsilon=survey.round_epsilon,
            lifetime_epsilon=survey.lifetime_epsilon,
            period=survey.period,
            minimum_reports=survey.minimum_reports,
            confidence=CONFIDENCE,
            about={question.name: about(self._cache, question) for question in survey.questions},
            ask=1 if survey.asks_one else UNSET,
            repeat_rounds=survey.repeat_rounds if survey.repeats else UNSET,
            left_out=self.selection.left_out or UNSET,
            notes=notes(survey),
            annotations=events(survey, self._annotations) if self._annotations else UNSET,
            rounds=(),
        )

    def document(self) -> Results:
        return msgspec.structs.replace(self.header, rounds=tuple(self.rounds()))

    def rounds(self) -> Iterator[Round]:
        """Yield every round, of which only a few are in memory at a time."""
        numbers = [*self.facts]
        size = max(1, ROWS_PER_BATCH // rows_per_round(self.survey))
        for first in range(0, len(numbers), size):
            yield from self.estimated(numbers[first : first + size])

    def history(self, question: Question, most: int) -> list[tuple[int, QuestionResult]]:
        """Return one question's results in the newest rounds that have reports, at most so many."""
        numbers = [number for number in self.facts if number in self._tallies][-most:]
        counts = [self._counts(question, number) for number in numbers]
        results = question_rounds(self._cache, self.survey, question, counts)
        return [*zip(numbers, results, strict=True)]

    def estimated(self, numbers: Sequence[int]) -> list[Round]:
        """Return these rounds. Each is the same, to the last bit, whatever the others are."""
        before = self._before(numbers)
        keys = [
            ("round", self.published.id, self._state(number), self._state(before.get(number)),
             *self._max_rows.items())
            for number in numbers
        ]  # fmt: skip
        return self._cache.get(
            keys, lambda missing: self._estimate([numbers[index] for index in missing]), _rows
        )

    def _estimate(self, numbers: Sequence[int]) -> list[Round]:
        survey, cache = self.survey, self._cache
        tallies = [self._tallies.get(number) for number in numbers]
        asked = [
            (question, [self._counts(question, number) for number in numbers])
            for question in survey.questions
        ]
        answers = [
            question_rounds(cache, survey, *each, self._max_rows.get(each[0].name))
            for each in asked
        ]
        curves = [distribution_rounds(cache, *each) for each in asked]
        columns = zip(
            round_fits(survey, tallies, cache),
            zip(*answers, strict=True),
            zip(*curves, strict=True),
            crossed_rounds(cache, survey, tallies, [self._is_open(number) for number in numbers]),
            map(changes(cache, survey, self._before(numbers), self._counts).get, numbers),
            strict=True,
        )
        return [
            self._round(self.facts[number], tally, *column)
            for number, tally, column in zip(numbers, tallies, columns, strict=True)
        ]

    def _round(
        self,
        facts: RoundFacts,
        tally: RoundTally | None,
        fits: dict[str, Fit],
        answers: Sequence[QuestionResult],
        curves: Sequence[Distribution | None],
        crossed: tuple[Crossed, ...],
        change: Change | None,
    ) -> Round:
        named = zip(answers, curves, strict=True)
        return Round(
            **msgspec.structs.asdict(facts),
            warning=warning(self.survey, tally, fits),
            fit=fits,
            floor={answer.name: answer.floor for answer in answers},
            floors=floors(self.survey, tally) or UNSET,
            questions={answer.name: answer.rows for answer in answers},
            rows_left_out={a.name: a.left_out for a in answers if a.left_out} or UNSET,
            distributions={answer.name: curve for answer, curve in named if curve} or UNSET,
            cross=crossed or UNSET,
            change=change and _within(change, answers),
            shuffled=shuffled(self.survey, facts.reports, self._cache) or UNSET,
            vectors={answer.name: answer.whole for answer in answers if answer.whole} or UNSET,
        )

    def _state(self, number: int | None) -> Hashable:
        """Return what a round's results depend on."""
        if number is None:
            return None
        tally = self._tallies.get(number)
        counts = tally and (tally.reports, blake2b(tally.cells.tobytes()).digest())
        return number, self._is_open(number), counts

    def _facts(self, number: int) -> RoundFacts:
        return round_facts(self.published, number, self._tallies.get(number), self.now)

    def _is_open(self, number: int) -> bool:
        known = self.facts.get(number)
        return (known or self._facts(number)).open

    def _counts(self, question: Question, number: int) -> Counts:
        tally = self._tallies.get(number)
        return Counts.of(self.survey, question, tally, self._is_open(number))

    def _before(self, numbers: Sequence[int]) -> dict[int, int]:
        """Map each round with reports to the last earlier one that has some."""
        before = {n: round_before(n, self._ascending) for n in numbers if n in self._tallies}
        return {number: since for number, since in before.items() if since is not None}


def stored_estimates(
    store: Store,
    published: PublishedSurvey,
    now: datetime,
    selection: RoundSelection,
    cache: EstimateCache | None = None,
    max_rows: int | None = None,
) -> SurveyEstimates:
    """Read the tallies of these rounds from the store."""
    tallies = store.tallies(published.sequence, *selection.stored_range(published.survey))
    annotations = store.annotations(published.sequence)
    return SurveyEstimates(published, tallies, now, selection, annotations, cache, max_rows)


def survey_results(
    published: PublishedSurvey,
    tallies: Iterable[RoundTally],
    now: datetime,
    number: int | None = None,
    selection: RoundSelection | None = None,
    annotations: Sequence[Annotation] = (),
    cache: EstimateCache | None = None,
) -> Results:
    """Return the whole document.

    It has every round that has begun or has reports, the selected ones, or only round `number`.
    Refused where that round has not begun.
    """
    estimates = SurveyEstimates(published, tallies, now, selection, annotations, cache)
    if number is None:
        return estimates.document()
    check_round(estimates, number)
    return msgspec.structs.replace(estimates.header, rounds=tuple(estimates.estimated([number])))


def check_round(estimates: SurveyEstimates, number: int) -> None:
    if number in estimates.facts:
        return
    survey = estimates.survey
    first, last = survey.first_round, select_rounds(survey, estimates.now - EARLY).last
    begun = f"its rounds so far are {first} to {last}" if first <= last else "none has begun"
    raise Refused(f"survey {survey.name!r} has no round {number} yet; {begun}")


def _rows(period: Round) -> float:
    """Return what a round takes of the cache. Long rounds are made again from their estimates."""
    crossed = sum(len(table.rows) for table in period.cross or ())
    rows = crossed + sum(len(rows) for rows in period.questions.values())
    points = sum(len(curve.points) for curve in (period.distributions or {}).values())
    return ROWS_PER_ROW * (rows + points) if rows <= MAX_CACHED_ROUND_ROWS else math.inf


def _within(change: Change, answers: Sequence[QuestionResult]) -> Change:
    """Leave out the differences of rows that are left out."""
    cut = {answer.name: {row.label for row in answer.rows} for answer in answers if answer.left_out}
    questions = {
        name: tuple(row for row in rows if row.label in cut[name]) if name in cut else rows
        for name, rows in change.questions.items()
    }
    return msgspec.structs.replace(change, questions=questions) if cut else change
