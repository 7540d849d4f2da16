"""The most powerful tests of one share against a larger one: exact power, and people needed.

    none       reject where many say yes, with a coin at the boundary       Neyman, Pearson
    central    reject with probability F(s - m), F that of Tulap noise      [1]
    local      as none, on randomized responses: every report about two points is a function of
               one, so that nobody does better locally                      [2]

All are sums over binomials. Power grows with the people, as a test may leave somebody out: so the
least number that reaches a power is found by halving.

[1] Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial data",
    NeurIPS.
[2] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central.discrete_laplace import tulap, tulap_below

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
MODELS = ("none", "central", "local")
ESTIMATORS = {"none": "binomial", "central": "tulap", "local": "randomized-response"}
MOST_PEOPLE = 10**10  # beyond, nobody is looked for
DEVIATIONS, COUNTS = 9, 60  # of a binomial: what lies beyond has a probability below 1e-18


@dataclass(frozen=True)
class ShareTest:
    """`low` against `high`, at a level: the probability of rejecting where `low` is true."""

    model: str
    epsilon: Epsilon
    low: float
    high: float
    level: float

    @cached_property
    def rates(self) -> tuple[float, float]:
        """Of a yes in what the test counts, under each."""
        if self.model != "local":
            return self.low, self.high
        mechanism = RandomizedResponse(self.epsilon)
        keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
        return lie + (keep - lie) * self.low, lie + (keep - lie) * self.high

    def power(self, people: int) -> float:
        if self.model == "central":
            return self._expected(binomial(people, self.high), self._threshold(people))
        from scipy.stats import binom

        boundary, coin = self._boundary(people)
        high = binom(people, self.rates[1])
        return float(high.sf(boundary) + coin * high.pmf(boundary))

    def rejects(
        self, people: int, counts: Counts, generator: np.random.Generator
    ) -> NDArray[np.bool_]:
        """What the test says of counts that were drawn."""
        if self.model == "central":
            noisy = counts + tulap(self.epsilon, len(counts), generator)
            return np.asarray(noisy > self._threshold(people))
        boundary, coin = self._boundary(people)
        tie = (counts == boundary) & (generator.random(len(counts)) < coin)
        return np.asarray((counts > boundary) | tie)

    def people_needed(self, power: float) -> int | None:
        most = 1
        while self.power(most) < power:
            most *= 2
            if most > MOST_PEOPLE:
                return None
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self.power(middle) < power else (least, middle)
        return most

    def _boundary(self, people: int) -> tuple[int, float]:
        """Reject above it, and on it with this probability."""
        from scipy.stats import binom

        low = binom(people, self.rates[0])
        boundary = int(low.isf(self.level))
        at = float(low.pmf(boundary))
        return boundary, (self.level - float(low.sf(boundary))) / at if at else 0.0

    def _threshold(self, people: int) -> float:
        """m, at which `low` is rejected as often as the level says."""
        from scipy.optimize import brentq

        low = binomial(people, self.low)
        reach = 60 / float(self.epsilon)
        return float(
            brentq(
                lambda m: self._expected(low, m) - self.level,
                low[0][0] - reach,
                low[0][-1] + reach,
                xtol=1e-9,  # of a person
                rtol=1e-14,
            )
        )

    def _expected(self, counted: tuple[Array, Array], threshold: float) -> float:
        counts, chances = counted
        return float(chances @ tulap_below(counts - threshold, float(self.epsilon)))


def binomial(people: int, share: float) -> tuple[Array, Array]:
    """Counts and their probabilities, as far as they matter."""
    from scipy.stats import binom

    room = DEVIATIONS * math.sqrt(people * share * (1 - share)) + COUNTS
    counts = np.arange(
        max(0, math.floor(people * share - room)), min(people, math.ceil(people * share + room)) + 1
    )
    return counts.astype(float), np.asarray(binom.pmf(counts, people, share))
