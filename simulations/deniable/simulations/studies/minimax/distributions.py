"""The two-point distribution that is hardest for an estimator: where its exact risk is largest.

Candidates: 0 and a with probability a^-k, a = k t / (k - 1), which loses most by the cut; +1 and -1
with mean 0, whose spread is largest; and a search over all distributions in P_k on two points c and
a, made finer around the best. For a distribution with mean m, and means y and |y| and y^2 of the
numbers cut off at t (see estimators.py),

    risk = (m - y)^2 + (the second moment of a report of y - y^2) / n + noise t^2

is exact: noise is unbiased, people are drawn independently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.studies.minimax.estimators import Estimator, central_noise, grid_step

Array = NDArray[np.float64]
ZOOMS = 6
SIZES = (17, 9, 5)  # of the grids: the high point, what it takes, the low point
SHAPES = ((-1, 1, 1), (1, -1, 1), (1, 1, -1))
AT_LEAST = 1 + 1e-9  # what the search must gain before the simpler one is given up


@dataclass(frozen=True)
class TwoPoints:
    """`high` with this probability, else `low`."""

    low: float
    high: float
    probability: float

    @property
    def mean(self) -> float:
        return (1 - self.probability) * self.low + self.probability * self.high


SIGNS = TwoPoints(-1.0, 1.0, 0.5)


def exact_risk(estimator: Estimator, distribution: TwoPoints) -> float:
    return float(
        _risks(
            estimator,
            *(np.array(x) for x in (distribution.low, distribution.high, distribution.probability)),
        )
    )


def moment(distribution: TwoPoints, moments: float) -> float:
    """E|X|^k, which P_k bounds by 1; for P_inf the largest |X|."""
    if math.isinf(moments):
        return max(abs(distribution.low), abs(distribution.high))
    shares = (
        (1 - distribution.probability, abs(distribution.low)),
        (distribution.probability, abs(distribution.high)),
    )
    return math.fsum(probability * size**moments for probability, size in shares)


def hardest_distribution(estimator: Estimator) -> TwoPoints:
    if not estimator.clip:
        return TwoPoints(0.0, 1.0, 1.0)  # the estimate is 0: the largest mean is hardest
    if math.isinf(estimator.clip):
        return SIGNS  # nothing is cut: the largest spread is

    def risk(distribution: TwoPoints) -> float:
        return exact_risk(estimator, distribution)

    named = max(_named_distributions(estimator), key=risk)
    found = (_search(estimator, span) for span in _places_of_the_high_point(estimator))
    searched = max((_on_grid(estimator, distribution) for distribution in found), key=risk)
    return searched if risk(searched) > AT_LEAST * risk(named) else named


def _named_distributions(estimator: Estimator) -> list[TwoPoints]:
    k = estimator.moments
    if math.isinf(k):
        return [SIGNS]
    far = max(1.0, k * estimator.clip / (k - 1))
    return [SIGNS, TwoPoints(0.0, far, far**-k)]


def _risks(estimator: Estimator, low: Array, high: Array, probability: Array) -> Array:
    t = estimator.clip
    cut_low, cut_high = np.clip(low, -t, t), np.clip(high, -t, t)

    def mean(at_low: Array, at_high: Array) -> Array:
        return (1 - probability) * at_low + probability * at_high

    bias = mean(low - cut_low, high - cut_high)
    if estimator.table is None:
        second = mean(cut_low**2, cut_high**2)
    else:
        second = t**2 * mean(*(np.interp(y / t, *estimator.curve) for y in (cut_low, cut_high)))
    spread = second - mean(cut_low, cut_high) ** 2
    if math.isinf(t):
        return np.asarray(spread / estimator.users)
    return np.asarray(bias**2 + spread / estimator.users + noise_variance(estimator))


def noise_variance(estimator: Estimator) -> float:
    """Of the mean: what is added is exactly discrete Laplace."""
    if not estimator.noise:
        return 0.0
    step = grid_step(estimator.clip)
    return central_noise(estimator).variance * (step / estimator.users) ** 2


def _places_of_the_high_point(estimator: Estimator) -> list[tuple[float, float]]:
    """Logarithms. Risk has two hills: where few numbers are cut, and around the worst of cuts."""
    if math.isinf(estimator.moments):
        return [(0.0, 0.0)]
    low = math.log(max(1.0, estimator.clip))
    return [(0.0, max(math.log(4.0), low)), (low, low + math.log(4.0))]


def _search(estimator: Estimator, places: tuple[float, float]) -> TwoPoints:
    """By the place of the high point, how much of E|X|^k it takes, and how far the low point uses
    what is left: each on a grid, then around the best one again."""
    whole = [places, (0.0, 1.0), (-1.0, 1.0)]
    spans, best = whole, [0.0, 0.0, 0.0]
    for _ in range(ZOOMS):
        axes = [np.linspace(*span, size) for span, size in zip(spans, SIZES, strict=True)]
        point = [axis.reshape(shape) for axis, shape in zip(axes, SHAPES, strict=True)]
        risks = _risks(estimator, *_two_points(estimator.moments, *point))
        place = np.unravel_index(np.argmax(risks), risks.shape)
        best = [float(axis[i]) for axis, i in zip(axes, place, strict=True)]
        spans = [
            (max(low, at - (end - begin) / 4), min(high, at + (end - begin) / 4))
            for (low, high), at, (begin, end) in zip(whole, best, spans, strict=True)
        ]
    low, high, probability = (
        float(x) for x in _two_points(estimator.moments, *map(np.array, best))
    )
    return TwoPoints(low, high, probability)


def _two_points(
    moments: float, log_high: Array, taken: Array, side: Array
) -> tuple[Array, Array, Array]:
    """Every distribution here has E|X|^k <= 1; in P_inf, both points lie in [-1, 1]."""
    high = np.exp(log_high)
    if math.isinf(moments):
        return np.broadcast_arrays(side, high, taken)  # type: ignore[return-value]  # three of them
    probability = taken * high**-moments
    left = np.maximum(0.0, 1 - probability * high**moments) / np.maximum(1 - probability, 1e-300)
    low = side * left ** (1 / moments)
    return np.broadcast_arrays(np.where(probability < 1, low, 0.0), high, probability)  # type: ignore[return-value]  # three of them


def _on_grid(estimator: Estimator, distribution: TwoPoints) -> TwoPoints:
    """The central sum is of whole steps, so both points stand on them: toward 0, to stay in P_k."""
    if estimator.name != "laplace":
        return distribution
    step = grid_step(estimator.clip)
    low, high = (math.trunc(x / step) * step for x in (distribution.low, distribution.high))
    return TwoPoints(low, high, distribution.probability)
