"""Extensions as a newcomer would write them: one class each, which the contract tests register.

The product contains none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import pytest

from deniable.shared.privacy import mechanisms as table
from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import ONE, Epsilon, ceil_units
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import MULTINOMIAL, Draw
from deniable.shared.privacy.mechanisms import number_table
from deniable.shared.survey import kinds
from deniable.shared.survey.kinds.base import MeanQuestion, mechanism_name
from deniable.shared.survey.reader import Reader


class HadamardResponse(SupportDesign):
    """Report a column of Hadamard's matrix, usually one with +1 in the row of the answer.

    With K columns, a power of two above the number of options, half of the columns support a given
    option, and half of those support any other option: keep = e^ε / (e^ε + 1), lie = 1/2.

    Source: Acharya, Sun, Zhang 2019, "Hadamard response: estimating distributions privately,
    efficiently, and with little communication", AISTATS.
    """

    name = label = "hadamard-response"
    kind = "choice"
    sizes, proved_sizes = range(2, 1_025), (2, 3, 8, 33)
    is_default = False
    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        columns = 1 << options.bit_length()
        self.encoding = WholeNumber(columns)
        self.pairs = columns // 2
        (self.far,) = ceil_units(*epsilon.ratio, lambda e: [1 / ((e + 1) * self.pairs)])
        self.near = ONE // self.pairs - self.far
        self.keep, self.lie = self.near * self.pairs, ONE // 2

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.far,)

    def supported_by(self, cell: int) -> list[int]:
        return [option for option in range(self.options) if _has_plus(cell, option)]

    def randomize(self, answer: int, draw: Draw) -> int:
        pair, rest = divmod(draw(64), ONE // self.pairs)
        plus = [column for column in range(2 * self.pairs) if _has_plus(column, answer)][pair]
        row = answer + 1
        return (plus ^ row & -row, plus)[rest < self.near]

    def weight(self, symbol: int, answer: int) -> Fraction:
        return Fraction((self.far, self.near)[_has_plus(symbol, answer)], ONE)

    def worst_ratio(self) -> tuple[int, int]:
        return self.near, self.far

    def is_whole(self) -> bool:
        return (self.near + self.far) * self.pairs == ONE and min(self.near, self.far) > 0


def _has_plus(column: int, option: int) -> bool:
    return (column & option + 1).bit_count() % 2 == 0


class NegativeSurvey(SupportDesign):
    """Report an option other than the answer, or sometimes the answer itself.

    A report supports all options except the one that it names.

    Source: Esponda, Guerrero 2009, "Surveys with negative questions for sensitive items",
    Statistics & Probability Letters 79(24).
    """

    name = label = "negative-survey"
    kind = "choice"
    sizes, proved_sizes = range(2, 1_025), (2, 3, 8, 33)
    is_default = False
    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        others = options - 1
        self.encoding = WholeNumber(options)
        (self.own,) = ceil_units(*epsilon.ratio, lambda e: [1 / (e * others + 1)])
        self.own += (ONE - self.own) % others
        self.other = (ONE - self.own) // others
        self.keep, self.lie = ONE - self.own, ONE - self.other

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.own,)

    def supported_by(self, cell: int) -> list[int]:
        return [option for option in range(self.options) if option != cell]

    def randomize(self, answer: int, draw: Draw) -> int:
        roll = draw(64)
        number = (roll - self.own) // self.other
        return (number + (number >= answer), answer)[roll < self.own]

    def weight(self, symbol: int, answer: int) -> Fraction:
        return Fraction((self.other, self.own)[symbol == answer], ONE)

    def worst_ratio(self) -> tuple[int, int]:
        return self.other, self.own

    def is_whole(self) -> bool:
        return self.own + self.other * (self.options - 1) == ONE and min(self.own, self.other) > 0


@dataclass(frozen=True)
class Rating(MeanQuestion):
    """Rating from 1 to 5, whose mean is estimated."""

    kind, mechanism_kind = "rating", "number"
    form_label = "A rating"
    range = (1.0, 5.0)
    asked, example = "a rating from 1 to 5", 4

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        return cls(name, number_table(epsilon, STARS - 1, mechanism_name(reader, "number")))

    def fields(self) -> dict[str, Any]:
        return {}

    def place(self, answer: object) -> int | None:
        known = {stars: (stars - 1) * ONE for stars in range(1, STARS + 1)}
        return known.get(answer if type(answer) is int else 0)

    def answer_of(self, text: str) -> int:
        return int(text)


@contextmanager
def rating() -> Iterator[None]:
    """Register the kind `rating`, with the one line that a newcomer adds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kinds.PATHS, "rating", f"{__name__}:Rating")
        yield


STARS = 5
DESIGNS: list[type[SupportDesign]] = [HadamardResponse, NegativeSurvey]


@contextmanager
def registered(*designs: type[SupportDesign]) -> Iterator[None]:
    """Register mechanisms, with the one line per mechanism that a newcomer adds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "DESIGNS", [*table.DESIGNS, *designs])
        yield
