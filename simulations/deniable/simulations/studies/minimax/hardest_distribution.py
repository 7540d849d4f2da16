"""The two-point distribution with the largest exact risk of an estimator, and its best clip.

Candidates: 0 and a with probability a^-k, a = k t / (k - 1), with the largest bias of clipping; +1
and -1 with mean 0, with the largest spread; and a search over all distributions in P_k on two
points c and a, refined around the best. For a distribution with mean m, and means y, |y| and y^2 of
the numbers clipped at t (see `clipped_estimators.py`),

    risk = (m - y)^2 + (the second moment of a report of y - y^2) / n + noise t^2

is exact: noise is unbiased, people are drawn independently.

The clip of the least exact risk is searched for near the clip of the risk bound, where the exact
risk is well below the bound; elsewhere there is nothing to gain. The bound of that clip still
holds, as the exact risk here is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.studies.minimax.clipped_estimators import (
    Estimator,
    central_noise,
    grid_step,
    whole_clip,
)

Array = NDArray[np.float64]
ZOOMS = 6
SIZES = (17, 9, 5)  # of the grids: the high point, its share of E|X|^k, the low point
SHAPES = ((-1, 1, 1), (1, -1, 1), (1, 1, -1))
MIN_GAIN = 1 + 1e-9  # of the search, before it replaces a simpler distribution
TIGHT_BOUND = 5e-3  # a bound as close as this is taken as the exact risk
SEARCH_WIDTH = 1.0  # of the search for a clip, in logarithms
CLIP_TOLERANCE = 1e-2


@dataclass(frozen=True)
class TwoPoints:
    """`high` with this probability, otherwise `low`."""

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
    """Return E|X|^k, which P_k bounds by 1; for P_inf the largest |X|."""
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
        return SIGNS  # nothing is clipped: the largest spread is hardest

    def risk(distribution: TwoPoints) -> float:
        return exact_risk(estimator, distribution)

    named = max(_named_distributions(estimator), key=risk)
    searches = (_search(estimator, span) for span in _spans_of_the_high_point(estimator))
    searched = max((_on_grid(estimator, distribution) for distribution in searches), key=risk)
    return searched if risk(searched) > MIN_GAIN * risk(named) else named


def _named_distributions(estimator: Estimator) -> list[TwoPoints]:
    k = estimator.moments
    if math.isinf(k):
        return [SIGNS]
    far = max(1.0, k * estimator.clip / (k - 1))
    return [SIGNS, TwoPoints(0.0, far, far**-k)]


def _risks(estimator: Estimator, low: Array, high: Array, probability: Array) -> Array:
    t = estimator.clip
    clipped_low, clipped_high = np.clip(low, -t, t), np.clip(high, -t, t)

    def mean(at_low: Array, at_high: Array) -> Array:
        return (1 - probability) * at_low + probability * at_high

    bias = mean(low - clipped_low, high - clipped_high)
    if estimator.table is None:
        second = mean(clipped_low**2, clipped_high**2)
    else:
        second = t**2 * mean(
            *(np.interp(y / t, *estimator.curve) for y in (clipped_low, clipped_high))
        )
    spread = second - mean(clipped_low, clipped_high) ** 2
    if math.isinf(t):
        return np.asarray(spread / estimator.users)
    return np.asarray(bias**2 + spread / estimator.users + noise_variance(estimator))


def noise_variance(estimator: Estimator) -> float:
    """Return the variance of the mean's noise, which is exactly discrete Laplace."""
    if not estimator.noise:
        return 0.0
    step = grid_step(estimator.clip)
    return central_noise(estimator).variance * (step / estimator.users) ** 2


def _spans_of_the_high_point(estimator: Estimator) -> list[tuple[float, float]]:
    """Return two spans of logarithms, around the two maxima of the risk.

    One is where few numbers are clipped, the other near the largest bias.
    """
    if math.isinf(estimator.moments):
        return [(0.0, 0.0)]
    low = math.log(max(1.0, estimator.clip))
    return [(0.0, max(math.log(4.0), low)), (low, low + math.log(4.0))]


def _search(estimator: Estimator, span: tuple[float, float]) -> TwoPoints:
    """Search over the high point, its share of E|X|^k, and how much of the rest the low point has.

    Each is on a grid, which is then refined around the best point.
    """
    whole = [span, (0.0, 1.0), (-1.0, 1.0)]
    spans, best = whole, [0.0, 0.0, 0.0]
    for _ in range(ZOOMS):
        axes = [np.linspace(*ends, size) for ends, size in zip(spans, SIZES, strict=True)]
        point = [axis.reshape(shape) for axis, shape in zip(axes, SHAPES, strict=True)]
        risks = _risks(estimator, *_two_points(estimator.moments, *point))
        index = np.unravel_index(np.argmax(risks), risks.shape)
        best = [float(axis[i]) for axis, i in zip(axes, index, strict=True)]
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
    """Return distributions with E|X|^k <= 1; in P_inf, both points are in [-1, 1]."""
    high = np.exp(log_high)
    if math.isinf(moments):
        return np.broadcast_arrays(side, high, taken)  # type: ignore[return-value]  # three of them
    probability = taken * high**-moments
    left = np.maximum(0.0, 1 - probability * high**moments) / np.maximum(1 - probability, 1e-300)
    low = side * left ** (1 / moments)
    return np.broadcast_arrays(np.where(probability < 1, low, 0.0), high, probability)  # type: ignore[return-value]  # three of them


def _on_grid(estimator: Estimator, distribution: TwoPoints) -> TwoPoints:
    """Move both points to whole steps of the central sum, toward 0 so that they stay in P_k."""
    if estimator.name != "laplace":
        return distribution
    step = grid_step(estimator.clip)
    low, high = (math.trunc(x / step) * step for x in (distribution.low, distribution.high))
    return TwoPoints(low, high, distribution.probability)


def sharpened(estimator: Estimator) -> Estimator:
    """Return the estimator with the clip of the least exact risk."""
    if not estimator.clip or math.isinf(estimator.clip) or math.isinf(estimator.moments):
        return estimator
    if _risk(estimator) >= estimator.bound * (1 - TIGHT_BOUND):
        return estimator
    from scipy.optimize import minimize_scalar

    start = math.log(estimator.clip)
    best = minimize_scalar(
        lambda log: _risk(_clipped(estimator, math.exp(log))),
        bounds=(
            max(0.0, start - SEARCH_WIDTH) if start > 0 else start - SEARCH_WIDTH,
            start + SEARCH_WIDTH,
        ),
        method="bounded",
        options={"xatol": CLIP_TOLERANCE},
    )
    sharper = _clipped(estimator, math.exp(float(best.x)))
    return sharper if _risk(sharper) < _risk(estimator) else estimator


def _clipped(estimator: Estimator, clip: float) -> Estimator:
    return replace(estimator, clip=whole_clip(clip) if estimator.noise else clip)


def _risk(estimator: Estimator) -> float:
    return exact_risk(estimator, hardest_distribution(estimator))
