"""Private slopes that a trusted server can release: y = θ x + e with x, y and θ in [-1, 1].

    exponential   density e^(-ε Σ(y - θ x)^2 / (2 Δ)), Δ = 4: a square is from 0 to 4            [1]
    KNG           density e^(-ε |2 Σ x (y - θ x)| / (2 Δ)), Δ = 8: a gradient is from -4 to 4    [2]
    objective     the minimum of Σ(y - θ x)^2 + b θ + Λ θ^2 / 2, with Laplace noise b of scale
                  8 / (ε / 2), and Λ = 2 / (e^(ε/2) - 1)                                         [3]
    sums          Σxy and Σx^2, each with Laplace noise of scale Δ / ε, Δ = 9/4, divided

One person is replaced by another. The first two are on [-1, 1], and private as every exponential
mechanism is; at one θ gradients are no further apart than 9/2, so KNG wastes some, as in print.
Objective perturbation gives one half of ε to the noise, as gradients move by at most 8, and one to
the density of b at the minimum, 2 Σx^2 + Λ, which changes by a factor of at most 1 + 2 / Λ; where
the minimum is an end of [-1, 1], its probability is that of a tail of b. The sums move by at most
|x^2 - x'^2| + |x y - x' y'| <= 1 - x'^2 + 1 + x' <= 9/4 together.

These are distributions on the line. Drawing from them in doubles simulates a release, and never
makes one.

[1] McSherry, Talwar 2007. [2] Reimherr, Awan 2019, "KNG: the K-norm gradient mechanism", NeurIPS.
[3] Chaudhuri, Monteleoni, Sarwate 2011, JMLR 12, the share of noise and the constants as above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.floating]
LOSS_SENSITIVITY, GRADIENT_SENSITIVITY, SUMS_SENSITIVITY = (
    4.0,
    8.0,
    2.25,
)  # how far one person moves each
NOISE_SHARE = 0.5  # of ε, for the noise of the objective


@dataclass(frozen=True)
class Sums:
    """Σx^2 and Σxy, one for each repetition."""

    xx: Array
    xy: Array

    @property
    def slope(self) -> Array:
        return np.asarray(self.xy / self.xx)


def exponential_log(sums: Sums, theta: Array, epsilon: float) -> Array:
    """Return the log-density, up to a number that does not depend on θ."""
    loss = theta**2 * sums.xx - 2 * theta * sums.xy
    return np.asarray(-epsilon / (2 * LOSS_SENSITIVITY) * loss)


def kng_log(sums: Sums, theta: Array, epsilon: float) -> Array:
    gradient = 2 * (sums.xy - theta * sums.xx)
    return np.asarray(-epsilon / (2 * GRADIENT_SENSITIVITY) * np.abs(gradient))


def regularizer(epsilon: float) -> float:
    """Return Λ."""
    return 2 / math.expm1((1 - NOISE_SHARE) * epsilon)


def noise_at_minimum(sums: Sums, theta: Array, epsilon: float) -> Array:
    """Return the b with which the objective has its minimum at θ."""
    return np.asarray(2 * (sums.xy - theta * sums.xx) - regularizer(epsilon) * theta)


def exponential(sums: Sums, epsilon: float, generator: np.random.Generator) -> Array:
    deviation = np.sqrt(LOSS_SENSITIVITY / (epsilon * sums.xx))
    low, high = (ndtr((end - sums.slope) / deviation) for end in (-1, 1))
    return np.asarray(sums.slope + deviation * ndtri(generator.uniform(low, high)))


def kng(sums: Sums, epsilon: float, generator: np.random.Generator) -> Array:
    scale = GRADIENT_SENSITIVITY / (epsilon * sums.xx)
    low, high = (_laplace_below((end - sums.slope) / scale) for end in (-1, 1))
    part = generator.uniform(low, high)
    away = np.where(part < 0.5, np.log(2 * part), -np.log(2 * (1 - part)))
    return np.asarray(sums.slope + scale * away)


def objective(sums: Sums, epsilon: float, generator: np.random.Generator) -> Array:
    noise = generator.laplace(0, GRADIENT_SENSITIVITY / (NOISE_SHARE * epsilon), len(sums.xx))
    least = (2 * sums.xy - noise) / (2 * sums.xx + regularizer(epsilon))
    return np.asarray(np.clip(least, -1, 1))


def noisy_sums(sums: Sums, epsilon: float, generator: np.random.Generator) -> Array:
    scale = SUMS_SENSITIVITY / epsilon
    above, below = generator.laplace(0, scale, (2, len(sums.xx)))
    return np.asarray(np.clip((sums.xy + above) / np.maximum(sums.xx + below, 1), -1, 1))


def _laplace_below(x: Array) -> Array:
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))
