"""Noise of a trusted server for many counts together.

The density of the noise falls with a norm (Hardt, Talwar 2010, "On the geometry of differential
privacy", STOC). It is drawn in doubles: this simulates releases, and must never make one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon

SPREAD = 40.0  # in scales and deviations of the radius: less than 1e-16 lies beyond
MAX_SIDES = 10**6  # of cubes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CubeNoise:
    """Noise for m counts, each of which one person moves by at most 1: whole numbers in a cube.

        P[v] proportional to e^(-ε max |v_i|)

    Privacy: one person moves the counts by a vector whose largest entry is at most 1. So by the
    triangle inequality no probability changes by more than a factor of e^ε. Independent noise on
    each count would need m times the scale.

    To draw it, draw a cube with half side R, with probability proportional to (2 R + 1)^m e^(-ε R),
    and then a uniform point in the cube: (1 - e^-ε) e^(-ε R) adds up to e^(-ε r) over R >= r. The
    variance of each count is E R (R + 1) / 3. For small ε, that is (m + 1) (m + 2) / (3 ε^2); for
    large m, it is a sixth of the 2 m^2 / ε^2 of independent noise. For a single count, cube noise
    is discrete Laplace noise.
    """

    epsilon: Epsilon
    counts: int

    @cached_property
    def sides(self) -> NDArray[np.int64]:
        """Half sides 0, 1, ..., or in steps that are small against 1 / ε if there are many."""
        last = int((self.counts + SPREAD * (1 + self.counts**0.5)) / float(self.epsilon)) + 2
        return np.arange(0, last + 1, max(1, last // MAX_SIDES))

    @cached_property
    def radii(self) -> NDArray[np.float64]:
        """Probability of each half side in `sides`, except for a tail below 1e-16."""
        e, m = float(self.epsilon), self.counts
        logs = m * np.log1p(2 * self.sides) - e * self.sides
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def variance(self) -> float:
        """Variance of each count."""
        return float(self.radii @ (self.sides * (self.sides + 1.0)) / 3)

    def drawn(self, times: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw one row of noise for each repetition, in doubles."""
        chosen = _drawn(self.radii, times, generator)
        r = self.sides[chosen]
        return generator.integers(-r[:, None], r[:, None] + 1, (times, self.counts))


class BinNoise(NamedTuple):
    """Noise for k bins whose sum is public: whole numbers with sum zero.

        P[v] proportional to r^(|v_1| + ... + |v_k|), r = e^(-ε / 2)

    Privacy: another answer of one person moves one bin down and another one up, so the exponent
    changes by at most 2. It is the K-norm noise of the polytope of these moves, and geometric noise
    on each bin under the condition that the sum stays. With θ uniform on [0, π],

        variance of a bin = (k - 1) (2 r / (1 - r^2))^2 E[sin^2 θ w] / E[w]
        w = (1 + r^2 + 2 r cos θ)^(k - 1)

    which k + 2 points give exactly. For two bins that is the variance of one noisy count. Each v is
    a difference of two vectors, uniform among those with entries >= 0 and a sum M, where M has
    probability proportional to r^(2 M) C(M + k - 1, M)^2.

    Proof of the variance: the characteristic function of one bin's noise is
    (1 - r)^2 / (1 - 2 r cos t + r^2). Write the condition as an integral over t, integrate by
    parts, and replace (1 - r^2) dt / (1 - 2 r cos t + r^2) by dθ.
    """

    epsilon: Epsilon
    bins: int

    @property
    def variance(self) -> float:
        half, points = float(self.epsilon) / 2, self.bins + 2
        theta = np.pi * (np.arange(points) + 0.5) / points
        logs = (self.bins - 1) * np.log1p(-((np.sin(theta / 2) / np.cosh(half / 2)) ** 2))
        weights = np.exp(logs - logs.max())
        spread = float(weights @ np.sin(theta) ** 2 / weights.sum())
        return (self.bins - 1) * spread / float(np.sinh(half)) ** 2

    def drawn(self, times: int, generator: np.random.Generator) -> NDArray[np.int64]:
        from scipy.special import gammaln

        e, k = float(self.epsilon), self.bins
        last = int((2 * k + SPREAD * (1 + (2 * k) ** 0.5)) / e) + 2
        totals = np.arange(0, last + 1, max(1, last // MAX_SIDES))
        logs = 2 * (gammaln(totals + k) - gammaln(totals + 1)) - e * totals
        chosen = _drawn(np.exp(logs - logs.max()), times, generator)
        parts = generator.dirichlet(np.ones(k), (2, times))
        up, down = generator.multinomial(totals[chosen], parts)
        return np.asarray(up - down)


def _drawn(weights: Array, times: int, generator: np.random.Generator) -> NDArray[np.intp]:
    below = np.cumsum(weights)
    return np.searchsorted(below, generator.uniform(0, below[-1], times), side="right")
