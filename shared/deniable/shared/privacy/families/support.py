"""Support design: each report supports some of the options, the true one more often than another.

    keep  p    the probability that a report supports the option that is true
    lie   q    the probability that it supports one that is not

In the words of the field, a pure frequency oracle. What is estimated from is how many reports
support each option. A tally has one cell for each; where many options share a few symbols it counts
these, and `supported_by` says for which options a cell speaks. With f the share of people who hold
an option, a report supports it at the rate  r = f p + (1 - f) q,  so  f = (r - q) / (p - q)  is
unbiased, with

    variance  (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)

when the answers are fixed and only the noise is drawn. Summed over k options, whose shares add up
to one, it does not depend on the shares at all: that sum is what designs are compared by.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL, Mechanism
from deniable.shared.privacy.promises import percent
from deniable.shared.privacy.thresholds import ONE

if TYPE_CHECKING:
    from fractions import Fraction


class SupportDesign(Mechanism):
    keep: int  # p and q, in units of 2^-64
    lie: int

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        self.epsilon = epsilon
        self.size = self.options = self.answers = options

    def answer_at(self, number: int) -> int:
        return number

    @property
    def cells_are_options(self) -> bool:
        """True if each cell counts the reports that support the option with its number."""
        return type(self).supported_by is SupportDesign.supported_by

    @property
    def sums_are_bounded(self) -> bool:
        """True if Chernoff's bound holds for how many of any options a report supports.

        The options are independent, exclusive, or negatively dependent.
        """
        return self.cells_are_options and self.joint != DEPENDENT

    def rate(self, cell: int, answer: int) -> int:
        if not self.cells_are_options:
            return super().rate(cell, answer)
        return self.keep if cell == answer else self.lie

    def unbiased_share(self, rate: Any) -> Any:  # Any: a fraction, or an array of floats
        """Convert a rate of reports to a share of people; exact where the rate is a Fraction."""
        return (rate * ONE - self.lie) / (self.keep - self.lie)

    def supported_by(self, cell: int) -> Iterable[int]:
        """Return the options that every count in this cell supports, ascending."""
        return (cell,)

    def bias(self) -> str | None:
        if self.keep <= self.lie:
            return "`keep` is not above `lie`, so reports say nothing of the options they support"
        for answer in range(self.answers):
            supported = [0] * self.options
            for cell, rate in enumerate(self.cell_rates(answer)):
                for option in self.supported_by(cell):
                    supported[option] += rate
            for option, rate in enumerate(supported):
                stated = self.keep if option == answer else self.lie
                if abs(rate - stated) > self.cells:
                    return (
                        f"answer {answer}: reports support option {option} with probability "
                        f"{rate / ONE:.6g}, and `keep` and `lie` say {stated / ONE:.6g}"
                    )
        return None

    def variance(self, reports: int, share: float) -> float:
        true, false = (units * (ONE - units) / ONE**2 for units in (self.keep, self.lie))
        spread = share * true + (1 - share) * false
        return spread / (reports * ((self.keep - self.lie) / ONE) ** 2)

    def predicted_error(self, reports: int) -> float:
        """Return the error at shares that are all alike.

        It is the root mean square error for any shares.
        """
        return math.sqrt(self.variance(reports, 1 / self.options))

    @property
    def leverage(self) -> float:
        """Leverage on each option that the report supports, or does not support."""
        return max(ONE - self.lie, self.lie) / (self.keep - self.lie)

    def explain(self, symbol: int) -> str:  # noqa: ARG002 # all symbols are alike here
        keep, lie = percent(self.keep), percent(self.lie)
        return f"a report says so with {keep} when true and with {lie} when not"


class OneOption(SupportDesign):
    """A report supports exactly one option: it is that option's number."""

    joint = MULTINOMIAL

    def weight(self, symbol: int, answer: int) -> Fraction:
        from fractions import Fraction

        return Fraction(self.rate(symbol, answer), ONE)

    def worst_ratio(self) -> tuple[int, int]:
        return self.keep, self.lie

    def is_whole(self) -> bool:
        others = (self.options - 1) * self.lie
        return self.keep + others == ONE and min(self.keep, self.lie) > 0

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)


class ManyOptions(SupportDesign):
    """A report supports a set of options: bit n of it stands for option n."""

    @abstractmethod
    def written_out(self) -> dict[str, object]:
        """Sets are too many to list: the rule by which they are drawn."""

    def explain(self, symbol: int) -> str:  # noqa: ARG002 # all sets are alike here
        keep, lie = percent(self.keep), percent(self.lie)
        return f"a report names each option with {keep} when true and with {lie} when not"
