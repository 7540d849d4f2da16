"""Optimized unary encoding: a report is one bit for each option, each drawn independently.

    keep  p = 1/2                  the bit of the true option
    lie   q = 1 / (e^ε + 1)        every other bit

Privacy: two answers differ in two bits, so the largest ratio of two reports' probabilities is
p (1 - q) / (q (1 - p)) = (1 - q) / q = e^ε. Rounding q up makes it smaller; p is exact.
Fit: many options. The variance, 4 e^ε / (n (e^ε - 1)^2) for a rare option, does not grow with the
number of options. The counts of different options are independent.

All options are drawn together: each has a lane of nine bytes in one long number, eight of them
random. Adding 2^64 - lie to every lane carries into the ninth byte exactly if the eight are not
below `lie`. The operations are the same for every answer and outcome.

Source: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation", USENIX Security.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from deniable.shared.privacy.encodings import BitSet
from deniable.shared.privacy.epsilon import ONE, Epsilon, lie_units
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import INDEPENDENT, Draw

LANE = 9  # bytes: eight random bytes, and one for the carry
SET_WHERE_NO_CARRY = bytes.maketrans(b"\0\1", b"10")


class Unary(SupportDesign):
    name, label, kind = "unary", "unary", "choice"
    sizes = range(2, 8_193)  # up to 1 KiB per report
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
        """Table of one bit: row 0 for other options, row 1 for the answer; columns 0 and 1."""
        return (ONE - self.lie, self.lie), (ONE - self.keep, self.keep)

    def randomize(self, answer: int, draw: Draw) -> int:
        size = LANE * self.options
        roll = draw(8 * (size + 1))
        carries = ((roll & self._random) + self._add).to_bytes(size, "little")[LANE - 1 :: LANE]
        lies = int(carries[::-1].translate(SET_WHERE_NO_CARRY), 2)
        coin = roll >> (8 * size) & 1
        return lies & (self.symbols - 1 ^ 1 << answer) | coin << answer

    def weight(self, symbol: int, answer: int) -> Fraction:
        """Return the product over its bits."""
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
            "how": f"{self.options} bits, drawn independently: the answer's bit from the second "
            "row, every other bit from the first (columns: clear, set); the probability of a "
            "report is the product over its bits",
        }
