"""Results of one survey, computed from its tallies by round, within the limits of a response."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from itertools import groupby

import msgspec
from msgspec import UNSET, UnsetType

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import CONFIDENCE, Reading, reading
from deniable.server.estimation.trend import MAX_LENGTH
from deniable.server.results.annotations import events, events_by_round
from deniable.server.results.answers import (
    about,
    changes,
    floors,
    forecast,
    located_changes,
    question_rounds,
    round_fits,
    smoothed,
    warning,
)
from deniable.server.results.breakdown import (
    crowds_by_value,
    label_rounds,
    medians,
    rows_by_label,
)
from deniable.server.results.document import (
    ByLabel,
    Change,
    ChangePoint,
    Crossed,
    Distribution,
    Event,
    Fit,
    Forecast,
    Period,
    QuestionResult,
    Relayed,
    Results,
    Round,
    RoundFacts,
    Smoothed,
)
from deniable.server.results.estimate_cache import EstimateCache, Pool
from deniable.server.results.periods import Division, divide, pools
from deniable.server.results.round_details import crossed_rounds, distribution_rounds
from deniable.server.results.sentences import notes, round_note, shuffled, shuffled_with_labels
from deniable.server.store import (
    Annotation,
    Crowd,
    LabelCrowds,
    PublishedSurvey,
    RoundTally,
    Store,
    StoreReader,
)
from deniable.server.store.records import SETTLING
from deniable.shared.errors import Refused, quantity
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MAX_ROUNDS = 400  # rounds per response: more than a year of days
MAX_ROWS = 50_000  # rows per response
MAX_CELLS = 2**21  # cells read per response: 16 MB
ROWS_OF_A_TEXT = 100  # assumed number of texts found in a round
ROWS_PER_BATCH = 8_192  # rows of all rounds that are estimated together
MAX_CACHED_ROUND_ROWS = 256
ROWS_PER_ROW = 6  # size of a finished row in the cache, relative to an estimate's numbers
EARLY = timedelta(days=1)  # reports may arrive up to an hour before their round

PERIOD_OPEN = "a round still accepts reports, so all intervals hold for repeated looks"
POOLED = (
    "low_these to high_these is about the answers in these reports, {} of {}; low to high "
    "allows for the same people in every round"
)


@dataclass(frozen=True)
class RoundSelection:
    """Rounds from `first` to `last`; `left_out` is the number of earlier rounds also requested."""

    first: int
    last: int
    left_out: int = 0
    is_complete: bool = False  # whether to read all earlier rounds too, for changes

    def stored_range(self, survey: Survey) -> tuple[int | None, int | None]:
        """Return the first and the last round to read from the store.

        They include the rounds before the first that changes and trends need. A small survey is
        read in full, so that every request detects a tally that damage has moved to another round.
        """
        if survey.rounds <= rounds_per_response(survey):
            return None, None
        before = MAX_LENGTH if survey.most_change else 1
        return None if self.is_complete else self.first - before, self.last

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def begun(self, survey: Survey, now: datetime) -> Iterator[int]:
        """Yield the rounds of this selection that have begun."""
        for number in range(self.first, self.last + 1):
            if survey.round_starts(number) > now:
                return
            yield number


def select_rounds(
    survey: Survey,
    now: datetime,
    first: int | None = None,
    last: int | None = None,
    max_rounds: int | None = None,
) -> RoundSelection:
    """Return the newest rounds that may have reports and fit into a response."""
    limit = rounds_per_response(survey) if max_rounds is None else max_rounds
    begun = min(survey.last_round, survey.round_of((now + EARLY).date()))
    end = begun if last is None else min(begun, last)
    start = survey.first_round if first is None else max(survey.first_round, first)
    shown = max(start, end - limit + 1)
    return RoundSelection(shown, end, shown - start)


def rounds_per_response(survey: Survey) -> int:
    """Return the number of rounds that fit into MAX_ROWS and MAX_CELLS, but at least 1."""
    return max(1, min(MAX_ROUNDS, MAX_ROWS // rows_per_round(survey), rounds_in_memory(survey)))


def rounds_in_memory(survey: Survey) -> int:
    """Return the number of rounds whose tallies may be in memory at the same time."""
    cells = survey.cells * (1 + sum(label.value_limit + 1 for label in survey.labels))
    cells += sum(one.mechanism.cells * other.mechanism.cells for one, other in survey.crossed)
    return max(1, MAX_CELLS // cells)


def rows_per_round(survey: Survey) -> int:
    crossed = (
        3 * len(one.answer_labels) * len(other.answer_labels) for one, other in survey.crossed
    )
    rows = sum(len(q.labels) or ROWS_OF_A_TEXT for q in survey.questions)
    return rows + sum(crossed) + (rows_by_label(survey) if survey.labels else 0)


def rows_per_question(survey: Survey, max_rows: int) -> dict[str, int]:
    """Divide `max_rows` among questions: short ones are complete, and long ones share the rest."""
    left, shares = max_rows, dict[str, int]()
    ascending = sorted(survey.questions, key=lambda question: len(question.labels))
    for index, question in enumerate(ascending):
        shares[question.name] = min(len(question.labels), left // (len(ascending) - index))
        left -= shares[question.name]
    return shares


class SurveyEstimates:
    """Results of one survey, estimated lazily; created once per request.

    JSON, CSV, the command, Python and pages are all views of this object.
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
        by: Division | None = None,
        arrived: Mapping[int, int] | None = None,
        crowds: Mapping[int, Crowd] | None = None,
    ) -> None:
        """Index the tallies that may be shown; `max_rows` limits the rows of each round.

        `arrived` is the number of reports by round, including those that are not shown yet.
        """
        self._by = by
        self.published, self.survey, self.now = published, published.survey, now
        self._cache = EstimateCache() if cache is None else cache
        self.selection = selection or RoundSelection(
            self.survey.first_round, self.survey.last_round
        )
        counted = {tally.round: tally for tally in tallies}
        self._reports = {number: tally.reports for number, tally in counted.items()}
        self.arrived = self._reports if arrived is None else arrived
        self._tallies = estimated_tallies(published, counted, now)
        self._ascending = sorted(self._tallies)
        self._annotations, self._crowds = annotations, crowds
        too_long = max_rows is not None and rows_per_round(self.survey) > max_rows
        self._max_rows = rows_per_question(self.survey, max_rows or 0) if too_long else {}
        begun = self.selection.begun(self.survey, now)
        shown = {number for number in counted if number in self.selection}
        self._readings, self._newest = dict[int, Reading](), dict[int, Round]()
        self._pools = dict[int, Pool]()
        self.facts = dict[int, RoundFacts]()
        self.facts |= {number: self._facts(number) for number in sorted(shown.union(begun))}

    @cached_property
    def header(self) -> Results:
        """Document without its rounds."""
        survey = self.survey
        return Results(
            survey=self.published.id,
            name=survey.name,
            title=survey.title,
            language=survey.language or UNSET,
            state=self.published.state_at(self.now),
            epsilon=survey.round_epsilon,
            lifetime_epsilon=survey.lifetime_epsilon,
            period=survey.period,
            minimum_reports=survey.minimum_reports,
            confidence=CONFIDENCE,
            about={question.name: about(question, survey) for question in survey.questions},
            follows=survey.follows._asdict() if survey.follows else UNSET,
            ask=1 if survey.asks_one else UNSET,
            repeat_rounds=survey.repeat_rounds if survey.repeats else UNSET,
            by=tuple(label.name for label in survey.labels) or UNSET,
            left_out=self.selection.left_out or UNSET,
            notes=notes(survey),
            annotations=self.events or UNSET,
            most_change=survey.most_change or UNSET,
            trends=self.trends if survey.most_change else UNSET,
            changes=self.changes if self._by else UNSET,
            periods=tuple(self.periods(self._by)) if self._by else UNSET,
            rounds=(),
        )

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return events(self.survey, self._annotations) if self._annotations else ()

    @property
    def version(self) -> str:
        """Digest of the counts: equal for everyone who sees the same results."""
        counted = _digest(map(self._pool, self._ascending))
        return blake2b(self.published.id.encode() + counted, digest_size=6).hexdigest()

    def document(self) -> Results:
        return msgspec.structs.replace(self.header, rounds=tuple(self.rounds()))

    def rounds(self) -> Iterator[Round]:
        """Yield every round, with only a few in memory at a time."""
        numbers = [*self.facts]
        size = max(1, ROWS_PER_BATCH // rows_per_round(self.survey))
        for first in range(0, len(numbers), size):
            yield from self.estimated(numbers[first : first + size])

    def is_waiting(self, number: int) -> bool:
        """Return whether reports of a round have arrived, but too few to be shown."""
        return number in self.arrived and not self._reports.get(number)

    def check_round(self, number: int) -> None:
        """Refuse a round that has not begun."""
        if number not in self.facts:
            first, last = self.survey.first_round, select_rounds(self.survey, self.now - EARLY).last
            begun = (
                f"its rounds so far are {first} to {last}" if first <= last else "none has begun"
            )
            raise Refused(f"survey {self.survey.name!r} has no round {number} yet; {begun}")

    def history(
        self, question: Question, most: int | None = None
    ) -> list[tuple[int, QuestionResult]]:
        """Return one question's results in every round with reports, or in the `most` newest."""
        numbers = [number for number in self.facts if number in self._tallies][-(most or 0) :]
        counts = [self._pool(number).counts(self.survey, question) for number in numbers]
        results = question_rounds(self._cache, self.survey, question, counts)
        return [*zip(numbers, results, strict=True)]

    def newest(self, question: str, most: int) -> Round | None:
        """Return the newest round with an estimate of a question, among the `most` newest."""
        numbers = [number for number, facts in self.facts.items() if facts.reports]
        for number in reversed(numbers[-most:]):
            if number not in self._newest:
                (self._newest[number],) = self.estimated([number])
            if self._newest[number].questions[question][0].estimate is not None:
                return self._newest[number]
        return None

    def estimated(self, numbers: Sequence[int]) -> list[Round]:
        """Return these rounds; no bit of them depends on which other rounds are requested."""
        before = self._before(numbers)
        earlier = [self._pool(before[n]) if n in before else None for n in numbers]
        return self._estimated([*map(self._pool, numbers)], earlier)

    def periods(self, by: Division) -> list[Period]:
        """Return the periods of this selection, each compared with the one before."""
        ranges = [*divide(self.survey, [*self.facts], by, self.events)]
        newest = self.survey.round_of(self.now.date())
        made = pools(self.survey, ranges, self._tallies, self._reading, newest)
        earlier, last = list[Pool | None](), None
        for pool in made:
            earlier.append(last if pool.reports else None)
            last = pool if pool.reports else last
        words, forged = events_by_round(self.events) if by == "event" else {}, self.forged
        return [
            _period(pool, estimated, words.get(pool.rounds.start), forged, self.survey)
            for pool, estimated in zip(made, self._estimated(made, earlier), strict=True)
        ]

    @cached_property
    def changes(self) -> dict[str, tuple[ChangePoint, ...]]:
        """Changes of each question over this selection."""
        survey, series = self.survey, self._series([*self.facts])

        def locate(_: list[int]) -> list[dict[str, tuple[ChangePoint, ...]]]:
            return [{q.name: located_changes(survey, q, series) for q in survey.questions}]

        key = "changes", self.published.id, _digest(series)
        return self._cache.get([key], locate, lambda made: sum(map(len, made.values())))[0]

    @cached_property
    def trends(self) -> dict[str, tuple[Smoothed, ...]]:
        """Smoothed estimates of each question in this selection, if `most_change` is stated."""
        survey, cache, numbers = self.survey, self._cache, [*self.facts]
        if not survey.most_change or not numbers:
            return {}
        first = max(survey.first_round, numbers[0] - MAX_LENGTH)
        series = self._series(range(first, numbers[-1] + 1))
        made = {q.name: smoothed(cache, survey, q, series) for q in survey.questions}
        return {
            name: tuple(row for row in rows if row.round in self.facts)
            for name, rows in made.items()
        }

    @cached_property
    def forged(self) -> frozenset[int]:
        """Rounds whose counts cannot come from honest reports alone."""
        return self._forged([*self.facts])

    def _forged(self, numbers: Iterable[int]) -> frozenset[int]:
        tallied = [number for number in numbers if number in self._tallies]

        def check(_: list[int]) -> list[frozenset[int]]:
            tallies = [self._tallies[number] for number in tallied]
            fits = zip(tallied, round_fits(self.survey, tallies, self._cache), strict=True)
            return [frozenset(n for n, fit in fits if any(f.forged for f in fit.values()))]

        key = "forged", self.published.id, _digest(map(self._pool, tallied))
        return self._cache.get([key], check, len)[0]

    def _series(self, numbers: Sequence[int]) -> list[Pool]:
        """Return the reports of each round or span, except rounds with forged reports."""
        survey, forged = self.survey, self._forged(numbers)
        if not survey.repeats:
            made = map(self._pool, numbers)
            return [replace(p, members=()) if p.rounds[0] in forged else p for p in made]
        spans = [[*span] for _, span in groupby(numbers, lambda n: survey.span_of(n)[0])]
        ranges = [range(span[0], span[-1] + 1) for span in spans]
        honest = {n: tally for n, tally in self._tallies.items() if n not in forged}
        return pools(survey, ranges, honest, self._reading)

    @property
    def due(self) -> list[int]:
        """Rounds that should have reports by now.

        Reports of a later round would show the minute in which the first of them came.
        """
        survey = self.survey
        arrived = survey.leaves_until if survey.redraws else survey.round_ends
        return [number for number in self.facts if arrived(number) <= self.now]

    def _estimated(self, made: Sequence[Pool], earlier: Sequence[Pool | None]) -> list[Round]:
        keys = [
            (
                "round",
                self.published.id,
                self.survey.language,  # sentences contain units
                self._facts_of(pool),
                pool.key,
                before and before.key,
                self._label_crowds(pool),
                *self._max_rows.items(),
            )
            for pool, before in zip(made, earlier, strict=True)
        ]

        def estimate(missing: list[int]) -> list[Round]:
            return self._estimate([made[n] for n in missing], [earlier[n] for n in missing])

        return self._cache.get(keys, estimate, _rows)

    def _estimate(self, made: Sequence[Pool], earlier: Sequence[Pool | None]) -> list[Round]:
        survey, cache = self.survey, self._cache
        tallies, readings = [pool.tally for pool in made], [pool.reading for pool in made]
        crossed: list[tuple[Crossed, ...]] = [()] * len(made)
        if survey.crossed and all(len(pool.members) <= 1 for pool in made):
            crossed = crossed_rounds(cache, survey, tallies, readings)
        by_label: list[tuple[ByLabel, ...]] = [()] * len(made)
        if survey.labels:
            by_label = label_rounds(cache, survey, [pool.members for pool in made], readings)
        since = changes(cache, survey, made, earlier)
        answers, curves = [], []
        for question in survey.questions:
            counts = [pool.counts(survey, question) for pool in made]
            max_rows = self._max_rows.get(question.name)
            answers.append(question_rounds(cache, survey, question, counts, max_rows))
            table = ESTIMATORS[question.estimation].table(question)
            curve = None
            if table:
                pairs = zip(made, earlier, strict=True)
                weighed = [pool.weighed(survey, question, before) for pool, before in pairs]
                curve = distribution_rounds(cache, question, table, weighed)
            curves.append(curve or [None] * len(made))
        by_round = zip(*answers, strict=True), zip(*curves, strict=True)
        fits = round_fits(survey, tallies, cache)
        columns = zip(made, *by_round, fits, crossed, by_label, since, strict=True)
        return [self._round(*column) for column in columns]

    def _round(
        self,
        pool: Pool,
        answers: Sequence[QuestionResult],
        curves: Sequence[Distribution | None],
        fits: dict[str, Fit],
        crossed: tuple[Crossed, ...],
        by_label: tuple[ByLabel, ...],
        change: Change | None,
    ) -> Round:
        facts, tally = self._facts_of(pool), pool.tally
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
            forecasts=self._forecasts(facts, pool) or UNSET,
            change=change and _within(change, answers),
            shuffled=(hidden := shuffled(self.survey, facts)) or UNSET,
            vectors={answer.name: answer.whole for answer in answers if answer.whole} or UNSET,
            labels=self._with_crowds(by_label, pool) if hidden and by_label else by_label or UNSET,
            medians=(by_label and tuple(medians(self.survey, by_label))) or UNSET,
        )

    def _with_crowds(self, by_label: tuple[ByLabel, ...], pool: Pool) -> tuple[ByLabel, ...]:
        """Add to each value what a shuffle hides of the reports with it."""
        crowds, key = self._label_crowds(pool), self.published.label_key
        smallest = crowds_by_value(self.survey, key, by_label, crowds)
        return tuple(
            msgspec.structs.replace(part, shuffled=shuffled_with_labels(self.survey, people))
            if people
            else part
            for part, people in zip(by_label, smallest, strict=True)
        )

    def _label_crowds(self, pool: Pool) -> tuple[tuple[int, LabelCrowds], ...]:
        """Return the smallest crowds by labels, which only few surveys have, of a pool's rounds."""
        crowds = (self._crowds or {}).get
        of_rounds = ((number, crowds(number, Crowd()).by_labels) for number in pool.rounds)
        return tuple((number, by_labels) for number, by_labels in of_rounds if by_labels)

    def _facts(self, number: int) -> RoundFacts:
        if number in self.facts:
            return self.facts[number]
        survey, read = self.survey, self._reading(number)
        state = self.published.round_state(number, self.now)
        first_day, last_day = survey.round_days(number)
        return RoundFacts(
            round=number,
            first_day=first_day,
            last_day=last_day,
            state=state,
            final_on=survey.taken_until(number).date().isoformat(),
            **read._asdict(),
            reports=self._reports.get(number, 0),
            relayed=self._relayed([number]),
            note=round_note(survey, number, state, read, waiting=self.is_waiting(number)),
        )

    def _facts_of(self, pool: Pool) -> RoundFacts:
        """Return the facts of a round, or of a period as of its last round."""
        first, last = (self._facts(pool.rounds[end]) for end in (0, -1))
        if first is last:
            return first
        return msgspec.structs.replace(
            last,
            round=first.round,
            first_day=first.first_day,
            reports=pool.reports,
            relayed=self._relayed(pool.rounds),
            note=None,
            **pool.reading._asdict(),
        )

    def _relayed(self, numbers: Sequence[int]) -> Relayed | UnsetType:
        """Return the crowds of final rounds: earlier, they would show each report as it arrives."""
        if self._crowds is None or self.survey.sealed_to is None:
            return UNSET
        if not {*numbers}.isdisjoint(self.published.unfinished(self.now)):
            return UNSET
        crowds = {number: self._crowds.get(number, Crowd()) for number in numbers}
        return Relayed(
            smallest_batch=min((c.smallest for c in crowds.values() if c.smallest), default=0),
            alone=any(self.arrived.get(n, 0) > crowd.reports for n, crowd in crowds.items()),
            dropped=sum(crowd.dropped for crowd in crowds.values()),
        )

    def _forecasts(self, facts: RoundFacts, pool: Pool) -> dict[str, Forecast]:
        """Return forecasts for a round whose intervals become narrower without more reports."""
        if facts.state != "collecting" or not facts.any_time:
            return {}
        made = {
            question.name: forecast(self._cache, question, pool.counts(self.survey, question))
            for question in self.survey.questions
        }
        return {name: margins for name, margins in made.items() if margins}

    def _reading(self, number: int) -> Reading:
        if number not in self._readings:
            closed = self.published.closed
            self._readings[number] = reading(self.survey, number, self.now - SETTLING, closed)
        return self._readings[number]

    def _pool(self, number: int) -> Pool:
        """Return the reports of one round."""
        if number not in self._pools:
            tally = self._tallies.get(number)
            members = () if tally is None else (tally,)
            self._pools[number] = Pool(range(number, number + 1), members, self._reading(number))
        return self._pools[number]

    def _before(self, numbers: Sequence[int]) -> dict[int, int]:
        """Map each round with reports to the last earlier round with reports."""
        earlier = {n: bisect_left(self._ascending, n) for n in numbers if n in self._tallies}
        return {number: self._ascending[count - 1] for number, count in earlier.items() if count}


