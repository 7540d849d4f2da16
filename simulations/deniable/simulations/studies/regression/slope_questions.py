"""Questions to devices about a slope, and what is known of any estimator of it.

A search asks one group after another about the θ where it stands, and its estimate is Polyak's
average. A ratio asks one group for one mean and another group for the other; its error has an exact
distribution, as both are binomial: given the second mean, sums over the first, with the ends -1 and
1 cut off.

No estimator's error is below van Trees' inequality. With a prior cos^2(π v / 2h) / h on slopes up
to h away, whose information is π^2 / h^2,

    E (estimate - slope)^2 >= gain^2 / (n sup I + π^2 / h^2)

with I the largest information about v that one person can give, and `gain` the change of the slope
with v. So no error is below it for every slope within h; for many people the best h is small, and
this is gain^2 / (n I). Sequential reports have no further information: it adds up, and that of each
report, given the others, is bounded as above.

Source: Gill, Levit 1995, "Applications of the van Trees inequality", Bernoulli 1(1/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE

Array = NDArray[np.floating]
GROUPS, BURN_IN = 1_000, 50  # one group in 50 is not averaged
MIN_DIVISOR = 1e-3  # of a ratio
TAILS = 9.0  # standard deviations of a count; the rest has a probability below 1e-18
At = Callable[[Array], Array]  # a function of θ
WIDTHS = np.geomspace(1e-4, 0.5, 60)


@dataclass(frozen=True)
class Bit:
    """A question with one bit: `rate` is its probability at θ, `level` that at the true slope.

    `steep` converts a difference of probabilities into one of θ.
    """

    rate: At
    level: At
    steep: float


def estimated_rate(
    response: RandomizedResponse, size: int, rate: Array | float, times: int,
    generator: Generator
) -> Array:  # fmt: skip
    """Return unbiased estimates of a bit's probability, each from the reports of `size` people."""
    keep, lie = response.keep / ONE, response.lie / ONE
    counts = generator.binomial(size, lie + (keep - lie) * np.asarray(rate), times)
    return np.asarray((counts / size - lie) / (keep - lie))


def search(
    response: RandomizedResponse, n: int, times: int, bit: Bit, generator: Generator
) -> Array:
    """Return Polyak's average of a walk to the θ where the bit has its level."""
    ends = np.rint(np.linspace(0, n, GROUPS + 1)).astype(np.int64)
    theta, total, weight = np.zeros(times), np.zeros(times), 0
    for group, size in enumerate(np.diff(ends).tolist()):
        if group >= GROUPS // BURN_IN:
            total += size * theta
            weight += size
        off = estimated_rate(response, size, bit.rate(theta), times, generator) - bit.level(theta)
        theta = np.clip(theta + bit.steep * (group + 1) ** -0.6 * off, -1, 1)
    return np.asarray(total / weight)


@dataclass(frozen=True)
class Ratio:
    """The mean of a number in [-1, 1] divided by that of one in [0, 1], times `factor`.

    Each of two groups estimates one mean, by a bit with the probability in `bits`.
    """

    response: RandomizedResponse
    sizes: tuple[int, int]
    bits: tuple[float, float]
    factor: float = 1.0

    def drawn(self, times: int, generator: Generator) -> Array:
        first, second = (
            estimated_rate(self.response, size, bit, times, generator)
            for size, bit in zip(self.sizes, self.bits, strict=True)
        )
        return np.clip(self.factor * (2 * first - 1) / np.maximum(second, MIN_DIVISOR), -1, 1)

    def mean_square(self, truth: float) -> float:
        """Return E (ratio - truth)^2, exactly except for rounding.

        Given the second mean y, the ratio is above 1 from x = y / factor on, and between the ends
        (f x / y - truth)^2 = (f (x - m) / y + f m / y - truth)^2: partial sums of (x - m)^j.
        """
        first, weights = self._estimates(0)
        x, middle = 2 * first - 1, 2 * self.bits[0] - 1
        y, chances = self._estimates(1)
        y = np.maximum(y, MIN_DIVISOR)
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

    def _estimates(self, group: int) -> tuple[Array, Array]:
        """Return the possible values of `estimated_rate` in a group, and their probabilities."""
        from scipy.stats import binom

        keep, lie = self.response.keep / ONE, self.response.lie / ONE
        size, rate = self.sizes[group], lie + (keep - lie) * self.bits[group]
        reach = math.ceil(TAILS * math.sqrt(size * rate * (1 - rate))) + 1
        counts = np.arange(
            max(0, round(size * rate) - reach), min(size, round(size * rate) + reach) + 1
        )
        return (counts / size - lie) / (keep - lie), binom.pmf(counts, size, rate)


def van_trees(
    people: int,
    information: Callable[[float], float],
    gain: float = 1.0,
    widths: Sequence[float] = tuple(WIDTHS.tolist()),
) -> float:
    """Return the limit; `information(h)` is the largest information up to h away."""
    return max(gain**2 / (people * information(h) + (math.pi / h) ** 2) for h in widths)


@dataclass(frozen=True)
class Known:
    """Knowledge of an estimator's mean squared error, for a number of people."""

    first_order: float  # the formula for many people
    noise: float | None  # the part that privacy adds, where there is one
    exact: float | None  # except for rounding, where the distribution is known
    limit: float | None  # the least error of any estimator of the same model


def known(
    people: int,
    formula: tuple[float, float | None, float | None],
    exact: float | None,
    limit: float | None,
    off: float = 0.0,
    noisy: bool = False,
) -> Known:
    """Return what is known of an estimator.

    `formula` has n times the error, then n times and n^2 times what noise adds; `off` is the bias
    that remains with many people.
    """
    once, noise, small = formula
    added = (noise or 0.0) / people + (small or 0.0) / people**2
    return Known(
        once / people + added + off**2,
        added if noisy else None,
        exact,
        limit,
    )
