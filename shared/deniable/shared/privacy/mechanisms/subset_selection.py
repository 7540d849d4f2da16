"""Subset selection: report a set of d options, more often one that contains the true option.

    keep  p = d e^ε / (d e^ε + k - d)          the set has the true option and d - 1 other options
          1 - p                                the set has d other options

The other options are drawn uniformly. Each is in the set with probability
lie q = (p (d - 1) + (1 - p) d) / (k - 1).

Privacy: there are C(k - 1, d - 1) sets with a given option and C(k - 1, d) without it; a set of the
first kind is e^ε times as probable as one of the second. The miss, 1 - p, is rounded up.

Drawing a set: first any set D of d options, independently of the answer; then one of its options,
or on a miss one of the k - d others, by a die of 2^128 faces; then D is rotated around the ring of
all options until that option is the answer a. Let w(D) be the probability of D. For each set S that
has the answer, the rotations b = 0 .. k - 1 reach it from S - b by the option a - b, so

    P[S | a] = p / d sum_b w(S - b),         and (1 - p) / (k - d) sum_b w(S - b) where S lacks a.

The sum is the same for every answer, so the ratio is p (k - d) / ((1 - p) d) for every w. Only the
die's rounding remains, a factor below 1 + 2^-100, which the miss compensates for.

Uniform sets matter for bias only. Each option has a key of 56 random bits; bit n of all keys is one
whole number, a plane. D, the d options with the least keys, is found by bisection between a set
that is too small and one that is too large. Each plane halves their difference, and compares all
options in one operation. Equal keys are ordered by the options' numbers, ascending or descending by
a coin, so D is uniform unless three keys are equal. By symmetry no set is off by more than sum_t>=3
2^t C(k, t) 2^(-56 (t - 1)) of its probability: less than 2^-72 for k <= 8,192.

Fit: more than about √2 e^ε options. Its variance is the least possible to first order (Ye and
Barg's bound); d near k / (e^ε + 1) is best, and with d = 1 it is k-ary randomized response.

Source: Ye, Barg 2018, "Optimal schemes for discrete distribution estimation under locally
differential privacy", IEEE Transactions on Information Theory 64(8).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from struct import Struct
from typing import Any

from deniable.shared.privacy.encodings import BitSet
from deniable.shared.privacy.epsilon import (
    ONE,
    Epsilon,
    Interval,
    ceil_units,
    exp_interval,
    nearest,
)
from deniable.shared.privacy.families.support import DIE_BITS, SLACK, SupportDesign
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL, Draw

PLANES = 56  # number of bits in an option's key
PRECISION = 192


class SubsetSelection(SupportDesign):
    name, label, kind = "subset-selection", "subset selection", "choice"
    sizes = range(2, 8_193)  # up to 1 KiB per report
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.chosen = d = best_subset(epsilon, options)
        self.encoding = BitSet(options, d)
        self._all = (1 << options) - 1
        bits = (options - 1).bit_length()
        every = (1 << (1 << bits)) - 1
        self._places = [  # options with bit n of their number clear, the highest n first
            every // ((1 << (1 << n)) + 1) & self._all for n in reversed(range(bits))
        ]
        self._orders = self._places, [clear ^ self._all for clear in self._places]
        self._drawn = Struct("<3QB" + PLANES * f"{-(-options // 8)}s")
        self.joint = MULTINOMIAL if d == 1 else DEPENDENT
        (self.miss,) = ceil_units(*epsilon.ratio, self._miss)
        self.keep = ONE - self.miss
        self.lie = nearest(self.keep * (d - 1) + self.miss * d, options - 1)

    @property
    def sums_are_bounded(self) -> bool:
        """A uniform subset, weighted at one option, is strongly Rayleigh: negatively dependent."""
        return True

    def _miss(self, e: Interval) -> list[Interval]:
        """Return 1 - p, with a factor 1 + 1 / SLACK for each set that lacks the true option."""
        without = (self.options - self.chosen) * (SLACK + 1)
        return [without / (e * (self.chosen * SLACK) + without)]

    @property
    def integers(self) -> tuple[int, ...]:
        return self.chosen, self.miss

    def randomize(self, answer: int, draw: Draw) -> int:
        """Run the same operations on whole numbers for every answer and outcome."""
        k, d, size = self.options, self.chosen, self._drawn.size
        bytes_drawn = draw(8 * size).to_bytes(size, "little")
        roll, low, high, coin, *planes = self._drawn.unpack(bytes_drawn)
        drawn, missed = self._any_set(planes, coin), roll >= self.keep
        number = (d, k - d)[missed] * (high << 64 | low) >> DIE_BITS
        turn = (answer - option_of(drawn ^ self._all * missed, number, self._places)) % k
        return (drawn << turn | drawn >> k - turn) & self._all

    def _any_set(self, planes: list[bytes], coin: int) -> int:
        """Return D: the options of the d least keys."""
        keys = [*map(int.from_bytes, planes), *self._orders[coin & 1]]
        return least(self._all, self.chosen, keys)[0]

    def weight(self, symbol: int, answer: int) -> Fraction:
        """Return the probability for uniform sets; drawn sets are off by less than 2^-72 of it."""
        k, d = self.options, self.chosen
        if symbol >> answer & 1:
            return Fraction(self.keep, ONE * comb(k - 1, d - 1))
        return Fraction(self.miss, ONE * comb(k - 1, d))

    def worst_ratio(self) -> tuple[int, int]:
        d, k = self.chosen, self.options
        return self.keep * (k - d) * (SLACK + 1), self.miss * d * SLACK

    def is_whole(self) -> bool:
        return 0 < self.miss < ONE and 0 < self.chosen < self.options

    def written_out(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "miss": self.miss,
            "how": f"a set of {self.chosen} of {self.options} options, which lacks the answer with "
            "probability miss; its other options are drawn uniformly, to one part in 2^72 of each "
            "set's probability, which is the same for every answer",
        }


def least(members: int, count: int, planes: Sequence[int]) -> list[int]:
    """Return the members with the `count` least keys, and with the `count` + 1 least keys.

    All keys must differ.
    """
    bounds = [0, members]
    for plane in planes:
        middle = bounds[0] | bounds[1] & plane
        bounds[middle.bit_count() > count] = middle
    return bounds


def option_of(members: int, number: int, places: Sequence[int]) -> int:
    """Return the option at this position of a set, counted from 0."""
    without, included = least(members, number, places)
    return (without ^ included).bit_length() - 1


def best_subset(epsilon: Epsilon, options: int) -> int:
    """Return the size d of least variance (d e^ε + k - d)^2 / (d (k - d)).

    An exact comparison chooses between the two integers next to k / (e^ε + 1).
    """
    e = exp_interval(*epsilon.ratio, PRECISION)
    below = max(1, (options << PRECISION) // (e.high + (1 << PRECISION)))

    def spread(d: int, end: int) -> int:
        """Return (d e^ε + k - d)^2 for an end of the interval of e^ε."""
        return (d * end + ((options - d) << PRECISION)) ** 2

    other = below + 1
    return (
        other
        if spread(other, e.high) * below * (options - below)
        < spread(below, e.low) * other * (options - other)
        else below
    )
