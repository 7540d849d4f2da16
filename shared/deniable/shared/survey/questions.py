"""Questions in a survey document: read strictly, proved private, and written back.

`cross = [["crashed", "browser"]]` names pairs of questions that the server counts together: how
often each symbol of one meets each symbol of the other. The reports are the same, so no ε is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.labels import read_labels
from deniable.shared.survey.reader import Reader

TINY = Epsilon("0.000001")

Names = tuple[str, str]

MAX_PAIRS = 10
MAX_PAIR_CELLS = 1_024  # counts of a pair: cells of one question times cells of the other


def parse_question(reader: Reader) -> Question:
    """Read a question from its part of a document; defaults are chosen for the least error."""
    name, kind = reader.name("name"), reader.one_of("kind", KINDS)
    question = _parsed(KINDS[kind], reader, name)
    options = question.labels if "options" in question.fields() else ()
    question = replace(question, display=read_labels(reader, kind, options, question.has_unit))
    integers = reader.optional("integers", list)
    reader.done()
    if not question.mechanism.is_private():
        raise _not_private(reader.path, question)
    if integers is not None and integers != [str(i) for i in question.mechanism.integers]:
        raise InvalidSurvey(
            f"{reader.path}.integers",
            f"are not the probabilities of {question.mechanism.name} at ε {question.epsilon}; "
            "leave them out and publish again",
        )
    return question


def question_document(question: Question) -> dict[str, Any]:
    """Return the published form: everything chosen, and every probability in units of 2^-64."""
    return {**what_is_asked(question), **question.display.fields()}


def what_is_asked(question: Question) -> dict[str, Any]:
    """Return the published form without the texts for people, which change nothing."""
    return {
        "name": question.name,
        "kind": question.kind,
        **question.fields(),
        "epsilon": str(question.epsilon),
        "mechanism": question.mechanism.name,
        "integers": [str(integer) for integer in question.mechanism.integers],
    }


def read_cross(reader: Reader, questions: Sequence[Question]) -> tuple[Names, ...]:
    """Return the pairs of questions that a survey counts together."""
    entries: list[Any] = reader.optional("cross", list) or []  # Any: a document may hold anything
    path = f"{reader.path}.cross"
    if len(entries) > MAX_PAIRS:
        raise InvalidSurvey(path, f"has at most {MAX_PAIRS} pairs, got {len(entries)}")
    by_name = {question.name: question for question in questions}
    pairs: list[Names] = []
    for entry in entries:
        first, second = _pair(path, entry, by_name)
        if (first, second) in pairs or (second, first) in pairs:
            raise InvalidSurvey(path, f"{first} and {second} are there twice; name each pair once")
        _check_size(path, by_name[first], by_name[second])
        pairs.append((first, second))
    return tuple(pairs)


def _pair(path: str, pair: object, by_name: dict[str, Question]) -> Names:
    if not (
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
    ):
        raise InvalidSurvey(path, 'must be a list of pairs of names, like [["crashed", "browser"]]')
    for name in pair:
        if name not in by_name:
            raise InvalidSurvey(path, f"no question is named {name!r}; correct the name")
        if not by_name[name].answer_labels:
            kind = by_name[name].kind
            raise InvalidSurvey(path, f"{name!r} is a {kind}; cross bits and choices only")
    first, second = pair
    if first == second:
        raise InvalidSurvey(path, f"{first!r} is crossed with itself; name two questions")
    return first, second


def _check_size(path: str, first: Question, second: Question) -> None:
    cells = first.mechanism.cells * second.mechanism.cells
    if cells > MAX_PAIR_CELLS:
        raise InvalidSurvey(
            path,
            f"{first.name} and {second.name} have {cells:,} counts together, more than "
            f"{MAX_PAIR_CELLS:,}; cross questions with fewer options",
        )


def _not_private(path: str, question: Question) -> InvalidSurvey:
    from deniable.shared.privacy.certify import refusal

    problem = refusal(question.mechanism)
    if question.epsilon < TINY:  # a fine table's diagonal takes all remainders of rounding
        cure = "it is too small for so fine a table, take 0.000001 or more"
        return InvalidSurvey(f"{path}.epsilon", f"{problem}; {cure}")
    return InvalidSurvey(f"{path}.mechanism", f"{problem}; name another mechanism")


def _parsed(kind: type[Question], reader: Reader, name: str) -> Question:
    try:
        return kind.parse(reader, name, _epsilon(reader))
    except InvalidSurvey:
        raise
    except ValueError as error:  # a mechanism that does not take this size
        raise InvalidSurvey(f"{reader.path}.mechanism", str(error)) from None


def _epsilon(reader: Reader) -> Epsilon:
    text = reader.take("epsilon", str, 'write decimal text, like epsilon = "0.5"')
    try:
        return Epsilon(text)
    except InvalidEpsilon as error:
        raise InvalidSurvey(f"{reader.path}.epsilon", str(error)) from None
