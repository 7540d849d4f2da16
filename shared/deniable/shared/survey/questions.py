"""Questions: what is asked, the mechanism that answers it, and its place in a survey document.

A question turns a true answer into a symbol (`report`). Whatever is wrong with an answer, the error
names the question and never the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from deniable.shared.errors import InvalidAnswer, InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import (
    MECHANISMS,
    MOST_STEPS,
    RandomizedResponse,
    choice_mechanism,
    number_mechanism,
)
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.survey.reader import Reader

MOST_OPTIONS = 65_536
MOST_UNARY_OPTIONS = 8_192  # 1 KiB a report
LARGEST_BOUND = 2**53  # beyond it whole numbers are no longer exact as floats


@dataclass(frozen=True)
class Bit:
    kind: ClassVar[str] = "bit"
    statistic: ClassVar[Literal["share", "mean"]] = "share"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)  # of what is possible
    axis: ClassVar[tuple[float, float]] = (0.0, 1.0)  # what a chart shows at least
    unit: ClassVar[str] = ""
    asked: ClassVar[str] = "yes or no"
    example: ClassVar[bool] = True
    name: str
    mechanism: SupportDesign

    @property
    def epsilon(self) -> Epsilon:
        return self.mechanism.epsilon

    @property
    def labels(self) -> tuple[str, ...]:
        """What the estimates are of: people who say yes."""
        return ("yes",)

    def read(self, answer: object) -> int:
        if not isinstance(answer, int) or answer not in (0, 1):
            raise InvalidAnswer(self.name, "answer it with True or False")
        return int(answer)

    def report(self, answer: object, draw: Draw) -> int:
        return self.mechanism.randomize(self.read(answer), draw)

    def fields(self) -> dict[str, Any]:
        return {}

    def describe(self, symbol: int) -> str:
        """What a report says, for a person."""
        return ("no", "yes")[symbol]


@dataclass(frozen=True)
class Number:
    kind: ClassVar[str] = "number"
    statistic: ClassVar[Literal["share", "mean"]] = "mean"
    unit: ClassVar[str] = ""
    name: str
    mechanism: NumberTable
    low: int | float
    high: int | float

    @property
    def epsilon(self) -> Epsilon:
        return self.mechanism.epsilon

    @property
    def labels(self) -> tuple[str, ...]:
        return ("mean",)

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def axis(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def asked(self) -> str:
        return f"a number from {self.low} to {self.high}"

    @property
    def example(self) -> float:
        return self.low

    @property
    def span(self) -> float:
        return self.high - self.low

    def report(self, answer: object, draw: Draw) -> int:
        return self.mechanism.randomize(self.read(answer), draw)

    def read(self, answer: object) -> tuple[int, int]:
        """Where in the range an answer lies, as an exact ratio of two integers; clamped to it."""
        if not isinstance(answer, (int, float)) or isinstance(answer, bool):
            raise InvalidAnswer(self.name, "answer it with a number")
        if answer != answer:
            raise InvalidAnswer(self.name, "not-a-number is not an answer")
        if answer <= self.low:
            return 0, 1
        if answer >= self.high:
            return 1, 1
        numerator, denominator = answer.as_integer_ratio()
        low, over_low, span, over_span = self._bounds
        return (numerator * over_low - low * denominator) * over_span, denominator * over_low * span

    @cached_property
    def _bounds(self) -> tuple[int, int, int, int]:
        (low, over_low), (high, over_high) = (
            self.low.as_integer_ratio(),
            self.high.as_integer_ratio(),
        )
        return low, over_low, high * over_low - low * over_high, over_low * over_high

    def fields(self) -> dict[str, Any]:
        grid = {"grid": self.mechanism.steps} if self.mechanism.takes_grid else {}
        return {"low": self.low, "high": self.high, **grid}

    def describe(self, symbol: int) -> str:
        return f"{self.low + self.span * symbol / (self.mechanism.symbols - 1):g}"


@dataclass(frozen=True)
class Choice:
    kind: ClassVar[str] = "choice"
    statistic: ClassVar[Literal["share", "mean"]] = "share"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    axis: ClassVar[tuple[float, float]] = (0.0, 0.1)
    unit: ClassVar[str] = ""
    name: str
    mechanism: SupportDesign
    options: tuple[str, ...]
    other: str | None = None

    @property
    def epsilon(self) -> Epsilon:
        return self.mechanism.epsilon

    @property
    def labels(self) -> tuple[str, ...]:
        return self.options

    @property
    def asked(self) -> str:
        return f"one of {len(self.options):,} options"

    @property
    def example(self) -> str:
        return self.options[0]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {option: number for number, option in enumerate(self.options)}

    def report(self, answer: object, draw: Draw) -> int:
        return self.mechanism.randomize(self.read(answer), draw)

    def read(self, answer: object) -> int:
        if not isinstance(answer, str):
            raise InvalidAnswer(self.name, "answer it with the text of one of its options")
        number = self._numbers.get(
            answer, None if self.other is None else self._numbers[self.other]
        )
        if number is None:
            raise InvalidAnswer(self.name, f"that is none of its {len(self.options)} options")
        return number

    def fields(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {"options": list(self.options), **other}

    def describe(self, symbol: int) -> str:
        named = [o for n, o in enumerate(self.options) if self.mechanism.supports(symbol, n)]
        return ", ".join(named) or "none of the options"


Question = Bit | Number | Choice


def parse_question(reader: Reader) -> Question:
    """A question from its part of a document; what is left out is chosen for the least error."""
    name, kind = reader.name("name"), reader.one_of("kind", _PARSERS)
    question = _PARSERS[kind](reader, name, _epsilon(reader))
    integers = reader.optional("integers", list)
    reader.done()
    if not question.mechanism.is_private():  # each of two neighbours is rounded up by up to a unit
        raise InvalidSurvey(
            f"{reader.path}.epsilon",
            f"{question.epsilon} is too small for so fine a table; take 0.000001 or more",
        )
    if integers is not None and integers != [str(i) for i in question.mechanism.integers]:
        raise InvalidSurvey(
            f"{reader.path}.integers",
            f"are not the probabilities of {question.mechanism.name} at ε {question.epsilon}; "
            "leave them out and publish again",
        )
    return question


def question_document(question: Question) -> dict[str, Any]:
    """The published form: everything chosen, and every probability in units of 2^-64."""
    return {
        "name": question.name,
        "kind": question.kind,
        **question.fields(),
        "epsilon": str(question.epsilon),
        "mechanism": question.mechanism.name,
        "integers": [str(integer) for integer in question.mechanism.integers],
    }


def _epsilon(reader: Reader) -> Epsilon:
    text = reader.take("epsilon", str, 'write decimal text, like epsilon = "0.5"')
    try:
        return Epsilon(text)
    except InvalidEpsilon as error:
        raise InvalidSurvey(f"{reader.path}.epsilon", str(error)) from None


def _mechanism_name(reader: Reader, kind: str) -> str | None:
    known = [name for name, mechanism in MECHANISMS.items() if mechanism.kind == kind]
    return reader.one_of("mechanism", known) if "mechanism" in reader else None


def _parse_bit(reader: Reader, name: str, epsilon: Epsilon) -> Bit:
    _mechanism_name(reader, "bit")
    return Bit(name, RandomizedResponse(epsilon))


def _parse_number(reader: Reader, name: str, epsilon: Epsilon) -> Number:
    mechanism = _mechanism_name(reader, "number")
    low, high = (
        reader.take(key, (int, float), f"write a number, like {key} = 0") for key in ("low", "high")
    )
    for key, bound in (("low", low), ("high", high)):
        if not -LARGEST_BOUND <= bound <= LARGEST_BOUND:  # not-a-number is neither
            raise InvalidSurvey(f"{reader.path}.{key}", "write a number between -2^53 and 2^53")
    if low >= high:
        raise InvalidSurvey(
            f"{reader.path}.high", f"must be above low, got low {low} and high {high}"
        )
    grid = reader.optional("grid", int)
    if grid is not None and not 1 <= grid <= MOST_STEPS:
        raise InvalidSurvey(
            f"{reader.path}.grid", f"a grid has 1 to {MOST_STEPS} steps, got {grid}"
        )
    if mechanism not in (None, "local-laplace") and grid is not None:
        raise InvalidSurvey(
            f"{reader.path}.grid", f"{mechanism} has a grid of its own; leave grid out"
        )
    return Number(name, number_mechanism(epsilon, grid, mechanism), low, high)


def _parse_choice(reader: Reader, name: str, epsilon: Epsilon) -> Choice:
    mechanism = _mechanism_name(reader, "choice")
    path = f"{reader.path}.options"
    options = reader.take("options", list, 'write texts, like options = ["yes", "no"]')
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise InvalidSurvey(path, "every option is a text that is not empty")
    if len(set(options)) < len(options):
        twice = next(option for option in options if options.count(option) > 1)
        raise InvalidSurvey(path, f"{twice!r} is there twice; name each option once")
    most = MOST_UNARY_OPTIONS if mechanism == "unary" else MOST_OPTIONS
    if not 2 <= len(options) <= most:
        raise InvalidSurvey(path, f"a choice has 2 to {most} options, got {len(options)}")
    other = reader.optional("other", str)
    if other is not None and other not in options:
        raise InvalidSurvey(
            f"{reader.path}.other", f"{other!r} is none of the options; add it to them"
        )
    if mechanism is None and len(options) > MOST_UNARY_OPTIONS:
        mechanism = "k-randomized-response"
    return Choice(name, choice_mechanism(epsilon, len(options), mechanism), tuple(options), other)


_PARSERS: Mapping[str, Callable[[Reader, str, Epsilon], Question]] = {
    "bit": _parse_bit,
    "number": _parse_number,
    "choice": _parse_choice,
}
