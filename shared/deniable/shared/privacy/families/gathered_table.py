"""Gathered table: the symbols are the grid's own points; the ends gather what would lie beyond.

A square table that is known by the distance from its diagonal.
"""

from __future__ import annotations

from functools import cached_property

from deniable.shared.privacy.families.number_table import NumberTable, Row
from deniable.shared.privacy.thresholds import ONE


class GatheredTable(NumberTable):
    """`inside[d - 1]` is the probability of a symbol d steps away that is no end of the range,
    and `ends[d - 1]` that of an end d steps away; staying takes the remainder.
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
