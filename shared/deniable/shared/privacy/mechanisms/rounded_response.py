"""Rounded response: stochastic rounding of a number to a few points, then randomized response.

One-bit mean: two points, the ends of the range; the number table with a single step.

    keep  p = e^ε / (e^ε + 1)      the end to which the number was rounded
    lie   q =   1 / (e^ε + 1)      the other end

Privacy: p / q = e^ε.
Unbiased: the ends count for -q / (p - q) and p / (p - q) of the range, exactly.
Fit: ε below about 1.4, and one bit on the wire. The variance equals that of randomized response,
however the numbers are spread [1].

Ternary: three points, the ends of the range and its middle.

    keep  p = e^ε / (e^ε + 2)      the point to which the number was rounded
    lie   q =   1 / (e^ε + 2)      each of the other two

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up and p takes the
remainder of both, so the ratio can only become smaller.
Unbiased: with the range as [-1, 1], the ends count for -B and B and the middle for 0, where
B = 1 / (p - q) = (e^ε + 2) / (e^ε - 1), exactly.
Fit: numbers that are mostly near the middle, such as those clipped at a bound that few reach. With
x in [-1, 1] each report's variance is 2 (e^ε + 2) / (e^ε - 1)^2 + B |x| - x^2; at x = 0 no unbiased
mechanism has less if e^ε >= 2. The variance at the worst x is less than one bit's from e^ε = 3, and
less than local Laplace's up to ε about 5.4. It follows from E Z^2 = B^2 (2 q + (p - q) |x|).

Split-sign: a public coin picks the upper or the lower half of the range, and one noisy bit is
rounded from the position in it. With the range as [-1, 1] and a fair sign s, drawn on the device
and included in the report, the bit is 1 with probability max(s x, 0), and is reported by randomized
response:

    keep  p = e^ε / (e^ε + 1)      the bit
    lie   q =   1 / (e^ε + 1)      the other bit

The symbol holds both:  0 is s = -1 and bit 1,  1 is s = 1 and bit 0,  2 is s = -1 and bit 0,  3 is
s = 1 and bit 1. Each row of the table therefore has q / 2 twice, rounded up, and p / 2 twice.

Privacy: the sign does not depend on the answer, and p / q = e^ε is the ratio that the bit shows.
Unbiased: the symbols count for 2 s (bit - q) / (p - q), exactly: -2p, -2q, 2q, 2p over p - q.
Fit: numbers near the middle and a small ε: with x in [-1, 1] each report's variance is
4 e^ε / (e^ε - 1)^2 + 2 |x| - x^2; at x = 0 no unbiased mechanism has less if e^ε <= 2, and at the
ends it equals that of one bit. This is randomized response for each half separately, so the
variance follows in two lines from that of the bit.

[1] Duchi, Jordan, Wainwright 2018, "Minimax optimal procedures for locally private estimation",
Journal of the American Statistical Association 113(521).
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from deniable.shared.privacy.epsilon import ONE, Epsilon, ceil_units
from deniable.shared.privacy.families.number_table import NumberTable, Row


class RoundedResponse(NumberTable):
    """Randomized response of a rounded number: the likely symbols of a row are equally likely."""

    likely: ClassVar[tuple[tuple[int, ...], ...]]  # the likely symbols of each row

    def __init__(self, epsilon: Epsilon, steps: int | None = None) -> None:
        super().__init__(epsilon, steps or len(self.likely) - 1, len(set().union(*self.likely)))
        true, others = len(self.likely[0]), self.symbols - len(self.likely[0])
        (self.lie,) = ceil_units(*epsilon.ratio, lambda e: [1 / (e * true + others)])
        self.keep = (ONE - others * self.lie) // true

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        units = self.lie, self.keep
        return tuple(
            tuple(units[symbol in row] for symbol in range(self.symbols)) for row in self.likely
        )

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        middle, scale = Fraction(self.steps, 2), self.keep - self.lie
        return tuple(middle + Fraction(offset) / scale for offset in self.offsets)

    @property
    @abstractmethod
    def offsets(self) -> tuple[Fraction | int, ...]:
        """Distances of the symbols' values from the middle, multiplied by (keep - lie)."""


class OneBitMean(RoundedResponse):
    name, label = "one-bit-mean", "one bit"
    sizes, proved_sizes = range(1, 2), (1,)
    likely = (0,), (1,)
    offsets = Fraction(-ONE, 2), Fraction(ONE, 2)


class Ternary(RoundedResponse):
    name, label = "ternary", "ternary"
    sizes, proved_sizes = range(2, 3), (2,)
    likely = (0,), (1,), (2,)
    offsets = -ONE, 0, ONE


class SplitSign(RoundedResponse):
    name, label = "split-sign", "split sign"
    sizes, proved_sizes = range(2, 3), (2,)
    is_default = False  # its worst answer has exactly the variance of one bit
    likely = (0, 1), (1, 2), (2, 3)

    @property
    def offsets(self) -> tuple[int, ...]:
        return -2 * self.keep, -2 * self.lie, 2 * self.lie, 2 * self.keep
