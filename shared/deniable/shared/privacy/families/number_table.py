"""Number table: stochastic rounding of a number to a public grid, then a table of probabilities.

The range is cut into `steps` equal steps, so a number lies between two grid points i and i + 1, at
a fraction t of the way. It is rounded to i + 1 with probability t and to i otherwise, which keeps
its mean. Row i of the table then gives the probability of each symbol. One draw of 128 bits from
the kernel does both.

Estimating: symbol j stands for the value `values[j]`, in steps, chosen so that row i has mean i;
so the mean of the values of all reports is unbiased for the mean of the numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Self

from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import ONE, Epsilon, percent
from deniable.shared.privacy.mechanism import MULTINOMIAL, Chances, Draw, Mechanism

Row = tuple[int, ...]
LOW_64 = ONE - 1
ALIKE_BITS = 40  # probabilities that differ by less than one part in 2^40 count as equal
RANGE = 2  # the length of [-1, 1], in which variances are compared
FAR = ONE << 32  # added so that whole numbers have the same length for every answer

Position = int  # position of a number above the low end, in units of 2^-64 of a step


class NumberTable(Mechanism):
    """Table with a row for each grid point and a column for each symbol; square by default."""

    kind = "number"
    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, steps: int, symbols: int | None = None) -> None:
        self.epsilon = epsilon
        self.size = self.steps = steps
        self.answers = steps + 1
        self.encoding = WholeNumber(symbols or self.answers)

    @classmethod
    def read(cls, epsilon: Epsilon, steps: int, integers: Sequence[int]) -> Self:  # noqa: ARG003 # only `given` tables need them
        """Return the table with the integers of a document; raise ValueError if it is invalid."""
        return cls(epsilon, steps)

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """Probabilities in units of 2^-64: row = answer on the grid, column = symbol."""

    @property
    @abstractmethod
    def values(self) -> tuple[Fraction, ...]:
        """Values of the symbols in grid steps, ascending. Their mean under a row is its answer."""

    def bias(self) -> str | None:
        if list(self.values) != sorted(self.values):
            return "`values` do not ascend"
        for answer, row in enumerate(self.rows):
            mean = sum(weight * value for weight, value in zip(row, self.values, strict=True)) / ONE
            if abs(mean - answer) > 2**-ALIKE_BITS:
                return f"answer {answer}: the mean of the values is {float(mean):.6g}"
        return None

    def randomize(self, answer: Position, draw: Draw) -> int:
        """Return the symbol for a number at this position.

        Adding 2^64 - 1 - coin carries into the next point exactly if the coin is below the fraction
        of the step that the position has passed.
        """
        roll = draw(128)
        point = (answer + FAR + LOW_64 - (roll >> 64) >> 64) - (FAR >> 64)
        return bisect_right(self._cumulative[point], roll & LOW_64)

    def answer_at(self, number: int) -> Position:
        return number * ONE

    def weight(self, symbol: int, answer: int) -> Fraction:
        return Fraction(self.rows[answer][symbol], ONE)

    def rate(self, cell: int, answer: int) -> int:
        return self.rows[answer][cell]

    def is_whole(self) -> bool:
        return all(sum(row) == ONE and min(row) > 0 for row in self.rows)

    def likeliest(self, symbol: int) -> tuple[int, int]:
        """Return the first and last answer at which this symbol is most probable."""
        column = [row[symbol] for row in self.rows]
        least = max(column) - (max(column) >> ALIKE_BITS)
        most = [answer for answer, weight in enumerate(column) if weight >= least]
        return most[0], most[-1]

    def chances(self, symbol: int) -> Chances:
        column = [row[symbol] for row in self.rows]
        return Chances("number", max(column), min(column))

    def explain(self, symbol: int) -> str:
        column = [row[symbol] for row in self.rows]
        return (
            f"reported with probability {percent(max(column))} if true, and with "
            f"{percent(min(column))} if the truth is farthest from it"
        )

    def worst_ratio(self) -> tuple[int, int]:
        worst = (1, 1)
        for column in zip(*self.rows, strict=True):
            larger, smaller = max(column), min(column)
            if larger * worst[1] > worst[0] * smaller:
                worst = larger, smaller
        return worst

    def variance(self, reports: int, position: float) -> float:
        """Return the variance of the estimated mean if everyone is at this position."""
        below = min(int(position * self.steps), self.steps - 1)
        share = position * self.steps - below
        low, high = self._point_variances[below], self._point_variances[below + 1]
        spread = (1 - share) * low + share * high + share * (1 - share)
        return spread / (reports * self.steps**2)

    def worst_variance(self, reports: int) -> float:
        """Return the variance at the worst position.

        Between two points with variances a and b it is a parabola with its maximum at
        (1 + b - a) / 2 of the way, or at an end.
        """
        worst = 0.0
        for low, high in pairwise(self._point_variances):
            share = min(1.0, max(0.0, (1 + high - low) / 2))
            worst = max(worst, (1 - share) * low + share * high + share * (1 - share))
        return worst / (reports * self.steps**2)

    def least_variance(self, reports: int) -> float:
        """Return the variance at the best position, one of the grid's points."""
        return min(self._point_variances) / (reports * self.steps**2)

    def predicted_error(self, reports: int) -> float:
        return math.sqrt(self.worst_variance(reports))

    def n_variance(self) -> float:
        return (RANGE * self.predicted_error(1)) ** 2

    @property
    def worst_share(self) -> float:
        return 0.5

    def variances(self, share: float | None) -> tuple[float, float]:
        points = self._point_variances
        if share is None:
            within = math.fsum(points) - (points[0] + points[-1]) / 2
            return 1 / 12, (within / self.steps + 1 / 6) / self.steps**2  # 1 / 6: the rounding
        noise = share * points[-1] + (1 - share) * points[0]
        return share * (1 - share), noise / self.steps**2

    @property
    def leverage(self) -> float:
        return float(self.values[-1]) / self.steps

    @cached_property
    def _cumulative(self) -> tuple[Row, ...]:
        """Cumulative rows, padded to 2^b - 1 entries so that every search takes exactly b steps."""
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


class GatheredTable(NumberTable):
    """Table whose symbols are the grid's points; noise beyond an end is reported as that end.

    `inside[d - 1]` is the probability of a symbol d steps away that is not an end of the range, and
    `ends[d - 1]` that of an end d steps away. The answer's own point has the remaining probability.
    """

    inside: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def integers(self) -> tuple[int, ...]:
        return self.inside + self.ends

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self._row(answer) for answer in range(self.symbols))

    def _row(self, answer: int) -> Row:
        row = [0] * self.symbols
        for symbol in range(self.symbols):
            if symbol != answer:
                distance = abs(symbol - answer) - 1
                row[symbol] = (self.ends if symbol in (0, self.steps) else self.inside)[distance]
        row[answer] = ONE - sum(row)
        return tuple(row)
