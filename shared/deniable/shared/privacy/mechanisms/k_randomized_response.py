"""k-ary randomized response: report one of k options, the true one more often than another.

    keep  p = e^ε / (e^ε + k - 1)      the true option
    lie   q =   1 / (e^ε + k - 1)      each of the other k - 1

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up k - 1 times over,
and p takes what is left, so the ratio can only become smaller.
Fit: few options, or a large ε. With many options subset selection has less variance.

Source: Kairouz, Bonawitz, Ramage 2016, "Discrete distribution estimation under local privacy",
ICML; for k = 2 it is Warner's randomized response of 1965.
"""

from __future__ import annotations

from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import OneOption
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE, lie_units

# Quotients are moved up by so much: dividends have the same length for every roll, and no digit of
# a quotient is next to a borrow. A multiple of every mask.
FAR = ONE + 2**45 + 2**20


class KRandomizedResponse(OneOption):
    name, label, kind = "k-randomized-response", "k-RR", "choice"
    sizes = range(2, 65_537)
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192, 20_000, 65_536)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = WholeNumber(options)
        self.lie = lie_units(epsilon, options)
        self.keep = ONE - self.lie * (options - 1)
        self._beyond = FAR * self.lie - self.keep
        self._add = ONE - self.keep
        self._mask = (1 << (options - 2).bit_length()) - 1

    def randomize(self, answer: int, draw: Draw) -> int:
        """Run the same operations, on whole numbers of equal length, for a lie and for the truth.

        A carry or a borrow replaces each comparison, because processors predict comparisons.
        """
        roll = draw(64)
        other = (roll + self._beyond) // self.lie & self._mask  # of a lie: 0 .. options - 2
        beyond = (other + 2**21 - answer >> 20) - 1  # 1 where other >= answer, else 0
        return (answer, other + beyond)[roll + self._add >> 64]
