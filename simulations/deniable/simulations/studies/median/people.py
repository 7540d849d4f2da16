"""Who is asked: a density with a formula, its median, and the limits of every series there."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.frame.comparison import Series, look

LOCAL = Series("local", "search", "local search", look(0))
CENTRAL = Series("central", "exponential", "trusted server", look(1))
NONE = Series("none", "median", "no privacy", look(2))
SERIES = (LOCAL, CENTRAL, NONE)

Array = NDArray[np.float64]
SHAPE = 5.0  # F(x) = 1 - (1 - x^2)^5 on [0, 1]: a hump left of the middle, and a formula


def below(x: Array | float) -> Array:
    """The share of people below x."""
    return np.asarray(1 - (1 - np.square(x)) ** SHAPE)


def quantile(share: Array | float) -> Array:
    return np.asarray(np.sqrt(1 - (1 - np.asarray(share)) ** (1 / SHAPE)))


MEDIAN = float(quantile(0.5))
DENSITY: float = 2 * SHAPE * MEDIAN * (1 - MEDIAN**2) ** (SHAPE - 1)


def limit(series: Series, epsilon: Epsilon, people: int) -> float:
    """The variance as people grow without end."""
    none: float = 1 / (4 * people * DENSITY**2)
    if series is LOCAL:
        price: float = math.tanh(float(epsilon) / 2) ** -2
        return none * price
    if series is CENTRAL:
        noise: float = 8 / (float(epsilon) * people * DENSITY) ** 2
        return none + noise
    return none
