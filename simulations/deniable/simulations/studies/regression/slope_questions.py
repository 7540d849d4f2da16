"""Questions to devices about a slope, and a limit for every estimator of the slope.

`pages/regression.txt` explains it under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.engine.figures import distinct_looks
from deniable.simulations.studies import bit_reports as reports

LOOK = distinct_looks(10)
GROUPS = 500
MIN_DIVISOR = 1e-3  # smallest divisor of a ratio
At = Callable[[reports.Array], reports.Array]  # a function of θ
WIDTHS = np.geomspace(1e-4, 0.5, 60)


def common_estimators(prefix: str) -> list[Estimator]:
    """Return the estimators that both regressions have, with names that begin with the prefix."""
    labels = {
        "exponential": "exponential mechanism",
        "kng": "KNG",
        "objective": "objective perturbation",
        "noisy-sums": "noisy sums",
    }
    trusted = [
        Estimator("central", prefix + name, f"trusted, {label}", look)
        for (name, label), look in zip(labels.items(), LOOK[1:2] + LOOK[3:6], strict=True)
    ]
    return [
        *trusted,
        Estimator("local", f"{prefix}sums", "devices, sums", LOOK[0]),
        Estimator("local", f"{prefix}gradient", "devices, gradients", LOOK[6]),
        Estimator("local", f"{prefix}signs", "devices, signs", LOOK[7]),
    ]


class Formula(NamedTuple):
    """Mean squared error of an estimator, to first order for n people."""

    once: float  # n times the error without privacy, or on devices
    noise: float = 0.0  # n times the error that privacy adds
    small: float = 0.0  # n^2 times the error that privacy adds
    bias: float = 0.0  # bias that remains with many people

    def added(self, people: int) -> float:
        return self.noise / people + self.small / people**2

    def error(self, people: int) -> float:
        return self.once / people + self.added(people) + self.bias**2


@dataclass(frozen=True)
class Search:
    """Search by one-bit questions: `rate` is the probability of a 1 at θ, `level` that at the goal.

    `steep` converts a difference of probabilities into a difference of θ.
    """

    rate: At
    level: At
    steep: float

    def drawn(
        self, response: RandomizedResponse, n: int, times: int, generator: Generator
    ) -> reports.Array:
        """Return the average point of a search for the θ where the bit has its level."""

        def off(size: int, theta: reports.Array) -> reports.Array:
            estimate = reports.estimated_rate(response, size, self.rate(theta), times, generator)
            return estimate - self.level(theta)

        return reports.averaged_walk(n, min(n, GROUPS), np.zeros(times), off, self.steep, (-1, 1))


@dataclass(frozen=True)
class Ratio:
    """Mean of a number in [-1, 1] divided by the mean of a number in [0, 1], times `factor`.

    Each of two groups estimates one mean, from bits that are 1 with the probability in `bits`.
    """

    response: RandomizedResponse
    sizes: tuple[int, int]
    bits: tuple[float, float]
    factor: float = 1.0

    def drawn(
        self, response: RandomizedResponse, _n: int, times: int, generator: Generator
    ) -> reports.Array:
        first, second = (
            reports.estimated_rate(response, size, bit, times, generator)
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

    def _estimates(self, group: int) -> tuple[reports.Array, reports.Array]:
        """Return the possible estimates of a group's rate, and their probabilities."""
        size, rate = (
            self.sizes[group],
            float(reports.reported_rate(self.response, self.bits[group])),
        )
        counts, chances = reports.binomial(size, rate)
        return np.asarray(self.response.unbiased_share(counts / size)), chances


def bit_variances(epsilon: float, xy: float, xx: float) -> tuple[float, float]:
    """Return the variance of a bit for xy, and that of a bit for x^2, scaled by E xy / E x^2."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    return c2 - xy**2, (xy / xx) ** 2 * (c2 / 4 - (xx - 0.5) ** 2)


def best_ratio(
    response: RandomizedResponse, people: int, xy: float, xx: float, factor: float = 1.0
) -> Ratio:
    """Return the ratio of these means with the best split of the people."""
    a, b = (math.sqrt(part) for part in bit_variances(float(response.epsilon), xy, xx))
    first = round(people * a / (a + b))
    return Ratio(response, (first, people - first), ((1 + xy) / 2, xx), factor)


def van_trees(
    people: int,
    information: Callable[[float], float],
    gain: float = 1.0,
    widths: Sequence[float] = tuple(WIDTHS.tolist()),
) -> float:
    """Return the limit; `information(h)` is the largest information of a slope up to h away."""
    return max(gain**2 / (people * information(h) + (math.pi / h) ** 2) for h in widths)