def estimated_tallies(
    published: PublishedSurvey, shown: Mapping[int, RoundTally], now: datetime
) -> dict[int, RoundTally]:
    """Return the shown counts whose estimates are also shown, as `looks` determines."""
    survey, closed = published.survey, published.closed
    return {
        number: tally
        for number, tally in shown.items()
        if reading(survey, number, now - SETTLING, closed).covers != "nothing"
    }


def shown_tallies(
    reader: StoreReader,
    published: PublishedSurvey,
    now: datetime,
    first: int | None = None,
    last: int | None = None,
) -> tuple[dict[int, RoundTally], dict[int, int]]:
    """Return the counts that anyone may see, and the number of all reports, by round.

    They are complete in a final round, and grow in steps before (`release_steps`).
    """
    counted, unfinished = reader.tallies(published.sequence, first, last), published.unfinished(now)
    shown = {tally.round: tally for tally in counted if tally.round not in unfinished}
    released = reader.released(published.sequence, first, last) if unfinished else []
    shown |= {tally.round: tally for tally in released if tally.round in unfinished}
    return dict(sorted(shown.items())), {tally.round: tally.reports for tally in counted}


def shown_counters(reader: StoreReader, published: PublishedSurvey, now: datetime) -> Counter[str]:
    """Return a survey's reports by outcome: in whole steps, until all its rounds are final."""
    counters, step = Counter(reader.counters(published.sequence)), published.survey.step
    if not published.unfinished(now):
        return counters
    stepped = +Counter({outcome: n - n % step for outcome, n in counters.items()})
    stepped["accepted"], _ = shown_reports(reader, published, now)
    return stepped


