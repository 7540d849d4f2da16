"""Check that the time of a report reveals neither the answer nor whether the report is a lie.

Single calls are timed, with answers of all kinds in random order. The measure is Spearman's rank
correlation, among reports of one symbol, between the time and one of these: the size of the answer,
one form of a value as opposed to another, or a lie. The bound is .05. If time reveals nothing,
every order of the times is equally probable, and the correlation of n calls is nearly normal with
standard deviation 1 / sqrt(n). With n >= 20,000 the bound is seven standard deviations, so a false
alarm has a probability below 2e-12. A busy machine affects all calls alike.

Two twins without the random pause must exceed the bound, which shows that the test can fail: an
early return for the truth, and a number placed by arithmetic whose cost depends on the number's
length.
"""

from __future__ import annotations

import gc
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import LocalLaplace, mechanisms
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.choice import Bit, Choice
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.text import FINAL, Beginnings, Text
from deniable.shared.survey.kinds.vector import Vector
from tests.bench.measure import Measurement
from tests.shared.test_same_operations import EarlyReturn, asking

LIMIT = 0.05
CALLS = 20_000  # minimum number of compared calls
EPSILON = Epsilon("1")

LOW, HIGH = 0, 120
OPTIONS = {"k-randomized-response": (2, 16, 256), "subset-selection": (16,), "unary": (9,)}
# One value per form, all equally frequent. A form with many values would find the table row of each
# in the processor's caches less often. Every form is compared with the first.
FORMS: dict[str, object] = {
    "inside, not whole": 34.1,
    "inside, a half": 88.5,
    "whole, as a float": 55.0,
    "whole, as an integer": 71,
    "the low end": 0.0,
    "the high end": 120.0,
    "below the range": -5.5,
    "above the range": 1e6,
    "next to nothing": 1e-9,
    "infinite": math.inf,
    "a whole number beyond all floats": 10**400,
}
TEXTS: dict[str, object] = {
    "a word": "chrome",
    "a letter": "x",
    "cut": "chromium browser",
    "two bytes each": "äöüß",
    "three bytes each": "日本",
    "blank": "  ",
    "not to be shown": "a\nb",
    "none": None,
}
UNFIT: dict[str, object] = {"not-a-number": math.nan, "none": None, "a text": "ninety"}


@dataclass(frozen=True)
class Timed:
    """Timed call: the answer, its form, the time, the report, and whether the report is a lie."""

    answer: Any
    sort: str
    nanoseconds: int
    symbol: int
    lied: bool


def measurements() -> Iterator[Measurement]:
    for name, question in questions():
        yield from of(name, question)
    early = Choice("asked", EarlyReturn(EPSILON, 16), texts(16))
    yield twin("an early return for the truth", lies(calls(early, listed(early), pause=False)))
    old = OldPlacing("asked", LocalLaplace(EPSILON, 64), LOW, HIGH)
    seen = calls(old, of_forms(FORMS), pause=False)
    told = between(seen, "inside, not whole", "the high end")
    yield twin("a number placed by what it happens to be", told)


def of(name: str, question: Question) -> Iterator[Measurement]:
    match question:
        case Number():
            return of_number(name, question)
        case Text():
            return of_text(name, question)
        case Vector():
            return of_vector(name, question)
        case Bit() | Choice():
            return of_options(name, question)
        case _:
            raise AssertionError(f"no timing for {question.kind}")


def questions() -> Iterator[tuple[str, Question]]:
    for name, kind in mechanisms().items():
        sizes = kind.proved_sizes if kind.given else kind.sizes
        for size in OPTIONS.get(name, (64 if 64 in sizes else sizes[0],)):
            made: Any = kind(EPSILON, size)
            match kind.kind:
                case "bit":
                    question: Question = Bit("asked", made)
                case "number":
                    question = Number("asked", made, LOW, HIGH)
                case "vector":
                    question = Vector("asked", made)
                case "text":
                    made = made.__class__(EPSILON, size, Beginnings("it", 8, size).groups, FINAL)
                    question = Text("asked", made, 8, "it")
                case _:
                    question = Choice("asked", made, texts(size))
            yield f"time of a report by {name}, {size}", question


def texts(size: int) -> tuple[str, ...]:
    return tuple(f"option {number}" for number in range(size))


def of_options(name: str, question: Bit | Choice) -> Iterator[Measurement]:
    seen = calls(question, listed(question))
    place = [question.place(timed.answer) for timed in seen]
    yield bounded(f"{name}, with the answer", correlation(place, seen))
    yield bounded(f"{name}, with a lie", lies(seen))


def of_number(name: str, question: Number) -> Iterator[Measurement]:
    seen = calls(question, of_forms(FORMS))
    first, *others = FORMS
    worst = max(others, key=lambda other: abs(between(seen, first, other)))
    yield bounded(f"{name}, with its form, most: {worst}", between(seen, first, worst))
    seen = calls(question, [("size", random.uniform(LOW, HIGH)) for _ in range(CALLS)])
    yield bounded(f"{name}, with its size", correlation([timed.answer for timed in seen], seen))
    yield bounded(f"{name}, with a lie", lies(seen))
    seen = calls(question, of_forms(UNFIT))
    first, *others = UNFIT
    worst = max(others, key=lambda other: abs(between(seen, first, other)))
    yield bounded(f"{name}, with what does not fit, most: {worst}", between(seen, first, worst))


