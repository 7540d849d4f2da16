"""Optimised unary encoding: a report is one bit for each option, each set or not on its own.

    keep  p = 1/2                  the bit of the true option
    lie   q = 1 / (e^ε + 1)        every other bit

Privacy: two answers differ in two bits, so the largest ratio of two reports' chances is
p (1 - q) / (q (1 - p)) = (1 - q) / q = e^ε. Rounding q up makes it smaller; p is exact.
Fit: many options; the variance, 4 e^ε / (n (e^ε - 1)^2) where few hold the option, does not grow
with their number. The counts of different options are independent.

Bits are drawn all at once: `lie` is written in binary, and one random bit per option and binary
digit decides, least digit first, whether that option's uniform number is below it. As many rounds
for every answer and every outcome.

Source: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation", USENIX Security.
"""

from __future__ import annotations

from deniable.shared.epsilon import Epsilon
from deniable.shared.randomness import Draw
from deniable.shared.shapes.support import SupportDesign
from deniable.shared.thresholds import ONE, lie_units

DIGITS = 64


class Unary(SupportDesign):
    name, kind = "unary", "choice"

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        self.epsilon, self.options = epsilon, options
        self.symbols = 1 << options
        self.keep = ONE // 2
        self.lie = lie_units(epsilon, 2)
        self._digits = tuple(self.lie >> place & 1 for place in range(DIGITS))

    @property
    def integers(self) -> tuple[int, ...]:
        return (self.lie,)

    @property
    def bit_rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """One bit's table: row 0 for an option that is not the answer, row 1 for the answer;
        columns: bit clear, bit set."""
        return (ONE - self.lie, self.lie), (ONE - self.keep, self.keep)

    def randomize(self, answer: int, draw: Draw) -> int:
        size = self.payload_size
        random = draw((DIGITS * size + 1) * 8).to_bytes(DIGITS * size + 1, "little")
        below = 0
        for place, digit in enumerate(self._digits):
            word = int.from_bytes(random[place * size : place * size + size], "little")
            below = below | word if digit else below & word
        everyone, true_bit = self.symbols - 1, 1 << answer
        return below & (everyone ^ true_bit) | (random[-1] & 1) << answer

    def supports(self, symbol: int, option: int) -> bool:
        return bool(symbol >> option & 1)

    def worst_ratio(self) -> tuple[int, int]:
        (_, lie), (_, keep) = self.bit_rows
        return keep * (ONE - lie), lie * (ONE - keep)