def shown_reports(
    reader: StoreReader, published: PublishedSurvey, now: datetime
) -> tuple[int, bool]:
    """Return the shown number of reports of all rounds, and whether any report has arrived.

    It reads a few rounds at a time.
    """
    survey, total, any_arrived = published.survey, 0, False
    rounds = rounds_in_memory(survey)
    for first in range(survey.first_round, survey.last_round + 1, rounds):
        tallies, arrived = shown_tallies(reader, published, now, first, first + rounds - 1)
        total += sum(tally.reports for tally in tallies.values())
        any_arrived |= bool(arrived)
    return total, any_arrived


def stored_estimates(
    store: Store,
    published: PublishedSurvey,
    now: datetime,
    selection: RoundSelection,
    cache: EstimateCache | None = None,
    max_rows: int | None = None,
    by: Division | None = None,
) -> SurveyEstimates:
    """Read everything that the results depend on from one snapshot of the store."""
    sequence = published.sequence
    with store.snapshot() as reader:
        closed = reader.survey_states().get(sequence, published.closed)
        if closed != published.closed:
            moment = max(now, reader.closings().get(sequence, now))  # by a clock that may be slow
            published = replace(published, closed=closed, closing=moment)
        stored = selection.stored_range(published.survey)
        tallies, arrived = shown_tallies(reader, published, now, *stored)
        annotations, crowds = reader.annotations(sequence), reader.crowds(sequence)
    return SurveyEstimates(
        published,
        tallies.values(),
        now,
        selection,
        annotations,
        cache,
        max_rows,
        by,
        arrived,
        crowds,
    )


