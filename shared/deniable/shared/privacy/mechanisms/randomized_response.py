"""Randomized response: answer a yes-or-no question, and sometimes lie.

    keep  p = e^ε / (e^ε + 1)      the truth
    lie   q =   1 / (e^ε + 1)      the opposite

Privacy: p / q = e^ε is the largest ratio that a report can show. Rounding q up and giving p the
remainder can only make the ratio smaller.
Fit: nothing unbiased has less variance, e^ε / (n (e^ε - 1)^2), for a bit at any ε: the least by the
two-point bound.

Source: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias",
Journal of the American Statistical Association 60(309).
"""

from __future__ import annotations

from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import OneOption
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE, lie_units


class RandomizedResponse(OneOption):
    name, label, kind = "randomized-response", "randomized response", "bit"
    sizes, proved_sizes = range(2, 3), (2,)
    encoding = WholeNumber(2)

    def __init__(self, epsilon: Epsilon, options: int = 2) -> None:
        super().__init__(epsilon, options)
        self.lie = lie_units(epsilon, 2)
        self.keep = ONE - self.lie
        self._add = self.keep

    def randomize(self, answer: int, draw: Draw) -> int:
        """A carry tells truth from lie: no comparison, which a processor would guess."""
        carry = draw(64) + self._add >> 64
        return (1 - answer, answer)[carry]
