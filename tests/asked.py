"""Question in TOML and some answers for each mechanism, for tests that use every mechanism."""

import json
import math
from datetime import date
from fractions import Fraction
from typing import Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.kinds.text import MIN_BUCKETS, MIN_TEXT_BYTES
from tests.survey_texts import bit, choice, number, survey_text, vector
from tests.survey_texts import question as asked_as

# With eleven options, a set takes two bytes, five bits of which are padding; a subset has three
# options.
OPTIONS = [chr(97 + n) for n in range(11)]
ANSWERS: dict[str, list[Any]] = {  # most people give the first answer
    "bit": [True, False],
    "number": [-0.9, 2.25, 3, 0.1],
    "choice": ["c", "a", "d", "b"],
    "vector": [[0.6, -0.3, 0, 0.2], [0, 0, 1, 0], [-0.1, 0.5, 3, 4]],
    "text": ["oh", "no", "so", "it"],
}


def question(mechanism: str, epsilon: str = "1", name: str = "it") -> str:
    """Return a question of non-degenerate size: eleven options, five steps, four coordinates."""
    named = mechanisms()[mechanism]
    if named.kind == "bit":
        return bit(name, epsilon)
    if named.kind == "choice":
        return choice(OPTIONS, mechanism, name=name, epsilon=epsilon)
    if named.kind == "vector":
        return vector(len(ANSWERS["vector"][0]), mechanism, name=name, epsilon=epsilon)
    if named.kind == "text":
        return text_question(mechanism, name, epsilon)
    if named.given:
        example = named(Epsilon(epsilon), named.proved_sizes[0])
        asked = number(-1, 3, mechanism, name=name, epsilon=epsilon, grid=example.size)
        return f"{asked}integers = {json.dumps([str(integer) for integer in example.integers])}\n\n"
    grid = 5 if len(named.sizes) > 1 else None
    return number(-1, 3, mechanism, name=name, epsilon=epsilon, grid=grid)


def text_question(mechanism: str, name: str, epsilon: str) -> str:
    """Return the smallest text question, with the minimum length and number of buckets."""
    return asked_as(
        name, "text", epsilon, length=MIN_TEXT_BYTES, buckets=MIN_BUCKETS, mechanism=mechanism
    )


def survey(names: list[str], period: str = "month") -> str:
    """Return the TOML of a survey with one question per mechanism, named after the mechanism."""
    asked = [question(name, name=name.replace("-", "_")) for name in names]
    return survey_text(
        "".join(asked), name="all-mechanisms", closes=date(2026, 12, 31), round=period
    )


def position(share: str, mechanism: Mechanism) -> int:
    """Return the coordinate at this share of the range, in whole units of 2^-64 of a step.

    It is rounded up; the difference is too small to change a report.
    """
    return math.ceil(Fraction(share) * int(mechanism.answer_at(mechanism.size)))
