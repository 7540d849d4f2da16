"""Local Laplace: a number on a grid plus discrete Laplace noise, gathered at the ends of the range.

With m steps and r = e^(-ε/m), answer i and symbol j:

    0 < j < m    (1 - r) / (1 + r) r^|i - j|
    j = 0        r^i       / (1 + r)        everything at or below the low end
    j = m        r^(m - i) / (1 + r)        everything at or above the high end

Privacy: neighbouring rows differ by a factor of at most e^(ε/m), and rows are at most m apart.
Every entry off the diagonal is rounded up to the next 2^-64 and the diagonal takes the remainder,
so it is too small by up to m units. For ε below about 1e-7 on a fine grid, the ratio in its column
can then exceed e^ε. A survey's table is proved whenever it is read, so such a table is refused.
Unbiased: a geometric tail beyond an end has mean r / (1 - r) wherever it begins, so the values
-r / (1 - r), 1, ..., m - 1, m + r / (1 - r) give each row its own mean. One correction with the
inverse of the unrounded table, which is tridiagonal, removes the bias of rounding the table.
Fit: ε above about 1.4, and a fine grid if the histogram is wanted too; below, one bit has less
variance. Gathering at the ends bounds the effect of one forged report, and lowers the variance.

Source: the truncated geometric mechanism of Ghosh, Roughgarden, Sundararajan 2009, "Universally
utility-maximizing privacy mechanisms", STOC, used on each device.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from operator import mul

from deniable.shared.privacy.epsilon import (
    BILLION,
    ONE,
    Epsilon,
    Interval,
    ceil_units,
    exp_interval,
)
from deniable.shared.privacy.families.number_table import GatheredTable

MAX_STEPS = 255  # so that a symbol is one byte on the wire
VALUE_BITS = 96
UNIT = 2**VALUE_BITS  # values are multiples of 1 / UNIT of a step


class LocalLaplace(GatheredTable):
    name, label = "local-laplace", "local Laplace"
    sizes = range(1, MAX_STEPS + 1)
    proved_sizes = (1, 2, 3, 8, 64, 100, 255)

    def __init__(self, epsilon: Epsilon, steps: int) -> None:
        super().__init__(epsilon, steps)
        units = ceil_units(epsilon.billionths, BILLION * steps, self._formulas)
        self.inside, self.ends = units[: steps - 1], units[steps - 1 :]

    def _formulas(self, step: Interval) -> list[Interval]:
        """Return the probability of each distance, inside and at an end; `step` is 1 / r."""
        ends = [1 / (step + 1)]  # r^d / (1 + r)  =  r^(d - 1) / (1/r + 1)
        for _ in range(1, self.steps):
            ends.append(ends[-1] / step)
        inside = [(step - 1) * end / step for end in ends[:-1]]  # (1 - r) r^d / (1 + r)
        return inside + ends

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:
        """Return the grid on which the worst answer's variance is least, from the closed form.

        Var(i) = 2 r / (1 - r)^2 - (r^i + r^(m - i)) r / ((1 + r) (1 - r)^2): plain discrete
        Laplace, less the variance of the gathered tails. It is concave in i, so the worst answer is
        halfway between the two middle points, or next to the middle one.
        """

        def worst(m: int) -> float:
            r = math.exp(-float(epsilon) / m)

            def variance(i: int) -> float:
                return (2 - (r**i + r ** (m - i)) / (1 + r)) * r / (1 - r) ** 2

            low, high = variance(m // 2), variance((m + 1) // 2 if m % 2 else m // 2 + 1)
            share = (1 + high - low) / 2
            return ((1 - share) * low + share * high + share * (1 - share)) / m**2

        return min(range(1, MAX_STEPS + 1), key=worst)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        step = exp_interval(self.epsilon.billionths, BILLION * self.steps, VALUE_BITS)
        r = Fraction(UNIT, step.low)
        m, excess = self.steps, round(r / (1 - r) * UNIT)
        closed = [-excess, *(j * UNIT for j in range(1, m)), m * UNIT + excess]
        bias = [
            Fraction(i * ONE * UNIT - sum(map(mul, row, closed)), ONE)
            for i, row in enumerate(self.rows)
        ]
        corrections = _undo_unrounded(bias, r)
        return tuple(Fraction(v + round(c), UNIT) for v, c in zip(closed, corrections, strict=True))


def _undo_unrounded(vector: list[Fraction], r: Fraction) -> list[Fraction]:
    """Apply the inverse of the unrounded table, (r^|i - j|) times a diagonal.

    The inverse of (r^|i - j|) times 1 - r^2 has 1 + r^2 inside, 1 at the ends and -r next to them.
    """
    last = len(vector) - 1
    result = []
    for i, x in enumerate(vector):
        end = i in (0, last)
        adjacent = (vector[i - 1] if i > 0 else 0) + (vector[i + 1] if i < last else 0)
        middle = (x if end else (1 + r * r) * x) - r * adjacent
        result.append(middle / (1 - r * r) * ((1 + r) if end else (1 + r) / (1 - r)))
    return result
