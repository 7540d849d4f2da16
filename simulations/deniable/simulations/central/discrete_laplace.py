"""Discrete Laplace noise: a whole number z with probability proportional to e^(-ε |z| / Δ).

    P[z] = (a - 1) / (a + 1) a^-|z|      a = e^(ε / Δ)
    variance 2 a / (a - 1)^2             P[|z| > r] = 2 a^-r / (a + 1)   for a whole r >= 0

Privacy: moving the true value by at most Δ changes every probability by a factor of at most
a^Δ = e^ε.
The ratio is exact: ε and Δ are whole numbers and their ratio never becomes a float.
Also called two-sided geometric, or symmetric geometric, noise.

Source: the distribution, its variance and tail are theorem 2.7 of the notes on geometric noise
(homework there, proved here by its tests); the sampler is algorithm 2 of Canonne, Kamath, Steinke
2020, "The discrete Gaussian for differential privacy", NeurIPS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable.server.planning.trusted import noise_variance
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.exact import Below, bernoulli_exp


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
        """1 / a: how much less likely each further step is."""
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
        """The least whole radius that noise exceeds with at most this probability."""
        r = self.decay
        radius = max(0, math.floor(math.log(failure * (1 + r) / 2) / math.log(r)) - 2)
        while self.tail(radius) > failure:
            radius += 1
        return radius

    def sample(self, uniform: Below) -> int:
        """One draw, exactly from the distribution.

        With x = s / t the rate of decay: u + t v is geometric with rate 1 / t (u uniform below t
        and kept with probability e^(-u/t), v geometric with rate 1), and the whole part of its
        quotient by s is geometric with rate s / t. A fair sign; minus zero is drawn again.
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
