"""Optimised unary encoding: a report is one bit for each option, each set or not on its own.

    keep  p = 1/2                  the bit of the true option
    lie   q = 1 / (e^ε + 1)        every other bit

Privacy: two answers differ in two bits, so the largest ratio of two reports' probabilities is
p (1 - q) / (q (1 - p)) = (1 - q) / q = e^ε. Rounding q up makes it smaller; p is exact.
Fit: many options; the variance, 4 e^ε / (n (e^ε - 1)^2) where few hold the option, does not grow
with their number. The counts of different options are independent.

All options are drawn together: each has a lane of nine bytes in one long number, eight of them
random. Adding 2^64 - lie to every lane carries into the ninth byte exactly where the eight are not
below `lie`. The same few operations on whole numbers for every answer and every outcome.

Source: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation", USENIX Security.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deniable.shared.privacy.encodings import BitSet
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import ManyOptions
from deniable.shared.privacy.mechanism import INDEPENDENT
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE, lie_units

if TYPE_CHECKING:
    from fractions import Fraction

LANE = 9  # bytes: eight random ones, and one for the carry
SET_WHERE_NO_CARRY = bytes.maketrans(b"\0\1", b"10")


class Unary(ManyOptions):
    name, label, kind = "unary", "unary", "choice"
    sizes = range(2, 8_193)  # 1 KiB a report
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192)
    joint = INDEPENDENT

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = BitSet(options)
        self.keep = ONE // 2
        self.lie = lie_units(epsilon, 2)
        self._random = int.from_bytes((b"\xff" * 8 + b"\0") * options, "little")
        self._add = int.from_bytes(
            ((ONE - self.lie).to_bytes(8, "little") + b"\0") * options, "little"
        )

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    @property
    def bit_rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """One bit's table: row 0 for an option that is not the answer, row 1 for the answer.

        Columns: bit clear, bit set.
        """
        return (ONE - self.lie, self.lie), (ONE - self.keep, self.keep)

    def randomize(self, answer: int, draw: Draw) -> int:
        size = LANE * self.options
        roll = draw(8 * (size + 1))
        carries = ((roll & self._random) + self._add).to_bytes(size, "little")[LANE - 1 :: LANE]
        lies = int(carries[::-1].translate(SET_WHERE_NO_CARRY), 2)
        coin = roll >> (8 * size) & 1
        return lies & (self.symbols - 1 ^ 1 << answer) | coin << answer

    def weight(self, symbol: int, answer: int) -> Fraction:
        """The product over its bits."""
        from fractions import Fraction

        product = Fraction(1)
        for option in range(self.options):
            product *= Fraction(self.bit_rows[option == answer][symbol >> option & 1], ONE)
        return product

    def worst_ratio(self) -> tuple[int, int]:
        (_, lie), (_, keep) = self.bit_rows
        return keep * (ONE - lie), lie * (ONE - keep)

    def is_whole(self) -> bool:
        return all(sum(row) == ONE and min(row) > 0 for row in self.bit_rows)

    def written_out(self) -> dict[str, Any]:
        return {
            "bit_rows": self.bit_rows,
            "how": f"{self.options} bits, each drawn on its own: the answer's bit by the "
            "second row, every other by the first (columns: clear, set); the probability of a "
            "report is the product over its bits",
        }
