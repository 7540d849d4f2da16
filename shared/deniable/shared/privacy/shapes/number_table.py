"""Number table: a number goes on a public grid by a fair coin, then through a table of symbols.

The range is cut into `steps` equal steps, so a number lies between two grid points i and i + 1, at
a share t of the way: it becomes i + 1 with probability t and i otherwise, which keeps its mean.
Row i of the table then says with which chance each symbol is reported. One draw of 128 bits from
the kernel does both.

Estimating: symbol j stands for the value `values[j]`, in steps, chosen so that row i has mean i;
so the mean of the values of all reports is unbiased for the mean of the numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE

if TYPE_CHECKING:
    from fractions import Fraction

Row = tuple[int, ...]
LOW_64 = ONE - 1


class NumberTable(Mechanism):
    """Rows are the grid's points, columns the symbols: as many as points unless said otherwise."""

    kind = "number"
    takes_grid: ClassVar[bool] = False  # whether a survey chooses its steps

    def __init__(self, epsilon: Epsilon, steps: int, symbols: int | None = None) -> None:
        self.epsilon, self.steps, self.symbols = epsilon, steps, symbols or steps + 1

    @property
    def cells(self) -> int:
        return self.symbols

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """The table itself: row = answer on the grid, column = symbol, units of 2^-64."""

    @property
    @abstractmethod
    def values(self) -> tuple[Fraction, ...]:
        """What each symbol counts for, in steps, ascending: every row's mean is its answer."""

    def randomize(self, position: tuple[int, int], draw: Draw) -> int:
        """Client: the symbol for a number at this ratio of the range, as two integers."""
        numerator, denominator = position
        roll = draw(128)
        answer, rest = divmod(numerator * self.steps, denominator)
        answer += (roll >> 64) * denominator < rest * ONE
        return bisect_right(self._cumulative[answer], roll & LOW_64)

    def worst_ratio(self) -> tuple[int, int]:
        """Every column against every other row: each column's largest entry by its smallest."""
        worst = (1, 1)
        for column in zip(*self.rows, strict=True):
            larger, smaller = max(column), min(column)
            if larger * worst[1] > worst[0] * smaller:
                worst = larger, smaller
        return worst

    def variance(self, reports: int, position: float) -> float:
        """Of an estimated mean in units of the range, when everybody is at this point of it."""
        below = min(int(position * self.steps), self.steps - 1)
        share = position * self.steps - below
        low, high = self._point_variances[below], self._point_variances[below + 1]
        spread = (1 - share) * low + share * high + share * (1 - share)
        return spread / (reports * self.steps**2)

    def worst_variance(self, reports: int) -> float:
        """The same at the worst point: with two neighbours' variances a and b, the parabola over
        the share of the way between them is highest at (1 + b - a) / 2, or at an end."""
        points = self._point_variances
        worst = 0.0
        for low, high in pairwise(points):
            share = min(1.0, max(0.0, (1 + high - low) / 2))
            worst = max(worst, (1 - share) * low + share * high + share * (1 - share))
        return worst / (reports * self.steps**2)

    def least_variance(self, reports: int) -> float:
        """The same at the best point, which is one of the grid's: no more noise is ever certain."""
        return min(self._point_variances) / (reports * self.steps**2)

    def predicted_error(self, reports: int) -> float:
        return math.sqrt(self.worst_variance(reports))

    @property
    def leverage(self) -> float:
        return float(self.values[-1]) / self.steps

    @cached_property
    def _cumulative(self) -> tuple[Row, ...]:
        """Rows to search: padded to 2^b - 1 entries that no roll reaches, so that every search
        takes exactly b steps, whatever the answer and the roll."""
        last = self.symbols - 1
        padding = (ONE,) * (2 ** last.bit_length() - 1 - last)
        return tuple((*accumulate(row[:-1]), *padding) for row in self.rows)

    @cached_property
    def _point_variances(self) -> tuple[float, ...]:
        values = [float(value) for value in self.values]
        return tuple(
            math.fsum(
                weight / ONE * (value - answer) ** 2
                for weight, value in zip(row, values, strict=True)
            )
            for answer, row in enumerate(self.rows)
        )
