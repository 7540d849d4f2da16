"""Cyclic design: symbols stand in a circle, and a report speaks for the options of a block of it.

Symbol y of N speaks for option x where (x + y) mod N is in a set D of r numbers. Any two options
have λ symbols in common: D is a difference set, as far as differences of options go.

    blind  w    the probability that a report is any of all N symbols, whatever the answer
    1 - w       it is any of the r symbols that speak for the answer

The tally counts symbols. How many reports speak for each option follows from it when estimates are
made, for all options together, by the convolution with D: with f the share of people who hold an
option, its rate is  r = f p + (1 - f) q,  as for every design, where

    keep  p = 1 - w + w r / N            lie  q = (1 - w) λ / r + w r / N
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import MULTINOMIAL
from deniable.shared.privacy.promises import percent
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE, Interval, ceil_units, nearest

if TYPE_CHECKING:
    from fractions import Fraction

DIE_BITS = 128  # a symbol is chosen among others by so many random bits
DIE = 1 << DIE_BITS
SLACK = 2**100  # that moves its probability by less than one part in so many, where N < 2^26
LOW_64 = ONE - 1


class CyclicDesign(SupportDesign):
    joint = MULTINOMIAL

    def __init__(self, epsilon: Epsilon, options: int, sizes: tuple[int, int, int]) -> None:
        """`sizes` are N, r and λ."""
        super().__init__(epsilon, options)
        self.modulus, self.speaking, shared = sizes
        self.encoding = WholeNumber(self.modulus)
        (self.blind,) = ceil_units(*epsilon.ratio, self._blind)
        seeing, by_chance = ONE - self.blind, self.blind * self.speaking
        self.keep = nearest(seeing * self.modulus + by_chance, self.modulus)
        self.lie = nearest(
            seeing * shared * self.modulus + by_chance * self.speaking,
            self.speaking * self.modulus,
        )

    @property
    @abstractmethod
    def difference_set(self) -> Sequence[int]:
        """D, ascending."""

    def _blind(self, e: Interval) -> list[Interval]:
        """N / (N + r (e^ε - 1)), with (1 + 1 / SLACK) in front of each symbol of an answer."""
        everything = self.modulus * (SLACK + 1)
        return [everything / (e * (self.speaking * SLACK) + (everything - self.speaking * SLACK))]

    def randomize(self, answer: int, draw: Draw) -> int:
        """Draw a report by the same operations for every answer and outcome.

        Both symbols are computed, and the same die serves for either. Adding 2^64 - blind carries
        where the roll is not among the blind ones.
        """
        roll = draw(64 + DIE_BITS)
        die = roll >> 64
        seeing = (roll & LOW_64) + (ONE - self.blind) >> 64
        place = self.difference_set[die * self.speaking >> DIE_BITS]
        own = (place + self.modulus - answer) % self.modulus
        return (die * self.modulus >> DIE_BITS, own)[seeing]

    def supported_by(self, cell: int) -> Iterable[int]:
        places = ((place - cell) % self.modulus for place in self.difference_set)
        return sorted(option for option in places if option < self.options)

    def rate(self, cell: int, answer: int) -> int:
        speaks = (cell + answer) % self.modulus in self.difference_set
        own = (ONE - self.blind) * self.modulus if speaks else 0
        return nearest(self.blind * self.speaking + own, self.modulus * self.speaking)

    @property
    def rates(self) -> tuple[float, float]:
        """P[symbol | answer] where it does not speak for it, and where it does."""
        blind = self.blind / ONE / self.modulus
        return blind, blind + (ONE - self.blind) / ONE / self.speaking

    def weight(self, symbol: int, answer: int) -> Fraction:
        from fractions import Fraction

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
            "how": "with probability blind any of the symbols, else one of those that speak for "
            "the answer: where symbol + answer, modulo their number, is in the difference set; "
            "each of them as probable as any other, to one part in 2^100",
        }

    def explain(self, symbol: int) -> str:  # noqa: ARG002 # all symbols are alike here
        keep, lie = percent(self.keep), percent(self.lie)
        return f"a report names each option with {keep} when true and with {lie} when not"


def _faces(number: int, among: int) -> int:
    """Return how many of the 2^128 faces have die * among >> 128 equal to this number."""
    return -(-(number + 1) * DIE // among) - -(-number * DIE // among)
