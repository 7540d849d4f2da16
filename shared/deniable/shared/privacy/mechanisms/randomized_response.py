"""Randomized response: report one of k options, the true one more often than any other.

    keep  p = e^ε / (e^ε + k - 1)      the true option
    lie   q =   1 / (e^ε + k - 1)      each of the other k - 1

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up, and p takes the
remainder of all k - 1, so the ratio can only become smaller.
Fit: few options, or a large ε. With many options subset selection has less variance. For a bit,
k = 2, its variance e^ε / (n (e^ε - 1)^2) is the least of any unbiased mechanism at any ε: the
two-point bound.

Sources: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias",
Journal of the American Statistical Association 60(309), for k = 2; Kairouz, Bonawitz, Ramage 2016,
"Discrete distribution estimation under local privacy", ICML.
"""

from __future__ import annotations

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import OneOption
from deniable.shared.privacy.mechanism import Draw

# Added to quotients, so that dividends have the same length for every roll, and no digit of a
# quotient is next to a borrow. It is a multiple of every mask.
FAR = ONE + 2**45 + 2**20


class RandomizedResponse(OneOption):
    name, label, kind = "randomized-response", "randomized response", "bit"
    sizes, proved_sizes = range(2, 3), (2,)

    def __init__(self, epsilon: Epsilon, options: int = 2) -> None:
        super().__init__(epsilon, options)

    def randomize(self, answer: int, draw: Draw) -> int:
        """Choose truth or lie by a carry, because processors predict comparisons."""
        carry = draw(64) + self.keep >> 64
        return (1 - answer, answer)[carry]


class KRandomizedResponse(OneOption):
    name, label, kind = "k-randomized-response", "k-RR", "choice"
    sizes = range(2, 65_537)
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192, 20_000, 65_536)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self._beyond = FAR * self.lie - self.keep
        self._add = ONE - self.keep
        self._mask = (1 << (options - 2).bit_length()) - 1

    def randomize(self, answer: int, draw: Draw) -> int:
        """Run the same operations, on whole numbers of equal length, for a lie and for the truth.

        A carry or a borrow replaces each comparison, because processors predict comparisons.
        """
        roll = draw(64)
        other = (roll + self._beyond) // self.lie & self._mask  # the lie: 0 .. options - 2
        beyond = (other + 2**21 - answer >> 20) - 1  # 1 where other >= answer, else 0
        return (answer, other + beyond)[roll + self._add >> 64]
