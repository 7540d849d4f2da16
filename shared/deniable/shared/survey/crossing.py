"""Which questions a survey counts together: `cross = [["crashed", "browser"]]`.

The server counts in how many reports each symbol of the one meets each of the other. It is told
nothing more for it: the reports are the same, so no ε is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.questions import Question
from deniable.shared.survey.reader import Reader

Names = tuple[str, str]

MOST_PAIRS = 10
MOST_CELLS = 1_024  # of one pair: a count for each cell of the one and each of the other


def read_cross(reader: Reader, questions: Sequence[Question]) -> tuple[Names, ...]:
    pairs: list[Any] = reader.optional("cross", list) or []  # Any: whatever the document holds
    path = f"{reader.path}.cross"
    if len(pairs) > MOST_PAIRS:
        raise InvalidSurvey(path, f"has at most {MOST_PAIRS} pairs, got {len(pairs)}")
    named = {question.name: question for question in questions}
    found: list[Names] = []
    for pair in pairs:
        first, second = _two(path, pair, named)
        if (first, second) in found or (second, first) in found:
            raise InvalidSurvey(path, f"{first} and {second} are there twice; name each pair once")
        _check_size(path, named[first], named[second])
        found.append((first, second))
    return tuple(found)


def _two(path: str, pair: object, named: dict[str, Question]) -> Names:
    if not (
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
    ):
        raise InvalidSurvey(path, 'is a list of pairs of names, like [["crashed", "browser"]]')
    for name in pair:
        if name not in named:
            raise InvalidSurvey(path, f"{name!r} is none of the questions")
        if not named[name].answer_labels:
            kind = named[name].kind
            raise InvalidSurvey(path, f"{name!r} is a {kind}; cross what is a bit or a choice")
    first, second = pair
    if first == second:
        raise InvalidSurvey(path, f"{first!r} is crossed with itself; name two questions")
    return first, second


def _check_size(path: str, first: Question, second: Question) -> None:
    cells = first.mechanism.cells * second.mechanism.cells
    if cells > MOST_CELLS:
        raise InvalidSurvey(
            path,
            f"{first.name} and {second.name} have {cells:,} counts together, more than "
            f"{MOST_CELLS:,}; cross questions of fewer options",
        )
