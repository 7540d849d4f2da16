"""Each kind of question in people's words: what may be answered, and what a report says."""

import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    RandomizedResponse,
    SplitSign,
    Unary,
)
from deniable.shared.survey.questions import Bit, Choice, Number, Question

ONE = Epsilon("1")
BIT = Bit("crashed", RandomizedResponse(ONE))
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
def test_a_report_says_what_it_stands_for(question: Question, said: list[str]) -> None:
    assert [question.describe(symbol) for symbol in range(len(said))] == said


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (BIT, "a report says so with 73.1 % when true and with 26.9 % when not"),
        (SET_OF, "a report names each option with 50 % when true and with 26.9 % when not"),
        (HALVES, "with 36.6 % when true and with 13.4 % when the truth is farthest from it"),
    ],
)
def test_a_report_says_how_far_it_can_be_believed(question: Question, says: str) -> None:
    assert says in question.mechanism.explain(0)


@pytest.mark.parametrize(
    ("question", "asked", "example", "labels", "first", "everything", "axis"),
    [
        (BIT, "yes or no", True, ("yes",), 1, (0, 1), (0, 1)),
        (SET_OF, "one of 3 options", "none", ("none", "a", "b"), 0, (0, 1), (0, 0.1)),
        (NUMBER, "a number from -40 to 60", -40, ("mean",), 0, (-40, 60), (-40, 60)),
    ],
)
def test_a_question_says_what_is_asked_and_what_is_estimated(
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


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        *((BIT, text, True) for text in ("1", "true", "True", "yes", "YES")),
        *((BIT, text, False) for text in ("0", "false", "False", "no", "NO")),
        (ONE_OF, "Chrome ", "Chrome "),
        (NUMBER, "-3.5", -3.5),
    ],
)
def test_a_text_stands_for_an_answer(question: Question, text: str, answer: object) -> None:
    read = question.answer_of(text)
    assert (read, type(read)) == (answer, type(answer))


@pytest.mark.parametrize(("question", "text"), [(BIT, "maybe"), (BIT, ""), (NUMBER, "warm")])
def test_a_text_that_stands_for_none_is_refused(question: Question, text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|could not"):
        question.answer_of(text)