def survey_results(
    published: PublishedSurvey,
    tallies: Iterable[RoundTally],
    now: datetime,
    number: int | None = None,
    selection: RoundSelection | None = None,
    cache: EstimateCache | None = None,
    crowds: Mapping[int, Crowd] | None = None,
) -> Results:
    """Return the document with every round that has begun or has reports, or only `number`."""
    estimates = SurveyEstimates(published, tallies, now, selection, cache=cache, crowds=crowds)
    if number is None:
        return estimates.document()
    estimates.check_round(number)
    return msgspec.structs.replace(estimates.header, rounds=tuple(estimates.estimated([number])))


def json_chunks(header: Results, rounds: Iterable[Round]) -> Iterator[bytes]:
    """Yield the JSON of the document with these rounds, keeping one in memory at a time."""
    opening = msgspec.json.encode(header)
    yield opening.removesuffix(b"]}")  # the end of the empty list `rounds`, the last field
    for number, period in enumerate(rounds):
        yield (b"," if number else b"") + msgspec.json.encode(period)
    yield b"]}"


def _digest(made: Iterable[Pool]) -> bytes:
    """Return a digest of everything that the estimates of these rounds depend on."""
    return blake2b(repr([pool.key for pool in made]).encode()).digest()


def _rows(period: Round) -> float:
    """Return the size of a round in the cache. Of long rounds, only the estimates are cached."""
    rows = sum(map(len, period.questions.values()))
    for table in period.cross or ():
        rows += len(table.rows) + sum(len(rates.rows) for rates in table.rates)
    for part in period.labels or ():
        rows += sum(map(len, part.questions.values()))
        rows += sum(map(len, part.effects.questions.values())) if part.effects else 0
    rows += sum(len(median.rows) for median in period.medians or ())
    points = sum(len(curve.points) for curve in (period.distributions or {}).values())
    return ROWS_PER_ROW * (rows + points) if rows <= MAX_CACHED_ROUND_ROWS else math.inf


def _period(
    pool: Pool, estimated: Round, event: str | None, forged: Collection[int], survey: Survey
) -> Period:
    """Return a period from the estimates of its pooled reports."""
    bad = tuple(number for number in pool.rounds if number in forged)
    facts = msgspec.structs.asdict(estimated)
    about = POOLED.format(quantity(pool.reports, "report"), quantity(len(pool.members), "round"))
    facts["note"] = "; ".join([about, *([PERIOD_OPEN] if pool.reading.any_time else [])])
    if bad:
        listed = ", ".join(map(survey.round_title, bad))
        facts["warning"] = f"this period contains forged reports ({listed}); do not rely on it"
    return Period(
        **facts,
        last_round=pool.rounds[-1],
        rounds=len(pool.members),
        event=event or UNSET,
        forged_rounds=bad,
    )


def _within(change: Change, answers: Sequence[QuestionResult]) -> Change:
    """Remove the differences of rows that are left out."""
    questions = dict(change.questions)
    for answer in answers:
        if answer.left_out and answer.name in questions:
            kept = {row.label for row in answer.rows}
            rows = questions[answer.name]
            questions[answer.name] = tuple(row for row in rows if row.label in kept)
    return msgspec.structs.replace(change, questions=questions)
