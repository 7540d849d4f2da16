"""Private slopes that a trusted server can release, of a line and of a logistic regression.

    line        y = θ x + e with x, y and θ in [-1, 1], and the loss Σ(y - θ x)^2
    logistic    y = 1 or -1, z = x y, |θ| <= 1, and the loss Σln(1 + e^(-θ z))

    exponential   density e^(-ε loss / (2 Δ))                                                    [1]
    KNG           density e^(-ε |gradient| / (2 Δ'))                                             [2]
    objective     the minimum of loss + b θ + Λ θ^2 / 2, with Laplace noise b of scale Δ' / (ε/2),
                  and Λ = c / (e^(ε/2) - 1), c the largest curvature of one person's loss        [3]
    sums          Σxy and Σx^2, or Σz and Σz^2, each with Laplace noise of scale (9/4) / ε, divided;
                  twice the ratio for the logistic loss, whose Taylor polynomial of degree 2 has its
                  minimum there                                                                  [4]

Neighbours differ in one person, who is replaced. For a line Δ = 4, as a square is from 0 to 4,
Δ' = 8, as a gradient is from -4 to 4, and c = 2. At one θ gradients differ by at most 9/2, so KNG
as published does not need all of ε. The logistic loss of a person is from ln(1 + e^-|θ|) to
ln(1 + e^|θ|), so Δ = 1. Its gradient -z / (1 + e^(θ z)) grows with -z as |θ| <= 1, from
-1 / (1 + e^θ) to 1 / (1 + e^-θ), so Δ' = 1; and c = 1/4.

The first two are exponential mechanisms on [-1, 1]. Objective perturbation spends half of ε on the
noise, and half on the density of b at the minimum, Σcurvature + Λ, which changes by a factor of at
most 1 + c / Λ. Where the minimum is an end of [-1, 1], its probability is that of a tail of b. Both
sums together move by at most |x^2 - x'^2| + |x y - x' y'| <= 1 - x'^2 + 1 + x' <= 9/4.

Noise is drawn in doubles: this simulates releases, and must never produce a real one.

[1] McSherry, Talwar 2007. [2] Reimherr, Awan 2019, "KNG: the K-norm gradient mechanism", NeurIPS.
[3] Chaudhuri, Monteleoni, Sarwate 2011, JMLR 12, the share of noise and the constants as above.
[4] Zhang, Zhang, Xiao, Yang, Winslett 2012, "Functional mechanism", PVLDB 5(11).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

Array = NDArray[np.floating]
SUMS_SENSITIVITY = 2.25  # largest total change of both sums by one person
NOISE_SHARE = 0.5  # share of ε for the noise on the objective
NEWTON_STEPS = 12  # each step doubles the correct digits
NORMAL_REACH, LAPLACE_REACH = 9.0, 40.0  # largest draws, in standard deviations and scales
POINTS = 301  # number of points of a grid that is denser in the middle


class Crowd(ABC):
    """People whose answers a server knows: one crowd for each repetition."""

    loss_sensitivity: ClassVar[float]  # Δ
    gradient_sensitivity: ClassVar[float]  # Δ'
    max_curvature: ClassVar[float]  # c
    ratio_factor: ClassVar[float]  # the slope is this factor times the ratio of the sums

    @property
    @abstractmethod
    def sums(self) -> tuple[Array, Array]:
        """Σxy and Σx^2, or Σz and Σz^2."""

    @abstractmethod
    def loss(self, theta: Array) -> Array:
        """Return the loss at each θ in the row of a repetition, up to a constant."""

    @abstractmethod
    def gradient(self, theta: Array) -> Array:
        """Return the derivative of the loss."""

    @abstractmethod
    def minimum(self, push: Array | float = 0.0, ridge: float = 0.0) -> Array:
        """Return the minimum of loss + push θ + ridge θ^2 / 2 on [-1, 1]."""

    def exponential_log(self, theta: Array, epsilon: float) -> Array:
        """Return the log-density, up to a constant."""
        return np.asarray(-epsilon / (2 * self.loss_sensitivity) * self.loss(theta))

    def kng_log(self, theta: Array, epsilon: float) -> Array:
        steep = np.abs(self.gradient(theta))
        return np.asarray(-epsilon / (2 * self.gradient_sensitivity) * steep)

    @classmethod
    def noise_scale(cls, epsilon: float) -> float:
        return cls.gradient_sensitivity / (NOISE_SHARE * epsilon)

    @classmethod
    def ridge(cls, epsilon: float) -> float:
        """Return Λ."""
        return cls.max_curvature / math.expm1((1 - NOISE_SHARE) * epsilon)

    def objective(self, epsilon: float, generator: Generator) -> Array:
        noise = generator.laplace(0, self.noise_scale(epsilon), len(self.sums[0]))
        return self.minimum(noise, self.ridge(epsilon))

    def noisy_sums(self, epsilon: float, generator: Generator) -> Array:
        one, two = self.sums
        above, below = generator.laplace(0, SUMS_SENSITIVITY / epsilon, (2, len(one)))
        ratio = self.ratio_factor * (one + above) / np.maximum(two + below, 1)
        return np.asarray(np.clip(ratio, -1, 1))


@dataclass(frozen=True)
class LineCrowd(Crowd):
    """Σx^2 and Σxy of people on a line."""

    xx: Array
    xy: Array
    loss_sensitivity, gradient_sensitivity, max_curvature, ratio_factor = 4.0, 8.0, 2.0, 1.0

    @property
    def sums(self) -> tuple[Array, Array]:
        return self.xy, self.xx

    def loss(self, theta: Array) -> Array:
        return np.asarray(theta**2 * self.xx - 2 * theta * self.xy)

    def gradient(self, theta: Array) -> Array:
        return np.asarray(-2 * (self.xy - theta * self.xx))

    def minimum(self, push: Array | float = 0.0, ridge: float = 0.0) -> Array:
        return np.asarray(np.clip((2 * self.xy - push) / (2 * self.xx + ridge), -1, 1))

    def exponential(self, epsilon: float, generator: Generator) -> Array:
        deviation = np.sqrt(self.loss_sensitivity / (epsilon * self.xx))
        low, high = (ndtr((end - self.minimum()) / deviation) for end in (-1, 1))
        return np.asarray(self.minimum() + deviation * ndtri(generator.uniform(low, high)))

    def kng(self, epsilon: float, generator: Generator) -> Array:
        scale = self.gradient_sensitivity / (epsilon * self.xx)
        low, high = (_laplace_below((end - self.minimum()) / scale) for end in (-1, 1))
        part = generator.uniform(low, high)
        away = np.where(part < 0.5, np.log(2 * part), -np.log(2 * (1 - part)))
        return np.asarray(self.minimum() + scale * away)


@dataclass(frozen=True)
class LogisticCrowd(Crowd):
    """Numbers of people `held` at each z of `places`, with one row for each repetition."""

    places: Array
    held: NDArray[np.int64]
    loss_sensitivity, gradient_sensitivity, max_curvature, ratio_factor = 1.0, 1.0, 0.25, 2.0

    @property
    def sums(self) -> tuple[Array, Array]:
        return self.held @ self.places, self.held @ self.places**2

    def loss(self, theta: Array) -> Array:
        return self._sum(theta, lambda z: np.logaddexp(0, -z * theta))

    def gradient(self, theta: Array) -> Array:
        return self._sum(theta, lambda z: -z * expit(-z * theta))

    def curvature(self, theta: Array) -> Array:
        return self._sum(theta, lambda z: z * z * expit(z * theta) * expit(-z * theta))

    def _sum(self, theta: Array, term: Callable[[float], Array]) -> Array:
        total = np.zeros(theta.shape)
        for z, held in zip(self.places.tolist(), self.held.T, strict=True):
            total += held.reshape(-1, *[1] * (theta.ndim - 1)) * term(z)
        return total

    def minimum(self, push: Array | float = 0.0, ridge: float = 0.0) -> Array:
        theta = np.zeros(len(self.held))
        for _ in range(NEWTON_STEPS):
            gradient = self.gradient(theta) + push + ridge * theta
            theta = np.clip(theta - gradient / (self.curvature(theta) + ridge), -1, 1)
        return theta

    def exponential(self, epsilon: float, generator: Generator) -> Array:
        centre = self.minimum()
        curvature = self.curvature(centre)
        reach = NORMAL_REACH * np.sqrt(2 * self.loss_sensitivity / (epsilon * curvature))
        return _drawn(centre, reach, lambda t: self.exponential_log(t, epsilon), generator)

    def kng(self, epsilon: float, generator: Generator) -> Array:
        centre = self.minimum()
        scale = 2 * self.gradient_sensitivity / (epsilon * self.curvature(centre))
        return _drawn(centre, LAPLACE_REACH * scale, lambda t: self.kng_log(t, epsilon), generator)


def _drawn(
    centre: Array, reach: Array, log: Callable[[Array], Array], generator: Generator
) -> Array:
    """Draw from a density on a grid around its maximum; the density is linear between points."""
    steps = np.linspace(-1, 1, POINTS)
    steps *= np.abs(steps)
    theta = np.clip(centre[:, None] + reach[:, None] * steps, -1, 1)
    logs = log(theta)
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    masses = np.diff(theta, axis=1) * (density[:, 1:] + density[:, :-1]) / 2
    below = np.pad(np.cumsum(masses, axis=1), ((0, 0), (1, 0)))
    part = generator.uniform(0, below[:, -1])
    return np.array([np.interp(p, b, t) for p, b, t in zip(part, below, theta, strict=True)])


def _laplace_below(x: Array) -> Array:
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))
