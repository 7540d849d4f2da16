"""Who is asked: distributions with a formula, the quantile of each, and the limits there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine.comparison import Series, look

LOCAL = Series("local", "search", "local, in turn", look(0))
TWO_GROUPS = Series("local", "two-groups", "local, two groups", look(5))
ONCE = Series("local", "once", "local, asked once", look(3))
CLIP = Series("local", "clip", "local, clipped mean", look(4))
CENTRAL = Series("central", "exponential", "trusted server", look(1))
NONE = Series("none", "median", "no privacy", look(2))
SERIES = (LOCAL, CENTRAL, NONE)
ALL = (LOCAL, TWO_GROUPS, ONCE, CLIP, CENTRAL, NONE)

Array = NDArray[np.float64]
SHAPE = 5.0  # F(x) = 1 - (1 - x^2)^5 on [0, 1]: a hump left of the middle, and a formula
CENTRE, SIGMA = 0.4, 0.05  # of the normal distribution: the range is 20 deviations wide
CLIPPED = 3.0  # deviations


def below(x: Array | float) -> Array:
    """The share of people below x."""
    return np.asarray(1 - (1 - np.square(x)) ** SHAPE)


def quantile(share: Array | float) -> Array:
    return np.asarray(np.sqrt(1 - (1 - np.asarray(share)) ** (1 / SHAPE)))


def normal_below(x: Array | float) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr((np.asarray(x) - CENTRE) / SIGMA))


def normal_quantile(share: Array | float) -> Array:
    from scipy.special import ndtri

    return np.asarray(np.clip(CENTRE + SIGMA * ndtri(np.asarray(share)), 0, 1))


@dataclass(frozen=True)
class Target:
    """The `share` quantile of the hump, or the centre of the normal distribution."""

    question: str  # quantile or location
    share: float

    def below(self, x: Array | float) -> Array:
        return (normal_below if self.question == "location" else below)(x)

    def quantile(self, share: Array | float) -> Array:
        return (normal_quantile if self.question == "location" else quantile)(share)

    @property
    def truth(self) -> float:
        return float(self.quantile(self.share))

    @property
    def density(self) -> float:
        if self.question == "location":
            return 1 / (SIGMA * math.sqrt(2 * math.pi))
        return float(2 * SHAPE * self.truth * (1 - self.truth**2) ** (SHAPE - 1))

    def limit(self, series: Series, epsilon: Epsilon, people: int) -> float:
        """The variance as people grow without end. None that is local is below the search."""
        if series is CLIP:
            return float((CLIPPED * SIGMA / math.tanh(float(epsilon) / 2)) ** 2 / people)
        spread = self.share * (1 - self.share)
        none: float = spread / (people * self.density**2)
        if series.model == "local":
            return none + noise(epsilon) / (people * self.density**2)
        if series is CENTRAL:
            more: float = 8 / (float(epsilon) * people * self.density) ** 2
            return none + more
        return SIGMA**2 / people if self.question == "location" else none


def noise(epsilon: Epsilon) -> float:
    """V: of a share by randomized response, times n."""
    return 1 / (4 * math.sinh(float(epsilon) / 2) ** 2)


HALF = Target("quantile", 0.5)
MEDIAN, DENSITY = HALF.truth, HALF.density


def limit(series: Series, epsilon: Epsilon, people: int) -> float:
    """Of the median."""
    return HALF.limit(series, epsilon, people)
