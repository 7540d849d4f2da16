"""A question that is answered with a number; its mean is estimated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import TABLES, mechanisms, number_table, sizes
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.survey.kinds.base import BaseQuestion, mechanism_name, plain
from deniable.shared.survey.reader import Reader

MADE_WHEN_PUBLISHED = "`deniable survey publish` makes them"
LARGEST_BOUND = 2**53  # beyond it whole numbers are no longer exact as floats


@dataclass(frozen=True)
class Number(BaseQuestion):
    kind, statistic = "number", "mean"
    labels = ("mean",)
    mechanism: NumberTable
    low: int | float
    high: int | float

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "number")
        low, high = _bounds(reader)
        return cls(name, _table(reader, epsilon, mechanism), low, high)

    def fields(self) -> dict[str, Any]:
        grid = {"grid": self.mechanism.steps} if self.mechanism.takes_grid() else {}
        return {"low": self.low, "high": self.high, **grid}

    @property
    def asked(self) -> str:
        return f"a number from {self.low} to {self.high}"

    @property
    def example(self) -> int | float:
        return self.low

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    def place(self, answer: object) -> tuple[int, int] | None:
        """Where in the range an answer lies, as an exact ratio of two integers; clamped to it.
        Whole numbers, floats, decimals and fractions, also numpy's; not-a-number is none."""
        value: Any = plain(answer)  # Any: several types of numbers, told by what they can
        if isinstance(value, bool) or not hasattr(value, "as_integer_ratio") or value != value:
            return None
        numerator, denominator = min(max(value, self.low), self.high).as_integer_ratio()
        low, over_low, span, over_span = self._ratios
        return (numerator * over_low - low * denominator) * over_span, denominator * over_low * span

    @cached_property
    def _ratios(self) -> tuple[int, int, int, int]:
        (low, over_low), (high, over_high) = (
            self.low.as_integer_ratio(),
            self.high.as_integer_ratio(),
        )
        return low, over_low, high * over_low - low * over_high, over_low * over_high

    def answer_of(self, text: str) -> float:
        return float(text)

    def describe(self, symbol: int) -> str:
        first, last = self.mechanism.likeliest(symbol)
        low, high = (
            f"{self.low + self.span * point / self.mechanism.steps:g}" for point in (first, last)
        )
        return low if first == last else f"{low} to {high}"


def _bounds(reader: Reader) -> tuple[int | float, int | float]:
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
    return low, high


def _table(reader: Reader, epsilon: Epsilon, mechanism: str | None) -> NumberTable:
    grid = _grid(reader, mechanism)
    named = next((each for each in TABLES if each.name == mechanism), None)
    if named is None or not named.given:
        return number_table(epsilon, grid, mechanism)
    if grid is None or grid not in named.sizes:
        least, most, step = named.sizes[0], named.sizes[-1], named.sizes.step
        raise InvalidSurvey(
            f"{reader.path}.grid", f"of {mechanism} is from {least} to {most} in steps of {step}"
        )
    integers = reader.integers("integers", MADE_WHEN_PUBLISHED)
    try:
        return named.read(epsilon, grid, integers)
    except ValueError as error:
        raise InvalidSurvey(f"{reader.path}.integers", str(error)) from None


def _grid(reader: Reader, mechanism: str | None) -> int | None:
    """The steps that a document names, if it names any."""
    grid: int | None = reader.optional("grid", int)
    if grid is None:
        return None
    least, most = sizes("number")
    if not least <= grid <= most:
        raise InvalidSurvey(
            f"{reader.path}.grid", f"a grid has {least} to {most} steps, got {grid}"
        )
    if mechanism is not None and len(mechanisms("number")[mechanism].sizes) == 1:
        raise InvalidSurvey(
            f"{reader.path}.grid", f"{mechanism} has a grid of its own; leave grid out"
        )
    return grid
