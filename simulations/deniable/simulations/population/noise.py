"""Discrete Laplace noise by the array, and the sum of n of them in one draw.

A discrete Laplace number is the difference of two geometric ones, so the sum of n is the difference
of two negative binomials: exact, in time that does not depend on n. For simulations only; what is
released comes from the exact sampler in `central`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.discrete_laplace import DiscreteLaplace


def discrete_laplace(
    noise: DiscreteLaplace, size: int | tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.int64]:
    stop = -math.expm1(-float(noise.epsilon) / noise.sensitivity)
    return generator.geometric(stop, size) - generator.geometric(stop, size)


def discrete_laplace_sum(
    noise: DiscreteLaplace,
    people: int,
    size: int | tuple[int, ...],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """What the noises of this many people add up to."""
    if people == 0:
        return np.zeros(size, dtype=np.int64)
    stop = -math.expm1(-float(noise.epsilon) / noise.sensitivity)
    return generator.negative_binomial(people, stop, size) - generator.negative_binomial(
        people, stop, size
    )


def tulap(epsilon: Epsilon, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Discrete Laplace plus a uniform number within half of 0 (`central/tulap.py`)."""
    noise = discrete_laplace(DiscreteLaplace(epsilon), size, generator)
    return np.asarray(noise + generator.uniform(-0.5, 0.5, size))
