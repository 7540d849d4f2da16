"""Grouped design: each install reports for one of several groups, by one design for all of them.

    P[group g, symbol y | answer a] = P[g] P[y | a_g]

An answer is an option for every group, (a_0, a_1, ...). The device draws the group independently of
the answer, as ⌊u G / 2^64⌋, so each has probability 1 / G to within 2^-64. The group is part of the
report and reveals nothing.

Privacy: P[g] is the same for any two answers, so the probabilities of a report differ by that
group's factor in the design, whatever options the other groups would have reported. Use: answers
too large for one report, such as all beginnings of a text (survey/kinds/text.py). Estimates come
from the last `final` groups; the other groups only narrow the search.

The tally has the design's cells for each group, then the number of each group's reports.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from deniable.shared.privacy.encodings import Grouped
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import DEPENDENT, Chances, Draw, Mechanism

Options = tuple[int, ...]  # an option for each group
FLOOR = 4.0  # standard deviations above zero, in one group, at which an answer is found
ENOUGH_OPTIONS = 4_096  # with fewer options, frequent answers collide and the floor is higher


class GroupedDesign(Mechanism):
    design: ClassVar[type[SupportDesign]]
    kind, joint = "text", DEPENDENT
    encoding: Grouped

    def __init__(self, epsilon: Epsilon, size: int, groups: int = 3, final: int = 1) -> None:
        self.epsilon, self.size, self.groups, self.final = epsilon, size, groups, final
        self.each = self.design(epsilon, size)
        self.answers = size  # answer n is option n in every group, which covers all rows
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
        """Return the standard error of one option's share, from the final groups."""
        return self.each.predicted_error(1) * math.sqrt(self.groups / self.final / reports)

    def variances(self, share: float | None) -> tuple[float, float]:
        """Return the variances of a text's share, of which only the final groups are evidence."""
        answer, noise = self.each.variances(share)
        return answer, (answer + noise) * self.groups / self.final - answer

    def floor(self, reports: int) -> float:
        """Return the least share at which an unlisted answer is found with a probability of 99 %.

        FLOOR was measured with server/estimation/frequent_texts.py. The share that a proof can
        guarantee is 1.6 to 2.2 times as large (tests/server/estimation/test_texts_floor.py).
        """
        crowded = max(1.0, ENOUGH_OPTIONS / self.size)
        one = self.each.variance(1, 0.0) * self.groups * crowded
        return FLOOR * math.sqrt(one / max(reports, 1))

    @property
    def leverage(self) -> float:
        """Leverage of a forger, who chooses the group."""
        return self.each.leverage * self.groups / self.final

    def chances(self, symbol: int) -> Chances:  # noqa: ARG002 # all symbols are alike here
        return Chances("text", self.each.keep, self.each.lie)

    def explain(self, symbol: int) -> str:
        return self.each.explain(self.encoding.split(symbol)[1])

    def written_out(self) -> dict[str, Any]:
        return {"groups": self.groups, "group_shares": self.shares, **self.each.written_out()}


def grouped(design: type[SupportDesign]) -> type[GroupedDesign]:
    """Return the mechanism for texts that has this design in every group."""

    class Made(GroupedDesign):
        name, label = f"grouped-{design.name}", f"grouped {design.label}"
        sizes, proved_sizes = design.sizes, design.proved_sizes
        is_default = design.is_default

    Made.design = design
    Made.__name__ = Made.__qualname__ = f"Grouped{design.__name__}"
    return Made
