"""Support designs: each report supports some of the options, the true one more often than others.

    keep  p    the probability that a report supports the true option
    lie   q    the probability that it supports a given other option

The literature calls them pure frequency oracles. Estimates come from the number of reports that
support each option. A tally has one cell for each option or, if many options share a few symbols,
one for each symbol; `supported_by` returns the options that a cell supports. With f the share of
people who hold an option, a report supports it at the rate  r = f p + (1 - f) q,  so
f = (r - q) / (p - q)  is unbiased, with

    variance  (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)

if the answers are fixed and only the noise is random. Summed over k options, whose shares add up to
one, it does not depend on the shares; designs are compared by that sum.

In a cyclic design, symbols form a circle of N. Symbol y supports option x if (x + y) mod N is in a
set D of r numbers. Any two options have λ symbols in common: D is a difference set for all
differences of options.

    blind  w    the probability of a uniform draw from all N symbols, independent of the answer
    1 - w       the probability of a uniform draw from the r symbols that support the answer

The tally counts symbols. A convolution with D gives the number of reports that support each option,
for all options together, with

    keep  p = 1 - w + w r / N            lie  q = (1 - w) λ / r + w r / N
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import (
    ONE,
    Epsilon,
    Interval,
    ceil_units,
    lie_units,
    nearest,
    percent,
)
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL, Chances, Draw, Mechanism

DIE_BITS = 128  # number of random bits that choose one of several symbols
DIE = 1 << DIE_BITS
SLACK = 2**100  # among up to 2^26, the die changes a probability by less than 1 / SLACK of it
LOW_64 = ONE - 1


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
        """True if cell n counts the reports that support option n."""
        return type(self).supported_by is SupportDesign.supported_by

    @property
    def sums_are_bounded(self) -> bool:
        """True if Chernoff's bound holds for the number of given options that a report supports."""
        return self.cells_are_options and self.joint != DEPENDENT

    def rate(self, cell: int, answer: int) -> int:
        if not self.cells_are_options:
            return super().rate(cell, answer)
        return self.keep if cell == answer else self.lie

    def unbiased_share(self, rate: Any) -> Any:  # Any: a fraction, or an array of floats
        """Convert a rate of reports to a share of people; exact where the rate is a Fraction."""
        return (rate * ONE - self.lie) / (self.keep - self.lie)

    def supported_by(self, cell: int) -> Iterable[int]:
        """Return the options that a report in this cell supports, ascending."""
        return (cell,)

    def bias(self) -> str | None:
        if self.keep <= self.lie:
            return "`keep` is not above `lie`, so reports carry no information about the options"
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
                        f"{rate / ONE:.6g}, but `keep` and `lie` state {stated / ONE:.6g}"
                    )
        return None

    def variance(self, reports: int, share: float) -> float:
        true, false = (units * (ONE - units) / ONE**2 for units in (self.keep, self.lie))
        spread = share * true + (1 - share) * false
        return spread / (reports * ((self.keep - self.lie) / ONE) ** 2)

    @property
    def worst_share(self) -> float:
        """The share at which half of the reports support an option, or the nearest one."""
        return min(1.0, (ONE / 2 - self.lie) / (self.keep - self.lie))

    def variances(self, share: float | None) -> tuple[float, float]:
        share = 1 / self.options if share is None else share
        return share * (1 - share), self.variance(1, share)

    def predicted_error(self, reports: int) -> float:
        """Return the error at equal shares: the root mean square error for any shares."""
        return math.sqrt(self.variance(reports, 1 / self.options))

    @property
    def leverage(self) -> float:
        """Leverage on each option that nobody chose, or that everyone chose."""
        return max(ONE - self.lie, self.keep) / (self.keep - self.lie)

    def chances(self, symbol: int) -> Chances:  # noqa: ARG002 # all symbols are alike here
        return Chances("options", self.keep, self.lie)

    def explain(self, symbol: int) -> str:  # noqa: ARG002 # all symbols are alike here
        keep, lie = percent(self.keep), percent(self.lie)
        return f"each option is reported with probability {keep} if true, and {lie} if not"


