"""Grouped design: each install reports for one of several groups, by one design for all of them.

    P[group g, symbol y | answer a] = P[g] P[y | a_g]

An answer is an option for every group, (a_0, a_1, ...); which group reports is drawn on the device,
whatever the answer is: ⌊u G / 2^64⌋, so each has probability 1 / G to within 2^-64. It is in the
report, and says nothing.

Privacy: of two answers the probabilities of a report differ as those of the design do in that
group, since P[g] is the same for both. So it is ε-private as the design is, whatever options the
other groups would have reported.
Use: what one report cannot hold, as the beginnings of a text (survey/kinds/text.py). The last
`final` groups are those that estimates come from; the others only lead there.

The tally keeps the design's cells for each group, then how many reports each group has.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from deniable.shared.privacy.encodings import Grouped
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import DEPENDENT, Mechanism
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE

if TYPE_CHECKING:
    from fractions import Fraction

Options = tuple[int, ...]  # one for each group
FLOOR = 4.0  # standard deviations in one group: what stands out so far is found
ENOUGH_OPTIONS = 4_096  # of fewer, frequent ones share so many that more must stand out


class GroupedDesign(Mechanism):
    design: ClassVar[type[SupportDesign]]
    kind, joint = "text", DEPENDENT
    encoding: Grouped

    def __init__(self, epsilon: Epsilon, size: int, groups: int = 3, final: int = 1) -> None:
        self.epsilon, self.size, self.groups, self.final = epsilon, size, groups, final
        self.each = self.design(epsilon, size)
        self.answers = size  # with one option for all groups: each group has all its rows in them
        self.encoding = Grouped(self.each.encoding, groups)
        ends = [-(-group * ONE // groups) for group in range(groups + 1)]
        self.shares = [end - begin for begin, end in pairwise(ends)]

    @property
    def integers(self) -> tuple[int, ...]:
        return self.each.integers

    def randomize(self, answer: Options, draw: Draw) -> int:
        """Draw the group first, then the design's report of its option."""
        group = draw(64) * self.groups >> 64
        return self.encoding.joined(group, self.each.randomize(answer[group], draw))

    def answer_at(self, number: int) -> Options:
        return (number,) * self.groups

    def weight(self, symbol: int, answer: int) -> Fraction:
        group, own = self.encoding.split(symbol)
        return self.each.weight(own, answer) * self.shares[group] / ONE

    def rate(self, cell: int, answer: int) -> int:
        """Return the rate to within one unit."""
        if (group := cell - self.groups * self.each.cells) >= 0:
            return self.shares[group]
        group, own = divmod(cell, self.each.cells)
        return (self.shares[group] * self.each.rate(own, answer) + ONE // 2) // ONE

    def worst_ratio(self) -> tuple[int, int]:
        return self.each.worst_ratio()

    def is_whole(self) -> bool:
        return self.each.is_whole() and sum(self.shares) == ONE and min(self.shares) > 0

    def predicted_error(self, reports: int) -> float:
        """Return the standard error of one option's share, by the final groups."""
        return self.each.predicted_error(1) * math.sqrt(self.groups / self.final / reports)

    def floor(self, reports: int) -> float:
        """Return the share from which on an unlisted answer is found with a probability of 99 %.

        It is found by its options in all groups (server/estimation/text_search.py): as measured. It
        is proved from 1.6 to 2.2 times that (tests/server/estimation/test_texts_floor.py).
        """
        crowded = max(1.0, ENOUGH_OPTIONS / self.size)
        one = self.each.variance(1, 0.0) * self.groups * crowded
        return FLOOR * math.sqrt(one / max(reports, 1))

    @property
    def leverage(self) -> float:
        """A forger chooses the group."""
        return self.each.leverage * self.groups / self.final

    def explain(self, symbol: int) -> str:
        return self.each.explain(self.encoding.split(symbol)[1])

    def written_out(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "group_shares": self.shares,
            **self.each.written_out(),
        }


def grouped(design: type[SupportDesign]) -> type[GroupedDesign]:
    """Return the mechanism for texts that has this design in every group."""

    class Made(GroupedDesign):
        name, label = f"grouped-{design.name}", f"grouped {design.label}"
        sizes, proved_sizes = design.sizes, design.proved_sizes
        chosen_by_itself = design.chosen_by_itself

    Made.design = design
    Made.__name__ = Made.__qualname__ = f"Grouped{design.__name__}"
    return Made
