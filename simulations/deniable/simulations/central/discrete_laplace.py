"""Discrete Laplace noise, and what a trusted server releases with it: counts and means.

    P[z] = (a - 1) / (a + 1) a^-|z|      a = e^(ε / Δ), for a whole number z
    variance 2 a / (a - 1)^2             P[|z| > r] = 2 a^-r / (a + 1)   for a whole r >= 0

Privacy: moving the true value by at most Δ changes every probability by a factor of at most
a^Δ = e^ε, exactly: ε is a whole number of billionths, and ε / Δ never becomes a float. This noise
is also called two-sided, or symmetric, geometric noise.

`DiscreteLaplace.sample` is the exact sampler, from fair bits and whole numbers alone. Its only
source of randomness is a `Below`, which returns a uniform whole number below a given one. So a test
can walk every path of a sampler and add up its distribution in fractions. `discrete_laplace` and
`tulap` draw arrays in doubles: they simulate releases, and must never make one.

Sources: theorem 2.7 of the notes on geometric noise, for the distribution, its variance and tail,
which the tests prove; algorithms 2 and 1 of Canonne, Kamath, Steinke 2020, "The discrete Gaussian
for differential privacy", NeurIPS, for the sampler and its coins of probability e^-x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.forecast import FINE, mean_variance, noise_variance, share_variance
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Draw, kernel_draw

Array = NDArray[np.floating]
Below = Callable[[int], int]


def below(draw: Draw = kernel_draw) -> Below:
    """Return a source of uniform whole numbers below any bound, by rejection from random bits."""

    def uniform(bound: int) -> int:
        bits = (bound - 1).bit_length()
        if bits == 0:
            return 0
        whole_bytes = -(-bits // 8) * 8
        while True:
            roll = draw(whole_bytes) & ((1 << bits) - 1)
            if roll < bound:
                return roll

    return uniform


def bernoulli_exp(numerator: int, denominator: int, uniform: Below) -> bool:
    """Return True with probability exactly e^-(numerator / denominator), for any ratio >= 0.

    For a ratio x <= 1, toss coins with probabilities x / 1, x / 2, ... until coin number k fails.
    Because P[k > j] = x^j / j!, k is odd with probability 1 - x + x^2/2 - ... = e^-x. For a larger
    x, e^-x is a product of such probabilities.
    """
    while numerator > denominator:
        if not _bernoulli_exp_small(1, 1, uniform):
            return False
        numerator -= denominator
    return _bernoulli_exp_small(numerator, denominator, uniform)


def _bernoulli_exp_small(numerator: int, denominator: int, uniform: Below) -> bool:
    k = 1
    while uniform(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


@dataclass(frozen=True)
class DiscreteLaplace:
    """Noise for a whole number that one person can move by at most `sensitivity`."""

    epsilon: Epsilon
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if self.sensitivity < 1:
            raise WrongUse(f"a sensitivity is a whole number from 1, got {self.sensitivity}")

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

    def sample(self, uniform: Below) -> int:
        """Draw one number from exactly this distribution.

        With the rate of decay s / t: u + t v is geometric with rate 1 / t (u is uniform below t and
        kept with probability e^(-u/t), v is geometric with rate 1), and the whole part of its
        quotient by s is geometric with rate s / t. The sign is fair; minus zero is drawn again.
        """
        s, t = self.epsilon.billionths, self.epsilon.ratio[1] * self.sensitivity
        shared = math.gcd(s, t)
        s, t = s // shared, t // shared
        while True:
            u = uniform(t)
            if not bernoulli_exp(u, t, uniform):
                continue
            v = 0
            while bernoulli_exp(1, 1, uniform):
                v += 1
            magnitude = (u + t * v) // s
            negative = uniform(2)
            if not (negative and magnitude == 0):
                return -magnitude if negative else magnitude


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


@dataclass(frozen=True)
class GeometricCounts:
    """Geometric mechanism: counts of people by bin, each with independent noise.

    One person moves the counts by at most Δ (`sensitivity`) in total. For a histogram, Δ is 1 if
    neighbours differ by one added or removed person. It is 2 if one person's answer changes, which
    leaves one bin and enters another. Every local model has the second relation, so a comparison at
    the same ε must use it. For a single count of yes, both relations have Δ = 1.

    Privacy: the probabilities of d released counts multiply, so they change by a factor of at most
    e^(ε (sum of moves) / Δ). Error: the largest of d errors exceeds ceil((Δ / ε) ln(d / δ)) with
    probability at most δ. The often printed bound without the ceiling is false.

    Sources: theorem 2.8 of the notes on geometric noise, its radius corrected; Ghosh, Roughgarden,
    Sundararajan 2009, "Universally utility-maximizing privacy mechanisms", STOC.
    """

    epsilon: Epsilon
    sensitivity: int = 1

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon, self.sensitivity)

    def release(self, counts: Sequence[int], uniform: Below) -> tuple[int, ...]:
        """Return the noisy counts, which may be negative and need not add up."""
        return tuple(count + self.noise.sample(uniform) for count in counts)

    def variance(self, people: int) -> float:
        """Return the variance of one bin's share of the people, whose number is public."""
        return share_variance(self.epsilon, people, self.sensitivity)

    def radius(self, bins: int, failure: float) -> int:
        """Return the error that some count exceeds with probability at most `failure`."""
        return math.ceil(self.sensitivity / float(self.epsilon) * math.log(bins / failure))


@dataclass(frozen=True)
class BoundedMean:
    """Mean of numbers: the noisy sum of all grid positions, divided by the number of people.

    Every number is put on a public grid of `steps` steps over its range, as on a device. So the sum
    is a whole number, and its sensitivity is `steps`. Rounding a number x between the grid points a
    and b adds the variance (x - a)(b - x), which a fine grid makes negligible. The number of people
    n is public, so neighbours differ in one person's answer.

    The variance of the noise, as a share of the range, is 2 a / (a - 1)^2 / (n steps)^2 with a =
    e^(ε / steps). It is below Laplace's 2 / (n ε)^2, and close to it on fine grids.

    Source: the notes' Laplace mechanism for a mean, here on a grid.
    """

    epsilon: Epsilon
    steps: int = FINE

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon, self.steps)

    def release(self, positions: Sequence[int], uniform: Below) -> Fraction:
        """Return the noisy mean as a share of the range, an exact fraction."""
        total = sum(min(max(position, 0), self.steps) for position in positions)
        return Fraction(total + self.noise.sample(uniform), len(positions) * self.steps)

    def variance(self, people: int) -> float:
        """Return the variance of the noise on the mean, as a share of the range."""
        return mean_variance(self.epsilon, people, self.steps)


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