class OneOption(SupportDesign):
    """Support design whose reports name exactly one option each."""

    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = WholeNumber(options)
        self.lie = lie_units(epsilon, options)
        self.keep = ONE - self.lie * (options - 1)

    def weight(self, symbol: int, answer: int) -> Fraction:
        return Fraction(self.rate(symbol, answer), ONE)

    def worst_ratio(self) -> tuple[int, int]:
        return self.keep, self.lie

    def is_whole(self) -> bool:
        others = (self.options - 1) * self.lie
        return self.keep + others == ONE and min(self.keep, self.lie) > 0

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    def chances(self, symbol: int) -> Chances:
        return super().chances(symbol)._replace(form="option")

    def explain(self, symbol: int) -> str:
        return super().explain(symbol).removeprefix("each option is ")


class CyclicDesign(SupportDesign):
    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, options: int, sizes: tuple[int, int, int]) -> None:
        """Make the design whose N, r and λ are `sizes`."""
        super().__init__(epsilon, options)
        self.modulus, self.speaking, self.shared = sizes
        self.encoding = WholeNumber(self.modulus)
        (self.blind,) = ceil_units(*epsilon.ratio, self._blind)
        seeing, by_chance = ONE - self.blind, self.blind * self.speaking
        self.keep = nearest(seeing * self.modulus + by_chance, self.modulus)
        self.lie = nearest(
            seeing * self.shared * self.modulus + by_chance * self.speaking,
            self.speaking * self.modulus,
        )

    @property
    @abstractmethod
    def difference_set(self) -> Sequence[int]:
        """The set D, ascending."""

    def _blind(self, e: Interval) -> list[Interval]:
        """Return N / (N + r (e^ε - 1)), with a factor 1 + 1 / SLACK for an answer's symbols."""
        everything = self.modulus * (SLACK + 1)
        return [everything / (e * (self.speaking * SLACK) + (everything - self.speaking * SLACK))]

    def randomize(self, answer: int, draw: Draw) -> int:
        """Draw a report by the same operations for every answer and outcome.

        Both symbols are computed, with the same die. Adding 2^64 - blind carries exactly if the
        roll is not below `blind`.
        """
        roll = draw(64 + DIE_BITS)
        die = roll >> 64
        seeing = (roll & LOW_64) + (ONE - self.blind) >> 64
        number = self.difference_set[die * self.speaking >> DIE_BITS]
        own = (number + self.modulus - answer) % self.modulus
        return (die * self.modulus >> DIE_BITS, own)[seeing]

    def supported_by(self, cell: int) -> Iterable[int]:
        options = ((number - cell) % self.modulus for number in self.difference_set)
        return sorted(option for option in options if option < self.options)

    def rate(self, cell: int, answer: int) -> int:
        speaks = (cell + answer) % self.modulus in self.difference_set
        own = (ONE - self.blind) * self.modulus if speaks else 0
        return nearest(self.blind * self.speaking + own, self.modulus * self.speaking)

    @property
    def rates(self) -> tuple[float, float]:
        """P[symbol | answer] for symbols that do not support the answer, and for those that do."""
        blind = self.blind / ONE / self.modulus
        return blind, blind + (ONE - self.blind) / ONE / self.speaking

    def weight(self, symbol: int, answer: int) -> Fraction:
        units = self.blind * _faces(symbol, self.modulus)
        place = (symbol + answer) % self.modulus
        if place in self.difference_set:
            number = self.difference_set.index(place)
            units += (ONE - self.blind) * _faces(number, self.speaking)
        return Fraction(units, ONE * DIE)

    def worst_ratio(self) -> tuple[int, int]:
        blind = self.blind * self.speaking * SLACK
        return blind + (ONE - self.blind) * self.modulus * (SLACK + 1), blind

    def is_whole(self) -> bool:
        places = self.difference_set
        right = len(places) == len(set(places)) == self.speaking < self.modulus
        return right and 0 <= min(places) <= max(places) < self.modulus and 0 < self.blind < ONE

    def written_out(self) -> dict[str, Any]:
        return {
            "symbols": self.modulus,
            "blind": self.blind,
            "difference_set": list(self.difference_set),
            "how": "with probability blind, a symbol drawn from all of them; otherwise, one drawn "
            "from those for which symbol + answer, modulo the number of symbols, is in the "
            "difference set; each draw is uniform to one part in 2^100",
        }


def _faces(number: int, among: int) -> int:
    """Return the number of the 2^128 faces for which die * among >> 128 equals this number."""
    return -(-(number + 1) * DIE // among) - -(-number * DIE // among)
