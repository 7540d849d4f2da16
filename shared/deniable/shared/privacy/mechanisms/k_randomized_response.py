"""k-ary randomized response: report one of k options, the true one more often than another.

    keep  p = e^ε / (e^ε + k - 1)      the true option
    lie   q =   1 / (e^ε + k - 1)      each of the other k - 1

Privacy: p / q = e^ε is the largest ratio that a report can show. q is rounded up k - 1 times over,
and p takes what is left, so the ratio can only become smaller.
Fit: few options, or a large ε. With many options unary encoding has less variance.

Source: Kairouz, Bonawitz, Ramage 2016, "Discrete distribution estimation under local privacy",
ICML; for k = 2 it is Warner's randomized response of 1965.
"""

from __future__ import annotations

from deniable.shared.privacy.encoding import WholeNumber
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.shapes.support import OneOption
from deniable.shared.privacy.thresholds import ONE, lie_units


class KRandomizedResponse(OneOption):
    name, label, kind = "k-randomized-response", "k-RR", "choice"
    sizes = range(2, 65_537)
    proved_sizes = (2, 3, 5, 16, 100, 1_024, 8_192, 65_536)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = WholeNumber(options)
        self.lie = lie_units(epsilon, options)
        self.keep = ONE - self.lie * (options - 1)

    def randomize(self, answer: int, draw: Draw) -> int:
        """The same operations for a lie and for the truth."""
        roll = draw(64)
        other = abs(roll - self.keep) // self.lie  # of a lie: 0 .. options - 2, each `lie` wide
        return (other + (other >= answer), answer)[roll < self.keep]
