"""Questions in a survey document: read strictly, proved private, and written back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.survey.kinds import KINDS, Bit, Choice, Number, Question, Text, Vector
from deniable.shared.survey.reader import Reader
from deniable.shared.survey.words import read_words

__all__ = [
    "KINDS",
    "Bit",
    "Choice",
    "Number",
    "Question",
    "Text",
    "Vector",
    "parse_question",
    "question_document",
    "what_is_asked",
]


def parse_question(reader: Reader) -> Question:
    """A question from its part of a document; what is left out is chosen for the least error."""
    name, kind = reader.name("name"), reader.one_of("kind", KINDS)
    question = KINDS[kind].parse(reader, name, _epsilon(reader))
    options = question.labels if "options" in question.fields() else ()
    question = replace(question, words=read_words(reader, kind, options))
    integers = reader.optional("integers", list)
    reader.done()
    if not question.mechanism.is_private():  # a fine table's diagonal, which takes all remainders
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
    return {**what_is_asked(question), **question.words.fields()}


def what_is_asked(question: Question) -> dict[str, Any]:
    """The same without the words for people, which change nothing."""
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
