"""Ternary: stochastic rounding to an end of the range or its middle, then 3-ary response.

    keep  p = e^ε / (e^ε + 2)      the point that it was rounded to
    lie   q =   1 / (e^ε + 2)      each of the other two

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up twice over and p
takes what is left, so the ratio can only become smaller.
Unbiased: with the range as [-1, 1], the ends count for -B and B and the middle for 0, where
B = 1 / (p - q) = (e^ε + 2) / (e^ε - 1), exactly.
Fit: numbers that are mostly near the middle, like those cut off at a bound that few reach. With x
in [-1, 1] each report's variance is 2 (e^ε + 2) / (e^ε - 1)^2 + B |x| - x^2; at x = 0 nothing
unbiased has less once e^ε >= 2. The worst x is better than one bit's from e^ε = 3 on, and than
local Laplace's up to ε about 5.4.

Source: 3-ary randomized response, for which see `k_randomized_response`, after stochastic rounding
to three points; the variance follows from E Z^2 = B^2 (2 q + (p - q) |x|).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE, lie_units

if TYPE_CHECKING:
    from fractions import Fraction


class Ternary(NumberTable):
    name, label = "ternary", "ternary"
    sizes, proved_sizes = range(2, 3), (2,)

    def __init__(self, epsilon: Epsilon, steps: int = 2) -> None:
        super().__init__(epsilon, steps)
        self.lie = lie_units(epsilon, 3)
        self.keep = ONE - 2 * self.lie

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        keep, lie = self.keep, self.lie
        return (keep, lie, lie), (lie, keep, lie), (lie, lie, keep)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        from fractions import Fraction

        reach = Fraction(ONE, self.keep - self.lie)  # B
        return 1 - reach, Fraction(1), 1 + reach
