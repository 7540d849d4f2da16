"""Square wave: report a point near the true one more often than any other.

With m steps, answer i and symbols 0 to m + 2 b, a window of w = 2 b + 1 symbols around i + b:

    near   p = e^ε / (w e^ε + m)      each symbol of the window, i to i + 2 b
    far    q =   1 / (w e^ε + m)      each of the other m symbols

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up, p down, and the
window's middle takes the remainder of less than w units. q is computed from 1 + (2 b)^2 / 2^64
instead of 1, which keeps the middle within e^ε too.
Unbiased: each row is a constant plus a window that is symmetric around i + b, so the symbols' mean
under it is a line in i, exactly; the values invert that line.
Width: w is the odd number nearest to (m + 1) / (e^ε + 1), the size that `subset_selection` uses for
m + 1 options, and half of what Li et al. find by mutual information. With it, shares below a point
have less variance, exactly.
Fit: estimates of the distribution, or a fine grid. Inverting local Laplace takes differences of
counts, and its variance grows with the cube of the number of points; here it grows linearly. An
optimal table estimates the distribution almost as well, and the mean with less than half of the
variance, so this is used only where a survey names it.

Source: Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li 2020, "Estimating numerical distributions under
local differential privacy", SIGMOD: the discrete form, with a different width.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from deniable.shared.privacy.epsilon import ONE, Epsilon, Interval, ceil_units, exp_interval
from deniable.shared.privacy.families.number_table import NumberTable, Row

MAX_STEPS = 128  # even with a window of half that size, a symbol is one byte on the wire
USUAL_STEPS = 64  # finer than a round's noise can resolve
PRECISION = 192


class SquareWave(NumberTable):
    name, label = "square-wave", "square wave"
    sizes, proved_sizes = range(2, MAX_STEPS + 1), (2, 3, 8, 16, 64, 100, 128)
    is_default = False  # other mechanisms are better for the mean

    def __init__(self, epsilon: Epsilon, steps: int) -> None:
        self.half_width = self.side(epsilon, steps)
        self.width = 2 * self.half_width + 1
        super().__init__(epsilon, steps, steps + self.width)
        (self.far,) = ceil_units(*epsilon.ratio, self._far)
        self.near, self.remainder = divmod(ONE - steps * self.far, self.width)

    def _far(self, e: Interval) -> list[Interval]:
        above_one = ONE + (2 * self.half_width) ** 2
        return [above_one / ((e * self.width + self.steps) * ONE)]

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:  # noqa: ARG003 # the noise limits it at any ε
        return USUAL_STEPS

    @staticmethod
    def side(epsilon: Epsilon, steps: int) -> int:
        """Return b, the whole part of (m + 1) / (2 (e^ε + 1))."""
        e = exp_interval(*epsilon.ratio, PRECISION)
        return (steps + 1 << PRECISION) // (2 * (e.high + (1 << PRECISION)))

    @property
    def integers(self) -> tuple[int, ...]:
        return self.width, self.far

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        half = (self.near,) * self.half_width
        window = (*half, self.near + self.remainder, *half)
        return tuple(
            (*(self.far,) * answer, *window, *(self.far,) * (self.steps - answer))
            for answer in range(self.answers)
        )

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        constant = self.far * self.symbols * (self.symbols - 1) // 2
        slope = (self.near - self.far) * self.width + self.remainder
        return tuple(
            Fraction(symbol * ONE - constant, slope) - self.half_width
            for symbol in range(self.symbols)
        )
