"""Questions with a number as the answer, whose mean is estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Number as AnyNumber
from struct import Struct
from typing import Any, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable, Position
from deniable.shared.privacy.mechanisms import TABLES, mechanisms, number_table, sizes
from deniable.shared.survey.kinds.base import MeanQuestion, PlanField, mechanism_name
from deniable.shared.survey.reader import Reader

MADE_WHEN_PUBLISHED = "`deniable survey publish` makes them"
LARGEST_BOUND = 2**53  # above this, floats cannot represent every integer
FINER_BITS = 181  # keeps those of a float's 53 bits that exceed 2^-128 of the range
FAR = 2**60  # ranges added so that whole numbers have the same length for every answer
BITS = Struct("<dB").pack  # a float, whose exponent starts at bit 52, and a bit above the float
TOP, DIGITS = 2**64, 2**64 | 2**52 - 1
LEADING = 0, 2**52  # implicit bit for an exponent of 0, and for any other
BEYOND = 4 * LARGEST_BOUND  # a number beyond every bound, on either side
# Ways to read a value: as a float, as a whole number, in another way, or not at all.
FLOAT, WHOLE, OTHER, NEVER = range(4)
WAYS = {float: FLOAT, int: WHOLE, bool: NEVER, str: NEVER, type(None): NEVER}


@dataclass(frozen=True)
class Number(MeanQuestion):
    kind = mechanism_kind = "number"
    form_label = "A number"
    plan_fields = (
        PlanField("low", "Lowest value", 0.0, "of a number (default 0)", 0.0, is_whole=False),
        PlanField("high", "Highest value", 100.0, "of a number (default 1)", 1.0, is_whole=False),
    )
    size_option = "grid"
    has_unit = takes_optimal_table = in_javascript = True
    low: int | float
    high: int | float

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "number")
        low, high = _bounds(reader)
        return cls(name, _table(reader, epsilon, mechanism), low, high)

    def fields(self) -> dict[str, Any]:
        grid = {"grid": self.mechanism.steps} if len(self.mechanism.sizes) > 1 else {}
        return {"low": self.low, "high": self.high, **grid}

    @property
    def example(self) -> int | float:
        return self.low

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    def place(self, answer: object) -> Position | None:
        """Return the position in the range, clamped, rounded up to 2^-64 of a step."""
        value = _nearest_float(answer, *self._around)
        fits = value == value
        low, high, least, finest, beyond, factor, span = self._scale
        bits = int.from_bytes(BITS(min(max((low, value)[fits], low), high), 1), "little")
        exponent = bits >> 52 & 0x7FF
        digits = (bits & DIGITS) + LEADING[min(exponent, 1)]
        shift = max(exponent, least) - finest
        size = (digits << shift) - (TOP << shift)
        units = (size, -size)[bits >> 63 & 1]
        position = ((units + beyond) * factor + span - 1) // span - FAR * factor
        return (None, position)[fits]

    @cached_property
    def _around(self) -> tuple[int, int]:
        """Nearest whole numbers outside the range."""
        return math.floor(self.low) - 1, math.ceil(self.high) + 1

    @cached_property
    def _scale(self) -> tuple[float, float, int, int, int, int, int]:
        """Return both ends of the range, and the factors by which `place` scales a float.

        The factors are: the smallest exponent that matters and the exponent of a unit, both as
        stored in a float; FAR ranges minus the low end, in that unit, so that every dividend has
        the same length; the range in units of 2^-64 of a step; and the range in that unit.
        """
        (low, over_low), (high, over_high) = (
            self.low.as_integer_ratio(),
            self.high.as_integer_ratio(),
        )
        finer = (over_low * over_high).bit_length() + FINER_BITS
        low_units, high_units = (low << finer) // over_low, (high << finer) // over_high
        span, finest = high_units - low_units, 1075 - finer
        factor = self.mechanism.answer_at(self.mechanism.steps)
        beyond = FAR * span - low_units
        return float(self.low), float(self.high), max(finest, 1), finest, beyond, factor, span

    def answer_of(self, text: str) -> float:
        return float(text)

    @classmethod
    def error_unit(cls, asked: Mapping[str, Any]) -> float:
        return float(asked["high"]) - float(asked["low"])


def _nearest_float(answer: object, below: int, above: int) -> float:
    """Return the float nearest to an answer, or NaN if the answer is not a number.

    A whole number is clamped first, because a large one has no exact float. Every way of reading
    runs for every answer, on a placeholder where it does not apply, so neither the type nor the
    size of the value changes the work.
    """
    way = WAYS.get(type(answer), OTHER)
    values: list[Any] = [0.5, 1, 0.5, None]  # Any: a placeholder for each way
    values[way] = answer
    whole = float(min(max(values[WHOLE], below), above))
    return (float(values[FLOAT]), whole, _other_float(values[OTHER]), math.nan)[way]


def _other_float(answer: Any) -> float:  # Any: any type of number
    """Convert decimals, fractions, numpy scalars and custom number types."""
    number = (math.nan, answer)[is_number(type(answer))]  # type: ignore[arg-type]  # types are hashable
    try:
        return float(number)
    except OverflowError:  # a fraction too large for a float
        return float(min(max(number, -BEYOND), BEYOND))


@lru_cache(maxsize=64)
def is_number(kind: type) -> bool:
    """Return whether a type is a number type; cached, because the check's time depends on it."""
    return issubclass(kind, AnyNumber)


def _bounds(reader: Reader) -> tuple[int | float, int | float]:
    low, high = (
        reader.take(key, (int, float), f"write a number, like {key} = 0") for key in ("low", "high")
    )
    for key, bound in (("low", low), ("high", high)):
        if not -LARGEST_BOUND <= bound <= LARGEST_BOUND:  # also refuses NaN
            raise reader.error(key, "write a number between -2^53 and 2^53")
    if low >= high:
        raise reader.error("high", f"must be above low, got low {low} and high {high}")
    return low, high


def _table(reader: Reader, epsilon: Epsilon, mechanism: str | None) -> NumberTable:
    grid = _grid(reader, mechanism)
    named = next((table for table in TABLES if table.name == mechanism), None)
    if named is None or not named.given:
        return number_table(epsilon, grid, mechanism)
    if grid is None or grid not in named.sizes:
        least, most, step = named.sizes[0], named.sizes[-1], named.sizes.step
        advice = f"must be {least} to {most}, in steps of {step}, for {mechanism}"
        raise reader.error("grid", advice)
    integers = reader.integers("integers", MADE_WHEN_PUBLISHED)
    try:
        return named.read(epsilon, grid, integers)
    except ValueError as error:
        raise reader.error("integers", str(error)) from None


def _grid(reader: Reader, mechanism: str | None) -> int | None:
    grid: int | None = reader.optional("grid", int)
    if grid is None:
        return None
    least, most = sizes("number")
    if not least <= grid <= most:
        raise reader.error("grid", f"must be {least} to {most} steps, got {grid}")
    if mechanism is not None and len(mechanisms("number")[mechanism].sizes) == 1:
        raise reader.error("grid", f"{mechanism} has a fixed grid; leave grid out")
    return grid
