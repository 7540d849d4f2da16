"""Noise of a trusted server: for one whole number, and for many counts together.

    P[z] = (a - 1) / (a + 1) a^-|z|      a = e^(ε / Δ), for a whole number z
    variance 2 a / (a - 1)^2             P[|z| > r] = 2 a^-r / (a + 1)   for a whole r >= 0

Privacy: moving the true value by at most Δ changes every probability by a factor of at most
a^Δ = e^ε, exactly: ε is a whole number of billionths, and ε / Δ never becomes a float. This noise
is also called two-sided, or symmetric, geometric noise. The density of noise for many counts falls
with a norm [1].

All noise is drawn in doubles: this simulates releases, and must never produce a real one.

[1] Hardt, Talwar 2010, "On the geometry of differential privacy", STOC.
Source: theorem 2.7 of the notes on geometric noise, for the distribution, its variance and tail,
which the tests prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.forecast import noise_variance
from deniable.shared.privacy.epsilon import Epsilon

Array = NDArray[np.floating]
SPREAD = 40.0  # in scales and deviations of the radius: less than 1e-16 lies beyond
MAX_SIDES = 10**6  # of cubes


@dataclass(frozen=True)
class DiscreteLaplace:
    """Noise for a whole number that one person can move by at most `sensitivity`."""

    epsilon: Epsilon
    sensitivity: int = 1

    @property
    def decay(self) -> float:
        """The factor 1 / a between the probabilities of neighbouring numbers."""
        return math.exp(-float(self.epsilon) / self.sensitivity)

    @property
    def variance(self) -> float:
        return noise_variance(self.epsilon, self.sensitivity)

    def probability(self, z: int) -> float:
        r = self.decay
        return (1 - r) / (1 + r) * r ** abs(z)

    def tail(self, radius: int) -> float:
        """P[|z| > radius], for a whole radius >= 0."""
        r = self.decay
        return 2 * r ** (radius + 1) / (1 + r)

    def radius(self, failure: float) -> int:
        """Return the least whole radius that the noise exceeds with at most this probability."""
        r = self.decay
        radius = max(0, math.floor(math.log(failure * (1 + r) / 2) / math.log(r)) - 2)
        while self.tail(radius) > failure:
            radius += 1
        return radius

    def joint_radius(self, counts: int, failure: float) -> int:
        """Return an error that some of these noisy counts exceeds with at most this probability.

        It is ceil((Δ / ε) ln(d / δ)). The often printed bound without the ceiling is false.
        Source: theorem 2.8 of the notes on geometric noise, its radius corrected.
        """
        return math.ceil(self.sensitivity / float(self.epsilon) * math.log(counts / failure))


@dataclass(frozen=True)
class Staircase:
    """Noise of the least variance for a whole number that one person moves by at most Δ.

        P[z] proportional to e^(-ε j), j = floor(|z| / Δ) + (1 if |z| mod Δ >= r else 0)

    Privacy: the probability never grows with |z|, and falls by exactly e^ε over Δ. The step r is
    the one of 1, ..., Δ with the least variance. With Δ = 1 this is discrete Laplace noise. On a
    fine grid, discrete Laplace noise has 1.04, 1.18, 1.92 and 9.25 times the variance at ε 1, 2, 4
    and 8.

    Source: Geng, Viswanath 2014, "The optimal mechanism in differential privacy", ISIT.
    """

    epsilon: Epsilon
    sensitivity: int = 1

    @cached_property
    def _variances(self) -> Array:
        """Variance with each step r = 1, ..., Δ, from the sums over j of b^j (j Δ + i)^2."""
        b, rest = math.exp(-float(self.epsilon)), -math.expm1(-float(self.epsilon))
        i, delta = np.arange(self.sensitivity), self.sensitivity
        squares = delta**2 * b * (1 + b) / rest**3 + 2 * delta * i * b / rest**2 + i * i / rest
        moment = b * squares.sum() + rest * np.cumsum(squares)
        return np.asarray(2 * moment / (2 * (b * delta / rest + i + 1) - 1))

    @property
    def step(self) -> int:
        return 1 + int(self._variances.argmin())

    @property
    def variance(self) -> float:
        return float(self._variances.min())

    def drawn(self, times: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw noise in doubles; zeros with a negative sign are dropped, at most half of all."""
        size, b = 3 * times + 100, math.exp(-float(self.epsilon))
        blocks = generator.geometric(-math.expm1(-float(self.epsilon)), size) - 1
        far = generator.random(size) * (self.step + b * (self.sensitivity - self.step)) >= self.step
        start = np.where(far, min(self.step, self.sensitivity - 1), 0)
        places = generator.integers(start, np.where(far, self.sensitivity, self.step))
        z, negative = blocks * self.sensitivity + places, generator.random(size) < 0.5
        signed = np.where(negative, -z, z)
        return np.asarray(signed[~negative | (z > 0)][:times])


def discrete_laplace(
    noise: DiscreteLaplace, size: int | tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.int64]:
    stop = -math.expm1(-float(noise.epsilon) / noise.sensitivity)
    return generator.geometric(stop, size) - generator.geometric(stop, size)


def tulap(epsilon: Epsilon, size: int, generator: np.random.Generator) -> Array:
    """Draw Tulap noise: discrete Laplace plus a uniform number from -1/2 to 1/2."""
    noise = discrete_laplace(DiscreteLaplace(epsilon), size, generator)
    return np.asarray(noise + generator.uniform(-0.5, 0.5, size))


def tulap_below(x: Array, epsilon: float) -> Array:
    """Return the distribution function F of Tulap noise, used by the most powerful private test.

    With b = e^-ε and [x] the nearest whole number,

        F(x) = b^-[x] / (1 + b) (b + (x - [x] + 1/2) (1 - b))   for x <= 0, else 1 - F(-x)

    A test that rejects if s plus Tulap noise exceeds m, where s people say yes, rejects with
    probability F(s - m). It is ε-private. No other private test of a share against a larger share
    has more power at the same level.

    Source: Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial
    data", NeurIPS.
    """
    b, low = math.exp(-epsilon), -np.abs(x)
    whole = np.rint(low)
    tail = np.exp(epsilon * whole) / (1 + b) * (b + (low - whole + 0.5) * (1 - b))
    return np.where(x <= 0, tail, 1 - tail)


# Many counts


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
        """Half sides 0, 1, ..., or in steps much smaller than 1 / ε if there are many."""
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
    on each bin under the condition that the sum stays the same. With θ uniform on [0, π],

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
