"""Tulap noise: discrete Laplace plus a uniform number, as the most powerful private test has it.

With b = e^-ε and [x] the nearest whole number, the distribution function is

    F(x) = b^-[x] / (1 + b) (b + (x - [x] + 1/2) (1 - b))      x <= 0,    1 - F(-x) above

A test that rejects with probability F(s - m), for s people who say yes, is ε-private; of all private
tests of one share against a larger one at this level none has more power. It is the test that
rejects where s plus Tulap noise exceeds m.

A simulation of a distribution on the line: it is drawn in doubles, and nothing is released by it.

Source: Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial
data", NeurIPS.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.discrete_laplace import DiscreteLaplace
from deniable.simulations.population.noise import discrete_laplace

Array = NDArray[np.float64]


def tulap_below(x: Array, epsilon: float) -> Array:
    """F(x)."""
    b, low = math.exp(-epsilon), -np.abs(x)
    whole = np.rint(low)
    tail = np.exp(epsilon * whole) / (1 + b) * (b + (low - whole + 0.5) * (1 - b))
    return np.where(x <= 0, tail, 1 - tail)


def tulap(epsilon: Epsilon, size: int, generator: np.random.Generator) -> Array:
    noise = discrete_laplace(DiscreteLaplace(epsilon), size, generator)
    return np.asarray(noise + generator.uniform(-0.5, 0.5, size))
