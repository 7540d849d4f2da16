"""The survey document: its questions, its owner and purpose, its rounds, and its privacy.

People write TOML. The published form is JSON with the same keys, in which every default and every
probability is written out. Its bytes never change, and their SHA-256 is the survey's id, so no
canonical form is needed.

A period divides a survey's days into numbered rounds, in UTC:

    once     0, from the survey's first day to its last
    day      days since 1970-01-01
    week     weeks that begin on a Monday, (days + 3) div 7
    month    (year - 1970) * 12 + month - 1

Each period is a row of PERIODS. `python -m tests.reference` writes the JavaScript client's table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.mechanism import Draw, random_pause
from deniable.shared.survey.kinds.base import Over, Question
from deniable.shared.survey.labels import Label, read_labels
from deniable.shared.survey.languages import (
    SURVEY_TEXTS,
    Texts,
    by_language,
    closest_language,
    read_languages,
    read_texts,
)
from deniable.shared.survey.questions import (
    MAX_ROUNDS,
    QUESTION_TEXTS,
    Follows,
    Names,
    parse_question,
    question_document,
    read_asks_one,
    read_cross,
    read_follows,
    read_most_change,
    read_repeat_rounds,
    read_sealing_key,
    read_show_when,
    what_is_asked,
)
from deniable.shared.survey.reader import Reader

FORMAT = 1
MAX_QUESTIONS = 100  # so that their numbers fit in one byte
MAX_DOCUMENT_BYTES = 4 * 2**20
MIN_GRACE_DAYS = 2  # if reports leave after their round, or results are shown twice
MAX_SPREAD_DAYS = 7  # after a round in which its reports leave, or half the grace if that is less
EARLY = timedelta(hours=1)  # clocks differ: reports are accepted this long before their round
EPOCH, DAY = date(1970, 1, 1), timedelta(days=1)
DEFAULT_STEP, MIN_STEP, MAX_STEP = 20, 5, 10**6
LOOKS = ("any-time", "twice", "once")  # when results of a round are shown

Symbols = tuple[int | None, ...]  # one per question; None: the install was not asked this question


class Block(NamedTuple):
    """Rounds, or the first rounds of spans, that begin in one calendar quarter."""

    quarter: str  # like "2026-Q4"
    rounds: range

    def answered(self, cost: int, budget: int) -> int:
        """Return how many rounds an install answers (`participation`), from billionths of ε.

        `cost` is that of a round, and `budget` that of one survey in a quarter.
        """
        return min(len(self.rounds), budget // cost)


@dataclass(frozen=True)
class Period:
    """Division of days into rounds: the number of a day's round, and the first day of a round."""

    name: str  # the value of `round` in a survey document
    every: str  # frequency for sentences: "every week"
    round_of: Callable[[date], int]
    first_day: Callable[[int], date] | None  # None: the survey's first day
    title: str  # the format of a round's name, for `strftime` of its first day
    short_title: str  # short form, so that three fit on a phone

    def starts(self, number: int, opens: date) -> datetime:
        return midnight(opens if self.first_day is None else self.first_day(number))

    def ends(self, number: int, closes: date) -> datetime:
        after = closes + DAY if self.first_day is None else self.first_day(number + 1)
        return midnight(after)

    def block_of(self, day: date, step: int = 1, first_round: int = 0) -> Block:
        """Return the rounds that begin in the quarter of a day.

        With a `step`, only those whose distance from `first_round` is a multiple of it.
        """
        month = day.month - (day.month - 1) % 3
        begins, ends = date(day.year, month, 1), date(day.year, month + 2, 30 + (month in (1, 10)))
        first, last = self.round_of(begins), self.round_of(ends)
        assert self.first_day is not None, "a survey that is asked once has no blocks"
        first += self.first_day(first) < begins
        first += (first_round - first) % step
        return Block(quarter_of(day), range(first, last + 1, step))


def quarter_of(day: date) -> str:
    """Return the calendar quarter of a day.

    >>> quarter_of(date(2026, 11, 20))
    '2026-Q4'
    """
    return f"{day.year}-Q{(day.month + 2) // 3}"


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _days(day: date) -> int:
    return (day - EPOCH).days


