"""The survey document: what is asked, by whom, why, from when to when, at what privacy.

People write TOML; what is published is JSON with the same keys, everything chosen and every
probability written out. Those bytes never change and their SHA-256 is the survey's id: no canonical
form is needed, bytes are bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import compress
from typing import Any

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.randomness import Draw, random_pause
from deniable.shared.survey.crossing import Names, read_cross
from deniable.shared.survey.periods import PERIODS, Period
from deniable.shared.survey.questions import (
    Question,
    parse_question,
    question_document,
    what_is_asked,
)
from deniable.shared.survey.reader import Reader
from deniable.shared.survey.sealing_key import HOW, checked_public

FORMAT = 1
MOST_QUESTIONS = 100  # so that a byte numbers them
MOST_ROUNDS = 10_000
MOST_DOCUMENT_BYTES = 4 * 2**20
EARLY = timedelta(hours=1)  # clocks differ: a round's reports are taken this long before it

Symbols = tuple[int | None, ...]  # a question each; None: this install was not asked it


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What one install reports of one survey in one round; made on the device."""

    symbols: Symbols
    unfit: tuple[str, ...]  # questions whose answer did not fit: for the app, never for the server


@dataclass(frozen=True)
class Survey:
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
    asks_one: bool = False  # of its questions, drawn at random; the key `ask` of the document
    repeat_rounds: int = 1  # so many rounds share one report; 1: each round has a new one
    cross: tuple[Names, ...] = ()  # pairs of questions whose answers are counted together
    sealed_to: str | None = None  # the public key that reports are sealed to, in hex

    @property
    def calendar(self) -> Period:
        """How the survey's days are cut into rounds."""
        return PERIODS[self.period]

    def round_of(self, day: date) -> int:
        """The round that a day falls in."""
        return self.calendar.round_of(day)

    @property
    def first_round(self) -> int:
        return self.round_of(self.opens)

    @property
    def last_round(self) -> int:
        return self.round_of(self.closes)

    @property
    def rounds(self) -> int:
        """Rounds that overlap the survey's days count as whole."""
        return self.last_round - self.first_round + 1

    @property
    def repeats(self) -> bool:
        """Whether reports are latched: kept, and sent again. The key `repeat` of the document."""
        return self.repeat_rounds > 1

    def span_of(self, number: int) -> range:
        """The rounds that share one report, this one among them; counted from the first round."""
        first = number - (number - self.first_round) % self.repeat_rounds
        return range(first, min(first + self.repeat_rounds, self.last_round + 1))

    @property
    def draws(self) -> int:
        """How often noise is drawn for one install, which is what it is charged for: once in each
        span of rounds."""
        return -(-self.rounds // self.repeat_rounds)

    @cached_property
    def costs(self) -> Mapping[str, int]:
        """ε of each question, in billionths: what one round can give away about its answer."""
        return {question.name: question.epsilon.billionths for question in self.questions}

    @cached_property
    def round_billionths(self) -> int:
        """ε of one round, in billionths: what all its questions give away together. Where reports
        are latched, all rounds of a span give away no more: they say the same.

        Where one is drawn, a report is (question, symbol): the question is drawn whatever the
        answers are, so two people differ in the probability of any report by at most e^ε of that
        question, and ε of the round is the largest, not the sum.
        """
        return (max if self.asks_one else sum)(self.costs.values())

    @property
    def round_epsilon(self) -> str:
        return decimal_text(self.round_billionths)

    @property
    def lifetime_billionths(self) -> int:
        """ε of all rounds: what each draw of noise gives away adds up, whatever is answered when.

        Where reports are latched, the whole transcript of an install is a function of its draws.
        Each is made from one set of answers, by `report`, with randomness of its own; so for any
        two histories of answers the probability of any transcript differs by at most e^ε for each
        draw. What was answered in the other rounds of a span is in no report at all.
        """
        return self.round_billionths * self.draws

    @property
    def lifetime_epsilon(self) -> str:
        return decimal_text(self.lifetime_billionths)

    @property
    def drawn_from(self) -> int:
        """Of how many questions an install is asked one; 1 where it is asked all of them."""
        return len(self.questions) if self.asks_one else 1

    @property
    def report_size(self) -> int:
        """Bytes of one report on the wire, whichever question it is of."""
        sizes = [question.mechanism.payload_size for question in self.questions]
        return 1 + max(sizes) if self.asks_one else sum(sizes)

    @cached_property
    def crossed(self) -> tuple[tuple[Question, Question], ...]:
        """The pairs of `cross` themselves."""
        named = {question.name: question for question in self.questions}
        return tuple((named[first], named[second]) for first, second in self.cross)

    def reports_of(self, people: int) -> int:
        """How many reports of each question so many people are expected to make."""
        return people // self.drawn_from

    def is_open(self, day: date) -> bool:
        """Whether answers are asked for on this day."""
        return self.opens <= day <= self.closes

    def round_starts(self, number: int) -> datetime:
        return self.calendar.starts(number, self.opens)

    def round_ends(self, number: int) -> datetime:
        return self.calendar.ends(number, self.closes)

    def round_title(self, number: int) -> str:
        """What people call a round."""
        return f"{self.round_starts(number):{self.calendar.title}}"

    def round_short_title(self, number: int) -> str:
        return f"{self.round_starts(number):{self.calendar.short_title}}"

    def taken_from(self, number: int) -> datetime:
        """From when the server takes reports of a round."""
        return self.round_starts(number) - EARLY

    def taken_until(self, number: int) -> datetime:
        """Until when it does: the round's end and the survey's grace."""
        return self.round_ends(number) + timedelta(days=self.grace_days)

    def asks_the_same(self, other: Survey) -> bool:
        """Whether who has answered one of the two in a round has said all that the other asks:
        only what people read differs, or how long it is asked."""
        mine, theirs = (
            [what_is_asked(each) for each in survey.questions] for survey in (self, other)
        )
        rounds = (self.period, self.asks_one, self.repeat_rounds)
        same_rounds = rounds == (other.period, other.asks_one, 1)  # spans begin with their survey
        return same_rounds and mine == theirs

    def unasked(self, names: Collection[str]) -> str | None:
        """Why answers with these names are none to this survey; their values do not matter."""
        asked = [question.name for question in self.questions]
        if missing := [name for name in asked if name not in names]:
            return (
                f"survey {self.name!r} is answered whole, and the answer to "
                f"{', '.join(missing)} is missing"
            )
        if more := [name for name in names if name not in asked]:
            return (
                f"survey {self.name!r} asks for {', '.join(asked)}, and not for {', '.join(more)}"
            )
        return None

    def report(self, answers: Mapping[str, object], draw: Draw) -> Report:
        """One symbol for each question, from all the true answers at once, by the same operations
        whatever they are.

        Where only one is asked, all are randomized and one is kept: the work, the randomness and
        what the app is told are the same whichever it is. It is drawn as ⌊u d / 2^64⌋, so each of d
        questions has probability 1 / d to within 2^-64, and the same for every install: that biases
        no estimate, and no ε depends on it.
        """
        random_pause()
        drawn = draw(64) * len(self.questions) >> 64 if self.asks_one else None
        pairs = [(each.name, *each.report(answers[each.name], draw)) for each in self.questions]
        return Report(
            tuple(s if drawn in (None, place) else None for place, (_, s, _) in enumerate(pairs)),
            tuple(compress((name for name, _, _ in pairs), (not fits for *_, fits in pairs))),
        )


def parse_toml(
    text: str, complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda table: table
) -> Survey:
    """A survey as people write it; `complete` may fill in what was left out."""
    import tomllib

    try:
        return _parse(complete(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSurvey("survey file", f"is not TOML: {error}") from None


def parse_document(document: bytes) -> Survey:
    """A published survey, from its exact bytes; strict: nothing left out, nothing repeated."""
    if len(document) > MOST_DOCUMENT_BYTES:
        raise InvalidSurvey("document", f"is larger than {MOST_DOCUMENT_BYTES} bytes")
    try:
        table = json.loads(document.decode("utf-8"), object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError):
        raise InvalidSurvey("document", "is not JSON with each key once") from None
    survey = _parse(table)
    if json.loads(render_document(survey)) != table:
        raise InvalidSurvey(
            "document", "leaves something out that a published survey states, or states too much"
        )
    return survey


def render_document(survey: Survey) -> bytes:
    """The bytes to publish. Made only once: from then on the bytes themselves are passed on."""
    table = {
        "deniable": FORMAT,
        "survey": {
            "name": survey.name,
            "title": survey.title,
            "purpose": survey.purpose,
            "owner": survey.owner,
            "opens": survey.opens.isoformat(),
            "closes": survey.closes.isoformat(),
            "round": survey.period,
            "grace_days": survey.grace_days,
            "retention_days": survey.retention_days,
            "minimum_reports": survey.minimum_reports,
            **({"ask": 1} if survey.asks_one else {}),
            **_repeat_keys(survey),
            **({"cross": [list(pair) for pair in survey.cross]} if survey.cross else {}),
            **({"sealed_to": survey.sealed_to} if survey.sealed_to else {}),
        },
        "question": [question_document(question) for question in survey.questions],
    }
    return (json.dumps(table, ensure_ascii=False, indent=1) + "\n").encode()


def survey_id(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()


def _parse(table: object) -> Survey:
    top = Reader("document", table)
    if top.count("deniable", FORMAT, 1, 1_000) != FORMAT:
        raise InvalidSurvey(
            "document.deniable", f"this version reads format {FORMAT}; upgrade deniable"
        )
    reader = Reader("survey", top.take("survey", dict, "begin the file with [survey]"))
    tables = top.take("question", list, "add at least one [[question]]")
    top.done()
    if not 1 <= len(tables) <= MOST_QUESTIONS:
        raise InvalidSurvey("question", f"a survey has 1 to {MOST_QUESTIONS} questions")
    questions = tuple(
        parse_question(Reader(f"question[{number}]", part)) for number, part in enumerate(tables, 1)
    )
    survey = Survey(
        name=reader.survey_name("name"),
        title=reader.text("title", 'write title = "How is the app doing?"'),
        purpose=reader.text("purpose", "say in a sentence what the answers are for"),
        owner=reader.text("owner", "say who asks, and an address to write to"),
        opens=reader.day("opens"),
        closes=reader.day("closes"),
        period=reader.one_of("round", PERIODS),
        grace_days=reader.count("grace_days", 14, 0, 366),
        retention_days=reader.count("retention_days", 90, 0, 3660),
        minimum_reports=reader.count("minimum_reports", 100, 1, 10**9),
        questions=questions,
        asks_one=_asks_one(reader) and len(questions) > 1,  # of one question, all is one
        repeat_rounds=_repeat_rounds(reader),
        cross=read_cross(reader, questions),
        sealed_to=_sealed_to(reader),
    )
    reader.done()
    _check_whole(survey)
    return survey


def _asks_one(reader: Reader) -> bool:
    ask: int | None = reader.optional("ask", int)
    if ask not in (None, 1):
        raise InvalidSurvey(
            f"{reader.path}.ask",
            f"is 1, for one question drawn at random, or left out, for all of them; got {ask}",
        )
    return ask == 1


def _repeat_rounds(reader: Reader) -> int:
    """Where every round has a report of its own, a published document has neither key."""
    if "repeat" in reader and reader.one_of("repeat", ("fresh", "latched")) == "latched":
        reader.take("repeat_rounds", int, "say for how many rounds, like repeat_rounds = 3")
        return reader.count("repeat_rounds", 2, 2, MOST_ROUNDS)
    if "repeat_rounds" in reader:
        raise InvalidSurvey(
            f"{reader.path}.repeat_rounds",
            'is only for repeat = "latched"; write that, or remove it',
        )
    return 1


def _sealed_to(reader: Reader) -> str | None:
    key = "sealed_to"
    if key not in reader:
        return None
    return checked_public(reader.text(key, f"it {HOW}"), f"{reader.path}.{key}")


def _repeat_keys(survey: Survey) -> dict[str, Any]:
    if not survey.repeats:
        return {}
    return {"repeat": "latched", "repeat_rounds": survey.repeat_rounds}


def _check_whole(survey: Survey) -> None:
    if survey.cross and survey.asks_one:
        raise InvalidSurvey(
            "survey.cross", "counts two answers of one install, and with ask = 1 none gives two"
        )
    names = [question.name for question in survey.questions]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSurvey(
                "question.name", f"{name!r} is there twice; name each question once"
            )
    if survey.closes < survey.opens:
        raise InvalidSurvey(
            "survey.closes", f"{survey.closes} is before opens {survey.opens}; swap them"
        )
    if survey.opens.year < 1970 or survey.closes.year >= 9000:
        raise InvalidSurvey("survey.opens", "write years from 1970 to 8999")
    if survey.rounds > MOST_ROUNDS:
        raise InvalidSurvey("survey.round", f"{survey.rounds} rounds are more than {MOST_ROUNDS}")
    if survey.repeat_rounds > survey.rounds:
        cure = f"write 2 to {survey.rounds}" if survey.rounds > 1 else "leave repeat out"
        raise InvalidSurvey(
            "survey.repeat_rounds",
            f"{survey.repeat_rounds} is more than the survey's rounds, {survey.rounds}; {cure}",
        )


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key is there twice")
    return table
