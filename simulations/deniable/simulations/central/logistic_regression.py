"""Private logistic slopes that a trusted server can release: ln(1 + e^(-θ z)), z = x y, |θ| <= 1.

Here y is 1 or -1, with probability 1 / (1 + e^(-θ x)) of 1. At one θ the loss of a person is from
ln(1 + e^-|θ|) to ln(1 + e^|θ|), which is |θ| <= 1 wide; the gradient -z / (1 + e^(θ z)) grows with
-z as |θ| <= 1, from -1 / (1 + e^θ) to 1 / (1 + e^-θ), which is 1 wide; curvature is at most 1/4.

    exponential   density e^(-ε Σloss / (2 Δ)), Δ = 1                                            [1]
    KNG           density e^(-ε |Σgradient| / (2 Δ)), Δ = 1                                      [2]
    objective     the minimum of Σloss + b θ + Λ θ^2 / 2, with Laplace noise b of scale 1 / (ε/2),
                  and Λ = (1/4) / (e^(ε/2) - 1)                                                  [3]
    sums          Σz and Σz^2, each with Laplace noise of scale Δ / ε, Δ = 9/4, and twice their
                  ratio: the minimum of the loss' Taylor polynomial of degree 2                  [4]

One person is replaced by another. The first two are on [-1, 1], and private as every exponential
mechanism is. Objective perturbation gives one half of ε to the noise, as gradients move by at most
1, and one to the density of b at the minimum, Σcurvature + Λ, which changes by a factor of at most
1 + (1/4) / Λ; where the minimum is an end of [-1, 1], its probability is that of a tail of b. The
sums move by at most |z - z'| + |z^2 - z'^2| <= 9/4 together.

These are distributions on the line. Drawing from them in doubles simulates a release, and never
makes one.

[1] McSherry, Talwar 2007. [2] Reimherr, Awan 2019, NeurIPS. [3] Chaudhuri, Monteleoni, Sarwate
2011, JMLR 12. [4] Zhang, Zhang, Xiao, Yang, Winslett 2012, "Functional mechanism", PVLDB 5(11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.floating]
LOSS_SENSITIVITY, GRADIENT_SENSITIVITY, SUMS_SENSITIVITY = (
    1.0,
    1.0,
    2.25,
)  # how far one person moves each
CURVATURE = 0.25  # of one person's loss, at most
NOISE_SHARE = 0.5  # of ε, for the noise of the objective
NEWTON_STEPS = 12  # each doubles the digits
NORMAL_REACH, LAPLACE_REACH = 9.0, 40.0  # standard deviations, scales: draws end there
POINTS = 301  # denser towards the middle


@dataclass(frozen=True)
class Crowds:
    """Numbers of people, `held`, at each z of `places`: one row for each repetition."""

    places: Array
    held: NDArray[np.int64]

    def loss(self, theta: Array) -> Array:
        """Return the loss at each θ of the repetition's row."""
        return self._sum(theta, lambda z: np.logaddexp(0, -z * theta))

    def gradient(self, theta: Array) -> Array:
        return self._sum(theta, lambda z: -z * expit(-z * theta))

    def curvature(self, theta: Array) -> Array:
        return self._sum(theta, lambda z: z * z * expit(z * theta) * expit(-z * theta))

    def _sum(self, theta: Array, of: object) -> Array:
        assert callable(of)
        total = np.zeros(theta.shape)
        for z, held in zip(self.places.tolist(), self.held.T, strict=True):
            total += held.reshape(-1, *[1] * (theta.ndim - 1)) * of(z)
        return total


def exponential_log(people: Crowds, theta: Array, epsilon: float) -> Array:
    """Return the log-density, up to a number that does not depend on θ."""
    return np.asarray(-epsilon / (2 * LOSS_SENSITIVITY) * people.loss(theta))


def kng_log(people: Crowds, theta: Array, epsilon: float) -> Array:
    return np.asarray(-epsilon / (2 * GRADIENT_SENSITIVITY) * np.abs(people.gradient(theta)))


def regularizer(epsilon: float) -> float:
    """Return Λ."""
    return CURVATURE / math.expm1((1 - NOISE_SHARE) * epsilon)


def noise_at_minimum(people: Crowds, theta: Array, epsilon: float) -> Array:
    """Return the b with which the objective has its minimum at θ."""
    return np.asarray(-people.gradient(theta) - regularizer(epsilon) * theta)


def minimum(people: Crowds, push: Array | float = 0.0, ridge: float = 0.0) -> Array:
    """Return the minimum of Σloss + push θ + ridge θ^2 / 2 on [-1, 1], by Newton's method."""
    theta = np.zeros(len(people.held))
    for _ in range(NEWTON_STEPS):
        gradient = people.gradient(theta) + push + ridge * theta
        theta = np.clip(theta - gradient / (people.curvature(theta) + ridge), -1, 1)
    return theta


def exponential(people: Crowds, epsilon: float, generator: np.random.Generator) -> Array:
    centre = minimum(people)
    reach = NORMAL_REACH * np.sqrt(2 * LOSS_SENSITIVITY / (epsilon * people.curvature(centre)))
    return _drawn(people, exponential_log, centre, reach, epsilon, generator)


def kng(people: Crowds, epsilon: float, generator: np.random.Generator) -> Array:
    centre = minimum(people)
    reach = LAPLACE_REACH * 2 * GRADIENT_SENSITIVITY / (epsilon * people.curvature(centre))
    return _drawn(people, kng_log, centre, reach, epsilon, generator)


def objective(people: Crowds, epsilon: float, generator: np.random.Generator) -> Array:
    noise = generator.laplace(0, GRADIENT_SENSITIVITY / (NOISE_SHARE * epsilon), len(people.held))
    return minimum(people, noise, regularizer(epsilon))


def noisy_sums(people: Crowds, epsilon: float, generator: np.random.Generator) -> Array:
    one, two = (people.held @ people.places**power for power in (1, 2))
    above, below = generator.laplace(0, SUMS_SENSITIVITY / epsilon, (2, len(one)))
    return np.asarray(np.clip(2 * (one + above) / np.maximum(two + below, 1), -1, 1))


def _drawn(
    people: Crowds, log: object, centre: Array, reach: Array, epsilon: float,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """Draw from a density on a grid around its maximum, linear between points."""
    assert callable(log)
    steps = np.linspace(-1, 1, POINTS)
    steps *= np.abs(steps)
    theta = np.clip(centre[:, None] + reach[:, None] * steps, -1, 1)
    logs = log(people, theta, epsilon)
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    masses = np.diff(theta, axis=1) * (density[:, 1:] + density[:, :-1]) / 2
    below = np.concatenate([np.zeros((len(centre), 1)), np.cumsum(masses, axis=1)], axis=1)
    part = generator.uniform(0, below[:, -1])
    return np.array([np.interp(p, b, t) for p, b, t in zip(part, below, theta, strict=True)])