PERIODS = {
    period.name: period
    for period in (
        Period("once", "once", lambda _: 0, None, "the only round", "%Y-%m-%d"),
        Period("day", "every day", _days, lambda n: EPOCH + n * DAY, "%Y-%m-%d", "%Y-%m-%d"),
        Period(
            "week",
            "every week",
            lambda day: (_days(day) + 3) // 7,
            lambda n: EPOCH + (7 * n - 3) * DAY,
            "week of %Y-%m-%d",
            "%Y-%m-%d",
        ),
        Period(
            "month",
            "every month",
            lambda day: (day.year - 1970) * 12 + day.month - 1,
            lambda n: date(1970 + n // 12, n % 12 + 1, 1),
            "%b %Y",
            "%b %Y",
        ),
    )
}


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Report of one install for one survey and round, made on the device."""

    symbols: Symbols
    unfit: tuple[str, ...]  # questions whose answer did not fit; for the app, never for the server


@dataclass(frozen=True)
class Survey:
    """Published survey: its questions, its days and its privacy."""

    name: str
    title: str
    purpose: str
    owner: str
    opens: date
    closes: date
    period: str  # the key `round` of the document
    grace_days: int
    retention_days: int
    minimum_reports: int
    questions: tuple[Question, ...]
    # each install is asked one random question; the key `ask` of the document
    asks_one: bool = False
    repeat_rounds: int = 1  # number of rounds that share one report; 1: each round has its own
    cross: tuple[Names, ...] = ()  # pairs of questions that are counted together
    sealed_to: str | None = None  # the public key to seal reports to, in hex
    # each report needs an unspent invitation code; the key `invitation` of the document
    by_invitation: bool = False
    close_at: int | None = None  # number of reports at which the server closes the survey
    labels: tuple[Label, ...] = ()  # sent in clear in front of each report
    looks: str = LOOKS[0]
    step: int = DEFAULT_STEP  # number of reports by which shown counts of an open round grow
    show_when: int | None = None  # planned margin at which estimates are shown, in % of the range
    most_change: float | None = (
        None  # of a true value from one round to the next, in % of the range
    )
    follows: Follows | None = None  # set if the results of another survey chose the questions
    language: str = ""  # of the texts of this object; empty if the document names no languages
    texts: tuple[Texts, ...] = ()  # translated texts by language, the default language first

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(texts.language for texts in self.texts)

    def in_language(self, wanted: str) -> Survey:
        """Return the survey with its texts in the language that is closest to a tag of BCP 47."""
        chosen = closest_language(wanted, self.languages) if self.texts else ""
        if chosen == self.language:
            return self
        texts = self.texts[self.languages.index(chosen)]
        pairs = zip(self.questions, texts.questions, strict=True)
        return replace(
            self,
            language=chosen,
            title=texts.title or self.title,
            purpose=texts.purpose or self.purpose,
            owner=texts.owner or self.owner,
            questions=tuple(replace(q, display=q.display.replaced(new)) for q, new in pairs),
        )

    @property
    def calendar(self) -> Period:
        return PERIODS[self.period]

    def round_of(self, day: date) -> int:
        return self.calendar.round_of(day)

    @property
    def first_round(self) -> int:
        return self.round_of(self.opens)

    @property
    def last_round(self) -> int:
        return self.round_of(self.closes)

    @property
    def rounds(self) -> int:
        """Number of rounds, including those that overlap the survey's days only partly."""
        return self.last_round - self.first_round + 1

    @property
    def repeats(self) -> bool:
        """True if reports are latched: kept and sent again (`repeat` in the document)."""
        return self.repeat_rounds > 1

    @property
    def redraws(self) -> bool:
        """True if each answer of a round may replace its report, which leaves after the round."""
        return self.questions[0].over != "first"

    def span_of(self, number: int) -> range:
        """Return the rounds that share one report with this round."""
        first = number - (number - self.first_round) % self.repeat_rounds
        return range(first, min(first + self.repeat_rounds, self.last_round + 1))

    def quarter_of(self, number: int) -> str:
        """Return the quarter in which a round, or its span, begins."""
        return quarter_of(self.round_starts(self.span_of(number)[0]).date())

    def charged_quarter(self, number: int, today: date) -> str:
        """Return the quarter that a round is charged to.

        That is today's for a survey that is asked once. Otherwise it is the quarter in which the
        round, or its span, begins, or the previous quarter if it began earlier: surveys that claim
        to have opened long ago must not spend the caps of many quarters on one day.
        """
        if self.calendar.first_day is None:
            return quarter_of(today)
        this_quarter = today.replace(month=today.month - (today.month - 1) % 3, day=1)
        begins = self.round_starts(self.span_of(number)[0]).date()
        return quarter_of(max(begins, this_quarter - DAY))

    def block_of(self, number: int) -> Block | None:
        """Return the block of a round; None if the survey is asked once."""
        if self.calendar.first_day is None:
            return None
        day = self.calendar.first_day(self.span_of(number)[0])
        return self.calendar.block_of(day, self.repeat_rounds, self.first_round)

    @property
    def draws(self) -> int:
        """Number of times that noise is drawn and charged for one install: once per span."""
        return -(-self.rounds // self.repeat_rounds)

    @cached_property
    def costs(self) -> Mapping[str, int]:
        """ε of each question, in billionths: the privacy cost of its answer in one round."""
        return {question.name: question.epsilon.billionths for question in self.questions}

    @cached_property
    def round_billionths(self) -> int:
        """ε of one round, in billionths: the sum over its questions, or with `ask` the largest.

        Latched reports of one span are equal, so the whole span costs no more than one round.
        If one question is drawn, a report is (question, symbol), and the draw does not depend on
        the answers. The probability of any report then differs between two people by a factor of
        at most e^ε of that question.
        """
        return (max if self.asks_one else sum)(self.costs.values())

    @property
    def round_epsilon(self) -> str:
        return decimal_text(self.round_billionths)

    @property
    def lifetime_billionths(self) -> int:
        """ε of all rounds, in billionths: the costs of all draws of noise add up.

        With latched reports, the whole transcript of an install is a function of its draws. Each
        draw has its own randomness and uses one set of answers (`report`). So for any two histories
        of answers, the probability of any transcript differs by a factor of at most e^ε per draw.
        Answers in the other rounds of a span do not enter any report.
        """
        return self.round_billionths * self.draws

    @property
    def lifetime_epsilon(self) -> str:
        return decimal_text(self.lifetime_billionths)

    @property
    def drawn_from(self) -> int:
        """Number of questions from which an install's question is drawn; 1 if all are asked."""
        return len(self.questions) if self.asks_one else 1

    @property
    def arms(self) -> Label | None:
        """The label that devices draw, if there is one."""
        return next((label for label in self.labels if label.is_drawn), None)

    @property
    def example_labels(self) -> dict[str, str | None]:
        """Labels of an example report: first values, and no text of an open set."""
        return {label.name: next(iter(label.listed), None) for label in self.labels}

    @property
    def labels_size(self) -> int:
        """Bytes of the labels in front of each report."""
        return sum(label.size for label in self.labels)

    @property
    def report_size(self) -> int:
        """Bytes of one report on the wire, the same for every label and question."""
        sizes = [question.mechanism.payload_size for question in self.questions]
        return self.labels_size + (1 + max(sizes) if self.asks_one else sum(sizes))

    @property
    def cells(self) -> int:
        """Counts of one question after another; with `ask`, also each question's reports."""
        cells = sum(question.mechanism.cells for question in self.questions)
        return cells + (len(self.questions) if self.asks_one else 0)

    @cached_property
    def crossed(self) -> tuple[tuple[Question, Question], ...]:
        by_name = {question.name: question for question in self.questions}
        return tuple((by_name[first], by_name[second]) for first, second in self.cross)

    def reports_of(self, people: int) -> int:
        """Return the expected number of reports per question from this many people."""
        return people // self.drawn_from

    def is_open(self, day: date) -> bool:
        return self.opens <= day <= self.closes

    def round_to_answer(self, day: date, ended: bool = False) -> int | None:
        """Return the round that answers of this day are about, or None if there is none.

        That is the day's own round, or if `ended` the last one that is over and still accepted.
        """
        if not ended:
            return self.round_of(day) if self.is_open(day) else None
        over = midnight(day) >= self.round_ends(self.last_round)
        number = self.last_round if over else self.round_of(day) - 1
        return number if number >= self.first_round and self.takes(number, day) else None

    def takes(self, number: int, day: date) -> bool:
        """Return whether the server accepts reports of an ended round on the whole of this day."""
        return midnight(day + DAY) <= self.taken_until(number)

    def round_starts(self, number: int) -> datetime:
        return self.calendar.starts(number, self.opens)

    def round_ends(self, number: int) -> datetime:
        return self.calendar.ends(number, self.closes)

    def round_days(self, number: int) -> tuple[str, str]:
        """Return the first and the last day of a round, like 2026-12-01."""
        days = self.round_starts(number).date(), self.round_ends(number).date() - DAY
        return days[0].isoformat(), days[1].isoformat()

    def round_title(self, number: int) -> str:
        """Return the name of a round on pages, like `Dec 2026`."""
        return f"{self.round_starts(number):{self.calendar.title}}"

    def round_short_title(self, number: int) -> str:
        return f"{self.round_starts(number):{self.calendar.short_title}}"

    def taken_from(self, number: int) -> datetime:
        """Return the time from which the server accepts reports of a round."""
        return self.round_starts(number) - EARLY

    def taken_until(self, number: int) -> datetime:
        """Return the time until which the server accepts reports: the end plus the grace."""
        return self.round_ends(number) + timedelta(days=self.grace_days)

    def accepted_rounds(self, now: datetime) -> list[int]:
        """Return the rounds whose reports the server accepts now."""
        latest = min(self.last_round, self.round_of((now + EARLY).date()))
        rounds = []
        for number in range(latest, self.first_round - 1, -1):
            if now >= self.taken_until(number):
                break
            rounds.append(number)
        return rounds if now >= self.taken_from(self.first_round) else []

    def first_look(self, number: int) -> datetime:
        """Return the time of the first of two looks at the results of a round (`looks`).

        Redrawn reports arrive only after the round, so their first look is in the middle of the
        grace.
        """
        wait = timedelta(days=self.grace_days) / 2 if self.redraws else DAY
        return self.round_ends(number) + wait

    def leaves_until(self, number: int) -> datetime:
        """Return the time until which redrawn reports leave, from the end of their round."""
        spread = min(MAX_SPREAD_DAYS * DAY, timedelta(days=self.grace_days) / 2)
        return self.round_ends(number) + spread

    def asks_the_same(self, other: Survey) -> bool:
        """Return True if both surveys ask the same; texts, labels and days may differ."""
        # spans start at each survey's first round, so compare with 1
        rounds = (self.period, self.asks_one, self.repeat_rounds)
        same_rounds = rounds == (other.period, other.asks_one, 1)
        own, others = (list(map(what_is_asked, survey.questions)) for survey in (self, other))
        return same_rounds and own == others

    def shares_drafts_with(self, other: Survey) -> bool:
        """Return True if a report of the other survey may be redrawn for an answer to this one.

        It leaves after the other's round, with the other's labels.
        """
        same_ends = self.calendar.first_day is not None or self.closes == other.closes
        return self.asks_the_same(other) and self.labels == other.labels and same_ends

    def unasked(self, names: Collection[str]) -> str | None:
        """Return the reason why answers with these names do not fit the survey, or None."""
        asked = [question.name for question in self.questions]
        if missing := [name for name in asked if name not in names]:
            needed = f"survey {self.name!r} needs an answer to every question"
            return f"{needed}, and {', '.join(missing)} is missing"
        if extra := [name for name in names if name not in asked]:
            return f"survey {self.name!r} asks for {', '.join(asked)}, not for {', '.join(extra)}"
        return None

    def report(self, answers: Mapping[str, object], draw: Draw) -> Report:
        """Return one randomized symbol per question, from all true answers.

        The operations do not depend on the answers. If only one question is asked, all answers are
        randomized and one symbol is kept, so the work and the randomness are the same for every
        question. The question is ⌊u d / 2^64⌋: each of d questions has probability 1 / d to within
        2^-64, the same for every install. This biases no estimate and affects no ε.
        """
        random_pause()
        drawn = draw(64) * len(self.questions) >> 64 if self.asks_one else None
        pairs = [(q.name, *q.report(answers[q.name], draw)) for q in self.questions]
        return _report(pairs, [drawn in (None, index) for index in range(len(pairs))])

    def redraw(self, kept: Symbols, answers: Mapping[str, object], draw: Draw) -> Report:
        """Return the report of a round after a later answer, as `Question.redraw` explains.

        If only one question is asked, it stays the one that was drawn first, and the answers to the
        others are randomized and discarded.
        """
        random_pause()
        symbols = zip(self.questions, kept, strict=True)
        pairs = [(q.name, *q.redraw(symbol or 0, answers[q.name], draw)) for q, symbol in symbols]
        return _report(pairs, [symbol is not None for symbol in kept])


def _report(pairs: Sequence[tuple[str, int, bool]], asked: Sequence[bool]) -> Report:
    symbols = (symbol for _, symbol, _ in pairs)
    unfit = (not fits for *_, fits in pairs)
    return Report(
        tuple((None, symbol)[sent] for symbol, sent in zip(symbols, asked, strict=True)),
        tuple(compress((name for name, _, _ in pairs), unfit)),
    )


def parse_toml(
    text: str, complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda table: table
) -> Survey:
    """Parse a survey in TOML; `complete` may fill in missing keys."""
    import tomllib

    try:
        return _parse(complete(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSurvey("survey file", f"is not TOML: {error}") from None


def parse_document(document: bytes) -> Survey:
    """Parse the exact bytes of a published survey. No key may be missing or repeated."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InvalidSurvey("document", f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        table = json.loads(document.decode("utf-8"), object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError):
        raise InvalidSurvey("document", "is not JSON with unique keys") from None
    survey = _parse(table)
    if json.loads(render_document(survey)) != table:
        raise InvalidSurvey("document", "has missing or superfluous keys; publish the survey again")
    return survey


def render_document(survey: Survey) -> bytes:
    """Return the bytes to publish. Render a survey only once, and keep these bytes."""
    repeat = {"repeat": "latched", "repeat_rounds": survey.repeat_rounds} if survey.repeats else {}
    translated = by_language({texts.language: texts.fields() for texts in survey.texts})
    table = {
        "deniable": FORMAT,
        "survey": {
            "name": survey.name,
            **({"languages": [*survey.languages]} if survey.texts else {}),
            "title": survey.title,
            "purpose": survey.purpose,
            "owner": survey.owner,
            **translated,
            "opens": survey.opens.isoformat(),
            "closes": survey.closes.isoformat(),
            "round": survey.period,
            "grace_days": survey.grace_days,
            "retention_days": survey.retention_days,
            "minimum_reports": survey.minimum_reports,
            **({"show_when": f"± {survey.show_when} points"} if survey.show_when else {}),
            **({"ask": 1} if survey.asks_one else {}),
            **repeat,
            **({"cross": [list(pair) for pair in survey.cross]} if survey.cross else {}),
            **({"sealed_to": survey.sealed_to} if survey.sealed_to else {}),
            **({"invitation": True} if survey.by_invitation else {}),
            **({"close_at": survey.close_at} if survey.close_at else {}),
            **({"looks": survey.looks} if survey.looks != LOOKS[0] else {}),
            **({"most_change": f"{survey.most_change:g} points"} if survey.most_change else {}),
            **(survey.follows.fields() if survey.follows else {}),
            **({"step": survey.step} if survey.step != DEFAULT_STEP else {}),
        },
        "question": [
            question_document(question) | _translated_labels(survey, number)
            for number, question in enumerate(survey.questions)
        ],
        **({"label": [label.fields() for label in survey.labels]} if survey.labels else {}),
    }
    return (json.dumps(table, ensure_ascii=False, indent=1) + "\n").encode()


def _translated_labels(survey: Survey, number: int) -> dict[str, dict[str, Any]]:
    return by_language({texts.language: texts.questions[number].fields() for texts in survey.texts})


def survey_id(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()


def _parse(table: object) -> Survey:
    top = Reader("document", table)
    if top.count("deniable", FORMAT, 1, 1_000) != FORMAT:
        problem = f"this version of deniable reads format {FORMAT}; upgrade it"
        raise InvalidSurvey("document.deniable", problem)
    reader = Reader("survey", top.take("survey", dict, "begin the file with [survey]"))
    languages = read_languages(reader)
    reader.accept_languages(SURVEY_TEXTS, languages)
    tables = top.take("question", list, "add at least one [[question]]")
    labels = top.optional("label", list) or []
    top.done()
    if not 1 <= len(tables) <= MAX_QUESTIONS:
        raise InvalidSurvey("question", f"a survey has 1 to {MAX_QUESTIONS} questions")
    period, repeat_rounds = reader.one_of("round", PERIODS), read_repeat_rounds(reader)
    usual: Over | None = None
    if PERIODS[period].first_day is None or repeat_rounds > 1:
        usual = "first"
    asked = [Reader(f"question[{number}]", part) for number, part in enumerate(tables, 1)]
    for part in asked:
        part.accept_languages(QUESTION_TEXTS, languages)
    questions = tuple(parse_question(part, usual) for part in asked)
    title, purpose, owner = (reader.text(key, fix) for key, fix in SURVEY_TEXTS.items())
    survey = Survey(
        name=reader.survey_name("name"),
        title=title,
        purpose=purpose,
        owner=owner,
        opens=reader.day("opens"),
        closes=reader.day("closes"),
        period=period,
        grace_days=reader.count("grace_days", 14, 0, 366),
        retention_days=reader.count("retention_days", 90, 0, 3660),
        show_when=read_show_when(reader),  # its default needs no `minimum_reports`
        minimum_reports=reader.count("minimum_reports", 100, 1, 10**9),
        questions=questions,
        # with one question, `ask = 1` changes nothing
        asks_one=read_asks_one(reader) and len(questions) > 1,
        repeat_rounds=repeat_rounds,
        cross=read_cross(reader, questions),
        sealed_to=read_sealing_key(reader),
        by_invitation=reader.flag("invitation"),
        close_at=reader.count("close_at", 0, 1, 10**9) if "close_at" in reader else None,
        looks=reader.one_of("looks", LOOKS) if "looks" in reader else LOOKS[0],
        most_change=read_most_change(reader),
        follows=read_follows(reader),
        step=reader.count("step", DEFAULT_STEP, MIN_STEP, MAX_STEP),
        language=next(iter(languages), ""),
        texts=read_texts(languages, reader, asked, questions),
    )
    reader.done()
    survey = replace(survey, labels=read_labels(labels, [*survey.costs], survey.cells))
    _check_whole(survey)
    return survey


def _check_whole(survey: Survey) -> None:
    if survey.cross and survey.asks_one:
        problem = "needs two answers per install, but ask = 1 gives one; remove one of the two keys"
        raise InvalidSurvey("survey.cross", problem)
    names = [question.name for question in survey.questions]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSurvey("question.name", f"{name!r} is repeated; name each question once")
    _check_over(survey)
    if survey.most_change and (survey.period == "once" or survey.repeats):
        problem = "compares rounds with reports of their own, but there are none; remove it"
        raise InvalidSurvey("survey.most_change", problem)
    if survey.follows and (survey.calendar.first_day or survey.cross or survey.labels):
        problem = 'needs round = "once", and neither cross nor label: intervals of changes, cross '
        advice = "tables and labels refer to the population; those of a follow-up survey cannot"
        raise InvalidSurvey("survey.follows", problem + advice)
    if survey.close_at and survey.close_at < survey.step:
        problem = f"must be at least the step, {survey.step}, so that closing reveals no "
        advice = f"single report; got {survey.close_at}"
        raise InvalidSurvey("survey.close_at", problem + advice)
    if survey.by_invitation and (survey.calendar.first_day or survey.sealed_to):
        problem = 'needs round = "once", because a code is good for one report, and no sealed_to, '
        advice = "because a relay forwards no codes; change these, or remove invitation"
        raise InvalidSurvey("survey.invitation", problem + advice)
    if survey.looks == "twice" and survey.grace_days < MIN_GRACE_DAYS:
        problem = f"must be {MIN_GRACE_DAYS} or more, got {survey.grace_days}: with looks = "
        advice = '"twice", results are shown a day or more after a round, and after its grace'
        raise InvalidSurvey("survey.grace_days", problem + advice)
    if survey.closes < survey.opens:
        problem = f"{survey.closes} is before opens {survey.opens}; swap them"
        raise InvalidSurvey("survey.closes", problem)
    if survey.opens.year < 1970 or survey.closes.year >= 9000:
        raise InvalidSurvey("survey.opens", "write years from 1970 to 8999")
    if survey.rounds > MAX_ROUNDS:
        problem = f"gives {survey.rounds} rounds, more than {MAX_ROUNDS}; use a longer period"
        raise InvalidSurvey("survey.round", problem)
    if survey.repeat_rounds > survey.rounds:
        advice = f"write 2 to {survey.rounds}" if survey.rounds > 1 else "leave repeat out"
        problem = f"{survey.repeat_rounds} exceeds the number of the survey's rounds, "
        raise InvalidSurvey("survey.repeat_rounds", f"{problem}{survey.rounds}; {advice}")


def _check_over(survey: Survey) -> None:
    """Refuse reports that could not leave together, or not in time."""
    redrawn = [question.over != "first" for question in survey.questions]
    if any(redrawn) and not all(redrawn):
        problem = "one survey sends all reports within their round, or all after it: write "
        advice = '"first" for every question or for none, or ask in two surveys'
        raise InvalidSurvey("question.over", problem + advice)
    if any(redrawn) and survey.repeats:
        problem = 'repeat = "latched" reports one answer for several rounds; write over = "first"'
        raise InvalidSurvey("question.over", problem)
    if any(redrawn) and survey.grace_days < MIN_GRACE_DAYS:
        problem = f"must be {MIN_GRACE_DAYS} or more, got {survey.grace_days}: with over = "
        advice = f'"{survey.questions[0].over}", reports leave after their round'
        raise InvalidSurvey("survey.grace_days", problem + advice)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key is repeated")
    return table
