"""One-bit mean: stochastic rounding to one end of the range, then randomized response.

    keep  p = e^ε / (e^ε + 1)      the end that it was rounded to
    lie   q =   1 / (e^ε + 1)      the other end

Privacy: p / q = e^ε. It is the number table with a single step.
Unbiased: the ends count for -q / (p - q) and p / (p - q) of the range, exactly.
Fit: ε below about 1.4, and one bit on the wire; the variance is that of randomized response however
the numbers are spread.

Source: Duchi, Jordan, Wainwright 2018, "Minimax optimal procedures for locally private estimation",
Journal of the American Statistical Association 113(521).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import GatheredTable
from deniable.shared.privacy.thresholds import ONE, lie_units

if TYPE_CHECKING:
    from fractions import Fraction


class OneBitMean(GatheredTable):
    name, label = "one-bit-mean", "one bit"
    sizes, proved_sizes = range(1, 2), (1,)

    def __init__(self, epsilon: Epsilon, steps: int = 1) -> None:
        super().__init__(epsilon, steps)
        self.inside, self.ends = (), (lie_units(epsilon, 2),)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        from fractions import Fraction

        (lie,) = self.ends
        excess = Fraction(lie, ONE - 2 * lie)
        return -excess, 1 + excess
