"""Subset selection: report a set of d options, the true one in it more often than another.

    keep  p = d e^ε / (d e^ε + k - d)          the set has the true option and d - 1 others
          1 - p                                it has d of the others

and the others are drawn uniformly. Another option is in the set with probability
lie q = (p (d - 1) + (1 - p) d) / (k - 1).

Privacy: there are C(k - 1, d - 1) sets with a given option and C(k - 1, d) without it; a set of the
first kind is e^ε times as probable as one of the second. The miss, 1 - p, is rounded up. The others
are chosen one after another: where `need` of the `rest` that are left must still be taken, the next
is taken with probability need / rest, rounded up to a multiple of 2^-128. For k <= 8,192 these
roundings change a set's probability by less than 2^-101 of itself: a factor (1 + 2^-128 k)^k. The
ratio of two sets changes by less than 2^-100, which the miss makes up for.
Fit: more than about √2 e^ε options. Its variance is the least that is possible to first order (Ye
and Barg's bound); d near k / (e^ε + 1) is best, and with d = 1 it is k-ary randomized response.

Source: Ye, Barg 2018, "Optimal schemes for discrete distribution estimation under locally
differential privacy", IEEE Transactions on Information Theory 64(8). Choosing a set in one pass:
Fan, Muller, Rezucha 1962, Journal of the American Statistical Association 57(298).
"""

from __future__ import annotations

from struct import unpack
from typing import TYPE_CHECKING, Any

from deniable.shared.privacy.encoding import BitSet
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.shapes.support import ManyOptions
from deniable.shared.privacy.thresholds import ONE, Interval, ceil_units, exp_interval, nearest

if TYPE_CHECKING:
    from fractions import Fraction

FINE_BITS = 128  # others are taken with probabilities in units of 2^-128
FINE, FINE_BYTES = 1 << FINE_BITS, FINE_BITS // 8
FAR = ONE  # more than any `need`
FAR_FINE = FAR << FINE_BITS
SLACK = 2**100  # k <= 8,192 roundings: at most one part in so many of a set's probability
PRECISION = 192


class SubsetSelection(ManyOptions):
    name, label, kind = "subset-selection", "subset selection", "choice"
    sizes = range(2, 8_193)  # 1 KiB a report
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.chosen = d = best_subset(epsilon, options)
        self.encoding = BitSet(options, d)
        self.joint = MULTINOMIAL if d == 1 else DEPENDENT
        (self.miss,) = ceil_units(*epsilon.ratio, self._miss)
        self.keep = ONE - self.miss
        self.lie = nearest(self.keep * (d - 1) + self.miss * d, options - 1)

    def _miss(self, e: Interval) -> list[Interval]:
        """1 - p, with (1 + 1 / SLACK) in front of each set that lacks the true option."""
        without = (self.options - self.chosen) * (SLACK + 1)
        return [without / (e * (self.chosen * SLACK) + without)]

    @property
    def integers(self) -> tuple[int, ...]:
        return self.chosen, self.miss

    def randomize(self, answer: int, draw: Draw) -> int:
        """One pass over all the others, on whole numbers of the same length, whatever the answer
        and the outcome: `need` is counted from FAR."""
        others = self.options - 1
        roll = draw(64 + 8 * FINE_BYTES * others)
        keep = (roll & ONE - 1) < self.keep
        need, chosen = FAR + self.chosen - keep, []
        dice = unpack(f"<{2 * others}Q", (roll >> 64).to_bytes(FINE_BYTES * others, "little"))
        for rest, low, high in zip(range(others, 0, -1), dice[::2], dice[1::2], strict=True):
            taken = (high << 64 | low) * rest + FAR_FINE < need << FINE_BITS
            need -= taken
            chosen.append(taken)
        whole = [*chosen[:answer], keep, *chosen[answer:]]
        return int(bytes(whole[::-1]).translate(DIGITS), 2)

    def weight(self, symbol: int, answer: int) -> Fraction:
        """The product over the pass that chooses it."""
        from fractions import Fraction

        has = symbol >> answer & 1
        product, need = Fraction(self.keep if has else self.miss, ONE), self.chosen - has
        others = [option for option in range(self.options) if option != answer]
        for passed, option in enumerate(others):
            take = Fraction(-(-need * FINE // (len(others) - passed)), FINE)
            taken = symbol >> option & 1
            product *= take if taken else 1 - take
            need -= taken
        return product

    def worst_ratio(self) -> tuple[int, int]:
        d, k = self.chosen, self.options
        return self.keep * (k - d) * (SLACK + 1), self.miss * d * SLACK

    def is_whole(self) -> bool:
        return 0 < self.miss < ONE and 0 < self.chosen < self.options

    def written_out(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "miss": self.miss,
            "how": f"a set of {self.chosen} of {self.options} options: with probability miss "
            "none of them is the answer, else one is; the others are drawn uniformly, to one part "
            "in 2^101 of each set's probability",
        }


DIGITS = bytes.maketrans(b"\0\1", b"01")


def best_subset(epsilon: Epsilon, options: int) -> int:
    """The d of least variance (d e^ε + k - d)^2 / (d (k - d)): one of the two whole numbers next to
    k / (e^ε + 1), compared exactly."""
    e = exp_interval(*epsilon.ratio, PRECISION)
    below = max(1, (options << PRECISION) // (e.high + (1 << PRECISION)))

    def spread(d: int, end: int) -> int:
        """(d e^ε + k - d)^2 from an end of the interval, times what the other side lacks."""
        return (d * end + ((options - d) << PRECISION)) ** 2

    other = below + 1
    return (
        other
        if spread(other, e.high) * below * (options - below)
        < spread(below, e.low) * other * (options - other)
        else below
    )
