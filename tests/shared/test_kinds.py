"""Kinds of questions: accepted answers, and the meaning of a report in plain words."""

import math
import random
from array import array
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import (
    KClosest,
    KRandomizedResponse,
    LocalLaplace,
    RandomizedResponse,
    SplitSign,
    Unary,
)
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.choice import Bit, Choice
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.vector import Vector

ONE = Epsilon("1")
BIT = Bit("crashed", RandomizedResponse(ONE))
VECTOR = Vector("gradient", KClosest(ONE, 3))
VECTOR_ASKED = "3 numbers, a vector of length at most 1"
ONE_OF = Choice("browser", KRandomizedResponse(ONE, 3), ("firefox", "chrome", "lynx"), "lynx")
SET_OF = Choice("plugins", Unary(ONE, 3), ("none", "a", "b"))
NUMBER = Number("degrees", LocalLaplace(ONE, 8), -40, 60)
HALVES = Number("degrees", SplitSign(ONE), -40, 60)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (BIT, ["no", "yes"]),
        (ONE_OF, ["firefox", "chrome", "lynx"]),
        (SET_OF, ["none of the options", "none", "a", "none, a", "b", "none, b", "a, b"]),
        (NUMBER, ["-40", "-27.5", "-15", "-2.5", "10", "22.5", "35", "47.5", "60"]),
        (HALVES, ["-40", "-40 to 10", "10 to 60", "60"]),
    ],
)
def test_a_report_is_described_by_the_values_that_it_supports(
    question: Question, said: list[str]
) -> None:
    assert [question.describe(symbol) for symbol in range(len(said))] == said


@pytest.mark.parametrize(
    ("third", "option"), [(0, 0), (1 - 1e-9, 0), (1, 1), (2 - 1e-9, 1), (2, 2), (3 - 1e-9, 2)]
)
def test_an_answer_that_does_not_fit_is_placed_uniformly(third: float, option: int) -> None:
    """The first random number chooses the option; the second, 0, makes the report name it."""
    options = Choice("browser", KRandomizedResponse(ONE, 3), ("firefox", "chrome", "lynx"))
    numbers = iter([math.ceil(Fraction(third) * 2**64 / 3), 0])
    assert options.report(None, lambda _: next(numbers)) == (option, False)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (BIT, "reported with probability 73.1 % if true, and 26.9 % if not"),
        (SET_OF, "each option is reported with probability 50 % if true, and 26.9 % if not"),
        (HALVES, "36.6 % if true, and with 13.4 % if the truth is farthest from it"),
    ],
)
def test_a_report_states_its_odds(question: Question, says: str) -> None:
    assert says in question.mechanism.explain(0)


@pytest.mark.parametrize(
    ("question", "asked", "example", "labels", "first", "everything", "axis"),
    [
        (BIT, "yes or no", True, ("yes",), 1, (0, 1), (0, 1)),
        (SET_OF, "one of: none, a, b", "none", ("none", "a", "b"), 0, (0, 1), (0, 0.1)),
        (VECTOR, VECTOR_ASKED, [0.5, 0.0, 0.0], ("0", "1", "2"), 0, (-1, 1), (0, 0)),
        (NUMBER, "a number from −40 to 60", -40, ("mean",), 0, (-40, 60), (-40, 60)),
    ],
)
def test_a_question_describes_its_answer_and_its_estimate(
    question: Question,
    asked: str,
    example: object,
    labels: tuple[str, ...],
    first: int,
    everything: tuple[float, float],
    axis: tuple[float, float],
) -> None:
    assert (question.asked, question.example) == (asked, example)
    assert (question.labels, question.first_label) == (labels, first)
    assert (question.range, question.axis) == (everything, axis)
    assert question.span == everything[1] - everything[0]
    assert question.place(example) is not None


def sequences(*values: float) -> list[Any]:
    """Return the same vector in every accepted form."""
    some = np.array(values)
    return [list(values), values, deque(values), some, array("d", values), list(some)]


@pytest.mark.parametrize("forms", [sequences(0.0, 0.3, -0.4), [[0, 0.3, Decimal("-0.4")]]])
def test_a_vector_becomes_a_direction_and_a_length(forms: list[Any]) -> None:
    for form in forms:
        direction, length = VECTOR.place(form) or ([], 0)
        assert direction == [0, 2576980378, -3435973837]  # 0.6 and -0.8 of 2^32
        assert length == pytest.approx(2**63, rel=1e-15)


@pytest.mark.parametrize(
    ("answer", "direction", "length"),
    [
        ([3, 4, 0], (0.6, 0.8, 0), 1),
        ([1e200, -1e200, 0], (0.5**0.5, -(0.5**0.5), 0), 1),
        ([0, 10**400, 1], (0, 1, 0), 1),
        ([math.inf, 0, 0], (1, 0, 0), 1),
        ([1e-200, 0, 1e-200], (0.5**0.5, 0, 0.5**0.5), 0),
        ([0, 0, 0], (1, 0, 0), 0),
    ],
)
def test_a_vector_has_at_most_length_one(
    answer: list[float], direction: tuple[float, ...], length: int
) -> None:
    placed = VECTOR.place(answer)
    assert placed is not None
    assert placed[0] == pytest.approx([2**32 * x for x in direction], abs=1)
    assert placed[1] == length * 2**64


NO_VECTORS: list[object] = [
    *([1, 2], [1, 2, 3, 4], [1, 2, math.nan], [1, 2, "3"], [1, None, 3], [1j, 0, 0], [[0, 0, 0]]),
    *(np.zeros((3, 3)), np.array(1.0), np.float64(1), "123", b"123", {}, {1, 2, 3}, 7, None),
]


@pytest.mark.parametrize("answer", NO_VECTORS, ids=repr)
def test_an_invalid_vector_becomes_a_random_axis(answer: object) -> None:
    """Its report has the same size and a mean of zero. Only the app learns that it was invalid."""
    symbol, fits = VECTOR.report(answer, random.Random(1).getrandbits)
    assert not fits
    assert VECTOR.mechanism.encoding.is_symbol(symbol)
    went = [VECTOR.mechanism.answer_at(n) for n in range(VECTOR.mechanism.answers)]
    assert {length for _, length in went} == {2**64}
    assert np.abs(np.sum([direction for direction, _ in went], axis=0)).max() == 0
    assert len({tuple(direction) for direction, _ in went}) == 6


def test_the_example_of_a_vector_is_accepted_as_shown() -> None:
    assert eval(VECTOR.shown_example) == VECTOR.example
    assert VECTOR.place(VECTOR.example) is not None
    assert VECTOR.describe(17 << 64 | 5).startswith("direction 17 of 64")
    assert "each of the" in VECTOR.mechanism.explain(0)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        *((BIT, text, True) for text in ("1", "true", "True", "yes", "YES")),
        *((BIT, text, False) for text in ("0", "false", "False", "no", "NO")),
        (ONE_OF, "Chrome ", "Chrome "),
        (NUMBER, "-3.5", -3.5),
        (VECTOR, "1 0 -2.5", [1.0, 0.0, -2.5]),
    ],
)
def test_text_is_parsed_into_an_answer(question: Question, text: str, answer: object) -> None:
    read = question.answer_of(text)
    assert (read, type(read)) == (answer, type(answer))


@pytest.mark.parametrize(
    ("question", "text"), [(BIT, "maybe"), (BIT, ""), (NUMBER, "warm"), (VECTOR, "1, 2")]
)
def test_unparsable_text_is_refused(question: Question, text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|could not"):
        question.answer_of(text)
