"""What a trusted server releases of a mean of vectors in the unit ball: noise in all directions.

    pure        density e^(-ε n |v| / 2): the mean moves by at most 2 / n when one person is
                replaced, so by the triangle inequality no density changes by more than e^ε.
                |v| has the distribution Gamma(d, 2 / (ε n)), so E|v|^2 = 4 d (d + 1) / (ε n)^2
    Gaussian    the same normal distribution in each coordinate, σ = (2 / n) / μ with the μ that is
                (ε, δ): E|v|^2 = d σ^2

Distributions on R^d: what is drawn from them in doubles is a simulation of them, and nothing is
ever released by it.

Sources: Hardt, Talwar 2010, "On the geometry of differential privacy", STOC; Balle, Wang 2018,
"Improving the Gaussian mechanism for differential privacy", ICML.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOVED = 2.0  # a sum of vectors in the unit ball, when one of them is replaced


def pure_scale(epsilon: float, people: int) -> float:
    """The density is e^(-|v| / scale)."""
    return MOVED / (epsilon * people)


def pure_error(scale: float, dimension: int) -> float:
    """E|v|^2."""
    return dimension * (dimension + 1) * scale**2


def pure_lengths(scale: float, dimension: int, times: int, generator: np.random.Generator) -> Array:
    return generator.gamma(dimension, scale, times)


def gaussian_lengths(
    deviation: float, dimension: int, times: int, generator: np.random.Generator
) -> Array:
    """Of vectors with so many such coordinates."""
    return np.asarray(deviation * np.sqrt(generator.chisquare(dimension, times)))
