"""Optimal table: a table in the survey's document, which is proved whenever it is read.

There is no formula. The publisher of a survey searches for the unbiased table that keeps ε and has
the least variance for its worst answer. A device checks everything that matters to it:

    whole       every row sums to 2^64, and no probability is zero
    private     in every column the largest entry is at most e^ε times the smallest, in integers
    unbiased    the values' mean under each row is its answer, to 2^-40 of a step

A table is its own mirror image. Of its 2 h symbols the document has the first h, each as its value
in units of 2^-64 of a step, and its probability at each of the m + 1 grid points. Symbol
2 h - 1 - j at answer m - i is symbol j at answer i.

Fit: any distribution of numbers, from ε about 0.36. Tables with a formula need shorter documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Self

from deniable.shared.privacy.epsilon import BILLION, ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable, Row

MAX_STEPS = 32
FINER_ABOVE = 4 * BILLION
MAX_SYMBOLS = 256  # so that a symbol is one byte on the wire
VALUE_UNIT = 2**64  # values are multiples of 1 / VALUE_UNIT of a step
LARGEST_BIAS = VALUE_UNIT * ONE >> 40  # 2^-40 of a step, in the units of `_biases`
EXAMPLES = __file__.removesuffix(".py") + ".json"


class OptimalTable(NumberTable):
    name, label = "optimal-table", "optimal table"
    sizes, proved_sizes = range(2, MAX_STEPS + 1, 2), (4,)
    is_default = False  # the table must be computed first
    given = True

    def __init__(self, epsilon: Epsilon, steps: int, integers: Sequence[int] | None = None) -> None:
        """Raise ValueError for an invalid table. Without integers, use a stored example."""
        integers = _example(epsilon, steps) if integers is None else integers
        half, odd = divmod(len(integers), steps + 2)
        if odd or not 1 <= half <= MAX_SYMBOLS // 2:
            raise ValueError(
                f"must describe 1 to {MAX_SYMBOLS // 2} symbols, each with a value and "
                f"{steps + 1} probabilities"
            )
        super().__init__(epsilon, steps, 2 * half)
        self.integers_given = tuple(integers)
        if fault := self._fault():
            raise ValueError(fault)

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:
        """Return the number of grid steps, which is larger where noise is low.

        Rounding to the grid adds a variance of at most (step / 2)^2.
        """
        return MAX_STEPS if epsilon.billionths > FINER_ABOVE else MAX_STEPS // 2

    @classmethod
    def read(cls, epsilon: Epsilon, steps: int, integers: Sequence[int]) -> Self:
        return cls(epsilon, steps, integers)

    @property
    def integers(self) -> tuple[int, ...]:
        return self.integers_given

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        columns = [symbol[1:] for symbol in self._first_half]
        columns += [column[::-1] for column in reversed(columns)]
        return tuple(zip(*columns, strict=True))

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(units, VALUE_UNIT) for units in self._value_units)

    @property
    def _first_half(self) -> list[tuple[int, ...]]:
        size = self.steps + 2
        return [self.integers[at : at + size] for at in range(0, len(self.integers), size)]

    @cached_property
    def _value_units(self) -> list[int]:
        units = [symbol[0] for symbol in self._first_half]
        return units + [self.steps * VALUE_UNIT - value for value in reversed(units)]

    def _fault(self) -> str | None:
        if not self.is_whole():
            return "are invalid: a row does not sum to 2^64, or a probability is not above 0"
        if not self.is_private():
            return f"are not private: an entry is over e^{self.epsilon} times another in its column"
        if self._value_units != sorted(self._value_units):
            return "are invalid: the values do not ascend"
        if any(abs(bias) > LARGEST_BIAS for bias in self._biases()):
            return "are biased: the mean of the values under a row is not its answer"
        return None

    def _biases(self) -> list[int]:
        """Return each row's bias, in units of 2^-128 of a step."""
        return [
            sum(map(mul, row, self._value_units)) - answer * VALUE_UNIT * ONE
            for answer, row in enumerate(self.rows)
        ]


def _example(epsilon: Epsilon, steps: int) -> list[int]:
    """Return a table that `python -m tests.vectors.make` made, for `certify` and tests."""
    import json

    with open(EXAMPLES, encoding="utf-8") as file:
        examples = json.load(file)
    try:
        return [int(text) for text in examples[str(epsilon)][str(steps)]]
    except KeyError:
        raise ValueError(
            f"no table for ε {epsilon} and {steps} steps is stored; publishing a survey computes "
            "one and writes it into the document"
        ) from None