def of_vector(name: str, question: Vector) -> Iterator[Measurement]:
    size = question.mechanism.dimension
    forms = {
        "dense": [0.1 + n / size**2 for n in range(size)],
        "one coordinate": [0.5] + [0.0] * (size - 1),
        "no length": [0.0] * size,
        "too long": [1e6] * size,
        "too few coordinates": [0.5] * (size - 1),
        "not-a-number": [math.nan] * size,
    }
    seen = calls(question, of_forms(forms))
    first, *others = forms
    worst = max(others, key=lambda other: abs(between(seen, first, other)))
    yield bounded(f"{name}, with its form, most: {worst}", between(seen, first, worst))


def of_text(name: str, question: Text) -> Iterator[Measurement]:
    seen = calls(question, of_forms(TEXTS))
    first, *others = TEXTS
    worst = max(others, key=lambda other: abs(between(seen, first, other)))
    yield bounded(f"{name}, with its form, most: {worst}", between(seen, first, worst))


def bounded(name: str, figure: float) -> Measurement:
    return Measurement(name, abs(figure), None, "of 1", LIMIT)


def twin(name: str, figure: float) -> Measurement:
    """Return a measurement that passes if the correlation exceeds its limit, as it should."""
    return Measurement(f"twin, {name}: limit / measured", LIMIT / abs(figure), None, "", 1)


# Questions and answers


def listed(question: Question) -> list[tuple[str, Any]]:
    """Return answers drawn from the whole list, with a new text object for each."""
    most = question.mechanism.answers
    numbers = [random.randrange(most) for _ in range(CALLS)]
    if isinstance(question, Choice):
        return [("option", "".join(list(question.options[number]))) for number in numbers]
    return [("bit", bool(number)) for number in numbers]


def of_forms(forms: Mapping[str, object]) -> list[tuple[str, Any]]:
    return [(form, value) for form, value in forms.items() for _ in range(CALLS // 2)]


# Timing and comparing


def calls(question: Question, asked: list[tuple[str, Any]], pause: bool = True) -> list[Timed]:
    """Time calls of `Survey.report`, with or without its random pause."""
    survey, random_order = asking(question), random.sample(asked, len(asked))
    for _, answer in random_order[:1_000]:  # fill the caches of the code and of the machine
        survey.report({"asked": answer}, kernel_draw)
    timed = []
    gc.disable()
    try:
        for sort, answer in random_order:
            answers = {"asked": answer}
            begin = perf_counter_ns()
            symbol = (
                survey.report(answers, kernel_draw).symbols[0]
                if pause
                else question.report(answer, kernel_draw)[0]
            )
            took = perf_counter_ns() - begin
            assert symbol is not None, "each question is asked"
            private = symbol >> question.mechanism.encoding.public_bits
            timed.append(Timed(answer, sort, took, private, lied(question, answer, symbol)))
    finally:
        gc.enable()
    return timed


def lied(question: Question, answer: object, symbol: int) -> bool:
    """Return True if the report supports something other than the answer."""
    if isinstance(question, Vector):
        return False  # the report of a vector supports a direction, not a value
    place: Any = question.place(answer)
    if isinstance(question, Number):
        at = question.mechanism.answer_at(question.mechanism.steps)
        return abs(symbol / (question.mechanism.symbols - 1) - (place or 0) / at) > 0.25
    return place not in question.mechanism.cells_of(symbol)


def correlation(numbers: Sequence[Any], seen: Sequence[Timed]) -> float:
    """Return Spearman's correlation of the times with these numbers, among reports of one symbol.

    A report is not secret, and neither is anything that depends on it alone. If nearly every report
    has a different symbol (a unary report has many bits), groups of one symbol are too small to
    compare. All reports are then ranked together, which is the stricter test.
    """
    values = np.asarray(numbers, dtype=float)
    times = np.array([timed.nanoseconds for timed in seen])
    by_symbol = defaultdict[int, list[int]](list)
    for index, timed in enumerate(seen):
        by_symbol[timed.symbol].append(index)
    groups = list(by_symbol.values())
    if sum(len(group) for group in groups if np.ptp(values[group]) > 0) < len(seen) / 2:
        groups = [list(range(len(seen)))]
    ranks = [_ranks(values[group], times[group]) for group in groups]
    return float(np.corrcoef(np.concatenate(ranks, axis=1))[0, 1])


def _ranks(*columns: NDArray[Any]) -> NDArray[Any]:
    """Return ranks scaled to -1/2 .. 1/2, so that small groups weigh as much as large ones."""
    return np.array(
        [(rankdata(column) - (len(column) + 1) / 2) / len(column) for column in columns]
    )


def lies(seen: list[Timed]) -> float:
    return correlation([timed.lied for timed in seen], seen)


def between(seen: list[Timed], one: str, other: str) -> float:
    both = [timed for timed in seen if timed.sort in (one, other)]
    return correlation([timed.sort == other for timed in both], both)


# Twins


class OldPlacing(Number):
    """Placing that is equally exact, but uses fractions of unlimited length."""

    def place(self, answer: Any) -> int:
        clamped = min(max(answer, self.low), self.high)
        numerator, denominator = clamped.as_integer_ratio()
        share = Fraction(numerator - self.low * denominator, denominator * int(self.span))
        return math.ceil(share * self.mechanism.answer_at(self.mechanism.steps))
