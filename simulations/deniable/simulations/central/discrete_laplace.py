"""Discrete Laplace noise, and what a trusted server releases with it: counts and means.

    P[z] = (a - 1) / (a + 1) a^-|z|      a = e^(ε / Δ), for a whole number z
    variance 2 a / (a - 1)^2             P[|z| > r] = 2 a^-r / (a + 1)   for a whole r >= 0

Privacy: moving the true value by at most Δ changes every probability by a factor of at most
a^Δ = e^ε, exactly: ε is a whole number of billionths, and ε / Δ never becomes a float. This noise
is also called two-sided, or symmetric, geometric noise.

`discrete_laplace` and `tulap` draw in doubles: they simulate releases, and must never make one.

Source: theorem 2.7 of the notes on geometric noise, for the distribution, its variance and tail,
which the tests prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.forecast import noise_variance
from deniable.shared.privacy.epsilon import Epsilon

Array = NDArray[np.floating]


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
