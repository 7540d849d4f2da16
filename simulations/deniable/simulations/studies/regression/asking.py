"""What devices are asked of a slope, in bits that they randomize: in turn, or two sums at once.

A search asks group after group at the θ where it stands, and its answer is Polyak's average. A
ratio asks one group for one mean and the other for another; its error has an exact distribution, as
both are binomial: given the second, where the ends -1 and 1 cut off, sums over the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE

Array = NDArray[np.floating]
GROUPS, LEFT_OUT = 1_000, 50
LEAST = 1e-3  # of a mean that is divided by
TAILS = 9.0  # standard deviations of a count on each side: beyond is less than 1e-18
At = Callable[[Array], Array]  # at θ


@dataclass(frozen=True)
class Bit:
    """The probability that a bit is one, at θ, and what it is at the θ that is looked for; `steep`
    is how far θ is off for each that it is off."""

    rate: At
    level: At
    steep: float


def said(
    response: RandomizedResponse, size: int, rate: Array | float, times: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """An unbiased estimate of the probability of a bit, from so many people's reports."""
    keep, lie = response.keep / ONE, response.lie / ONE
    counts = generator.binomial(size, lie + (keep - lie) * np.asarray(rate), times)
    return np.asarray((counts / size - lie) / (keep - lie))


def search(
    response: RandomizedResponse, n: int, times: int, bit: Bit, generator: np.random.Generator
) -> Array:
    """Polyak's average of a walk to where the bit is one as often as it should be."""
    ends = np.rint(np.linspace(0, n, GROUPS + 1)).astype(np.int64)
    theta, total, weight = np.zeros(times), np.zeros(times), 0
    for place, size in enumerate(np.diff(ends).tolist()):
        if place >= GROUPS // LEFT_OUT:
            total += size * theta
            weight += size
        off = said(response, size, bit.rate(theta), times, generator) - bit.level(theta)
        theta = np.clip(theta + bit.steep * (place + 1) ** -0.6 * off, -1, 1)
    return np.asarray(total / weight)


@dataclass(frozen=True)
class Ratio:
    """The mean of a number in [-1, 1], by that of one in [0, 1], times `factor`: each told by one
    bit of one of two groups, with these probabilities of the bit."""

    response: RandomizedResponse
    sizes: tuple[int, int]
    bits: tuple[float, float]
    factor: float = 1.0

    def drawn(self, times: int, generator: np.random.Generator) -> Array:
        first, second = (
            said(self.response, size, bit, times, generator)
            for size, bit in zip(self.sizes, self.bits, strict=True)
        )
        return np.clip(self.factor * (2 * first - 1) / np.maximum(second, LEAST), -1, 1)

    def mean_square(self, truth: float) -> float:
        """E (ratio - truth)^2, exactly but for rounding of doubles.

        Given the second mean y, the ratio is above 1 from x = y / factor on, and between the ends
        (f x / y - truth)^2 = (f (x - m) / y + f m / y - truth)^2: partial sums of (x - m)^j.
        """
        first, weights = self._told(0)
        x, middle = 2 * first - 1, 2 * self.bits[0] - 1
        y, chances = self._told(1)
        y = np.maximum(y, LEAST)
        end = y / self.factor
        low, high = np.searchsorted(x, -end, side="right"), np.searchsorted(x, end)
        zero, one, two = (
            np.concatenate([[0.0], np.cumsum(weights * (x - middle) ** power)])
            for power in range(3)
        )
        slope, off = self.factor / y, self.factor * middle / y - truth
        inside = (
            slope**2 * (two[high] - two[low])
            + 2 * slope * off * (one[high] - one[low])
            + off**2 * (zero[high] - zero[low])
        )
        ends = (1 + truth) ** 2 * zero[low] + (1 - truth) ** 2 * (zero[-1] - zero[high])
        return float(chances @ (inside + ends))

    def _told(self, place: int) -> tuple[Array, Array]:
        """The values that `said` can give, nearly all of them, and their probabilities."""
        from scipy.stats import binom

        keep, lie = self.response.keep / ONE, self.response.lie / ONE
        size, rate = self.sizes[place], lie + (keep - lie) * self.bits[place]
        reach = math.ceil(TAILS * math.sqrt(size * rate * (1 - rate))) + 1
        counts = np.arange(
            max(0, round(size * rate) - reach), min(size, round(size * rate) + reach) + 1
        )
        return (counts / size - lie) / (keep - lie), binom.pmf(counts, size, rate)
