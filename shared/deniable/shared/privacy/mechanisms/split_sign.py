"""Split-sign: a public coin picks the upper or the lower half; one noisy bit says how far into it.

With the range as [-1, 1] and a fair sign s, drawn on the device and sent along, the bit is 1 with
probability max(s x, 0), and is then told by randomized response:

    keep  p = e^ε / (e^ε + 1)      the bit
    lie   q =   1 / (e^ε + 1)      the other bit

The symbol holds both:  0 is s = -1 and bit 1,  1 is s = 1 and bit 0,  2 is s = -1 and bit 0,  3 is
s = 1 and bit 1. Each row of the table therefore has q / 2 twice, rounded up, and p / 2 twice.

Privacy: the sign does not depend on the answer, and p / q = e^ε is the ratio that the bit shows.
Unbiased: the symbols count for 2 s (bit - q) / (p - q), exactly: -2p, -2q, 2q, 2p over p - q.
Fit: numbers near the middle and a small ε: with x in [-1, 1] each report's variance is
4 e^ε / (e^ε - 1)^2 + 2 |x| - x^2; at x = 0 nothing unbiased has less as long as e^ε <= 2, and at
the ends it is that of one bit.

Source: randomized response, Warner 1965, Journal of the American Statistical Association 60(309),
of the two halves separately; the variance follows in two lines from that of the bit.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE, ceil_units

if TYPE_CHECKING:
    from fractions import Fraction


class SplitSign(NumberTable):
    name, label = "split-sign", "split sign"
    sizes, proved_sizes = range(2, 3), (2,)
    chosen_by_itself = False  # its worst answer has just the variance of one bit

    def __init__(self, epsilon: Epsilon, steps: int = 2) -> None:
        super().__init__(epsilon, steps, symbols=4)
        (self.lie,) = ceil_units(*epsilon.ratio, lambda e: [1 / (e + e + 2)])  # q / 2
        self.keep = ONE // 2 - self.lie  # p / 2

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        keep, lie = self.keep, self.lie
        return (keep, keep, lie, lie), (lie, keep, keep, lie), (lie, lie, keep, keep)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        from fractions import Fraction

        near, far = (Fraction(2 * units, self.keep - self.lie) for units in (self.lie, self.keep))
        return 1 - far, 1 - near, 1 + near, 1 + far
