"""Support design: each report supports some of the options, the true one more often than another.

    keep  p    the chance that a report supports the option that is true
    lie   q    the chance that it supports one that is not

The server counts the reports that support an option. With f the share of people who hold it, a
report supports it with rate  r = f p + (1 - f) q,  hence  f = (r - q) / (p - q)  is unbiased, with

    variance  (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)

when the answers are fixed and only the noise is drawn. Summed over k options, whose shares add up
to one, it does not depend on the shares at all: that sum is what designs are compared by.
"""

from __future__ import annotations

import math
from abc import abstractmethod

from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE


class SupportDesign(Mechanism):
    options: int
    keep: int  # p and q, in units of 2^-64
    lie: int

    @property
    def cells(self) -> int:
        return self.options

    @abstractmethod
    def randomize(self, answer: int, draw: Draw) -> int:
        """Client: the symbol to report when option number `answer` is true."""

    @abstractmethod
    def supports(self, symbol: int, option: int) -> bool:
        """Whether this report counts for that option."""

    def variance(self, reports: int, share: float) -> float:
        p, q = self.keep / ONE, self.lie / ONE
        spread = share * p * (1 - p) + (1 - share) * q * (1 - q)
        return spread / (reports * (p - q) ** 2)

    def predicted_error(self, reports: int) -> float:
        """At shares that are all alike, which is the root mean square error for any shares."""
        return math.sqrt(self.variance(reports, 1 / self.options))

    @property
    def leverage(self) -> float:
        return (ONE - self.lie) / (self.keep - self.lie)
