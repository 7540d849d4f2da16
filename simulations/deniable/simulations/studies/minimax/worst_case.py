"""Risk of an estimator in its worst case: the hardest distribution, and the measured risk.

`pages/minimax.txt` explains it under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.simulations.central.noise import discrete_laplace
from deniable.simulations.studies.bit_reports import binomial
from deniable.simulations.studies.minimax.clipped_estimators import Estimator

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
GROUPS = 100  # of strata
ZOOMS = 4
SIZES = (17, 9, 5)  # sizes of the grids of the high point, its share of E|X|^k, and the low point
GRIDS = np.ix_(*map(np.arange, SIZES))
MIN_GAIN = 1 + 1e-9  # smallest gain with which a searched distribution replaces a simpler one
TIGHT_BOUND = 5e-3  # a bound as close as this is taken as the exact risk
SEARCH_WIDTH = 1.0  # half-width of the search interval for a clip, in natural logs
CLIP_TOLERANCE = 1e-2


@dataclass(frozen=True)
class TwoPoints:
    """Distribution on two points: `high` with this probability, otherwise `low`."""

    low: float
    high: float
    probability: float

    @property
    def mean(self) -> float:
        return (1 - self.probability) * self.low + self.probability * self.high


SIGNS = TwoPoints(-1.0, 1.0, 0.5)


def moment(distribution: TwoPoints, moments: float) -> float:
    """Return E|X|^k, which P_k bounds by 1; for P_inf the largest |X|."""
    p, low, high = distribution.probability, abs(distribution.low), abs(distribution.high)
    if math.isinf(moments):
        return max(low, high)
    return math.fsum(((1 - p) * low**moments, p * high**moments))


def exact_risk(estimator: Estimator, distribution: TwoPoints) -> float:
    if not estimator.clip:
        return distribution.mean**2  # the estimate is always 0
    points = distribution.low, distribution.high, distribution.probability
    return float(_risks(estimator, *map(np.array, points)))


def _risks(estimator: Estimator, low: Array, high: Array, probability: Array) -> Array:
    t, rest = estimator.clip, 1 - probability
    clipped_low, clipped_high = (np.minimum(np.maximum(x, -t), t) for x in (low, high))
    clipped = rest * clipped_low + probability * clipped_high
    bias = rest * low + probability * high - clipped
    if estimator.table is None:
        second = rest * clipped_low**2 + probability * clipped_high**2
    else:
        at_low, at_high = (np.interp(y / t, *estimator.curve) for y in (clipped_low, clipped_high))
        second = t**2 * (rest * at_low + probability * at_high)
    spread = second - clipped**2
    if math.isinf(t):
        return np.asarray(spread / estimator.users)
    noise = 0.0
    if estimator.noise:
        noise = estimator.sum_noise.variance * (estimator.step / estimator.users) ** 2
    return np.asarray(bias**2 + spread / estimator.users + noise)


def worst_case(estimator: Estimator) -> tuple[TwoPoints, float]:
    """Return the hardest distribution and the risk there."""
    k, t = estimator.moments, estimator.clip
    if not t:
        return TwoPoints(0.0, 1.0, 1.0), 1.0  # the estimate is 0: the largest mean is hardest
    if math.isinf(t):
        return _hardest(estimator, SIGNS)  # nothing is clipped: the largest spread is hardest
    named, spans = [SIGNS], [(0.0, 0.0)]
    if not math.isinf(k):
        far = max(1.0, k * t / (k - 1))
        named.append(TwoPoints(0.0, far, far**-k))
        # the risk has a maximum where few numbers are clipped, and one near the largest bias
        low = math.log(max(1.0, t))
        spans = [(0.0, max(math.log(4.0), low)), (low, low + math.log(4.0))]
    simple = _hardest(estimator, *named)
    searched = _hardest(estimator, *(_on_grid(estimator, one) for one in _search(estimator, spans)))
    return searched if searched[1] > MIN_GAIN * simple[1] else simple


def _hardest(estimator: Estimator, *distributions: TwoPoints) -> tuple[TwoPoints, float]:
    risks = _risks(estimator, *np.array([astuple(one) for one in distributions]).T)
    return distributions[risks.argmax()], float(risks.max())


def _search(estimator: Estimator, spans: Sequence[tuple[float, float]]) -> list[TwoPoints]:
    """Search over the high point, its share of E|X|^k, and the part of the rest at the low point.

    The log of the high point is in one of the spans; the search has a result for each of them. Each
    coordinate has a grid, which is then refined between the neighbours of the best point.
    """
    whole = np.array([[span, (0.0, 1.0), (-1.0, 1.0)] for span in spans])
    ends, sizes, best = whole, np.array(SIZES), whole[..., 0]
    for _ in range(ZOOMS):
        low, step = ends[..., 0], (ends[..., 1] - ends[..., 0]) / (sizes - 1)
        axes = (
            a[:, None, None, None] + b[:, None, None, None] * grid
            for a, b, grid in zip(low.T, step.T, GRIDS, strict=True)
        )
        risks = _risks(estimator, *_two_points(estimator.moments, *axes))
        index = np.unravel_index(risks.reshape(len(spans), -1).argmax(axis=1), SIZES)
        best = low + step * np.transpose(index)
        ends = np.stack([best - step, best + step], axis=-1).clip(whole[..., :1], whole[..., 1:])
    return [TwoPoints(*map(float, _two_points(estimator.moments, *one))) for one in best]


def _two_points(
    moments: float, log_high: Array, taken: Array, side: Array
) -> tuple[Array, Array, Array]:
    """Return distributions with E|X|^k <= 1; in P_inf, both points are in [-1, 1]."""
    high = np.exp(log_high)
    if math.isinf(moments):
        return side, high, taken
    probability = taken * high**-moments
    left = np.maximum(0.0, 1 - probability * high**moments) / np.maximum(1 - probability, 1e-300)
    low = side * left ** (1 / moments)
    return np.where(probability < 1, low, 0.0), high, probability


def _on_grid(estimator: Estimator, distribution: TwoPoints) -> TwoPoints:
    """Move both points to whole steps of the central sum, toward 0 so that they stay in P_k."""
    if not estimator.noise:
        return distribution
    step = estimator.step
    low, high = (math.trunc(x / step) * step for x in (distribution.low, distribution.high))
    return TwoPoints(low, high, distribution.probability)


def sharpened(estimator: Estimator) -> tuple[Estimator, TwoPoints, float]:
    """Return the estimator with the clip that minimizes its exact risk, and its worst case."""
    distribution, risk = worst_case(estimator)
    if not 0 < estimator.clip < math.inf or math.isinf(estimator.moments):
        return estimator, distribution, risk
    if risk >= estimator.bound * (1 - TIGHT_BOUND):
        return estimator, distribution, risk
    from scipy.optimize import minimize_scalar

    start = math.log(estimator.clip)
    low = max(0.0, start - SEARCH_WIDTH) if start > 0 else start - SEARCH_WIDTH
    best = minimize_scalar(
        lambda log: worst_case(estimator.clipped_at(math.exp(log)))[1],
        bounds=(low, start + SEARCH_WIDTH),
        method="bounded",
        options={"xatol": CLIP_TOLERANCE},
    )
    sharper = estimator.clipped_at(math.exp(float(best.x)))
    found = sharper, *worst_case(sharper)
    return found if found[2] < risk else (estimator, distribution, risk)


# Measured risk


def measured_risk(
    estimator: Estimator, distribution: TwoPoints, repetitions: int, generator: Generator
) -> tuple[float, float]:
    if not estimator.clip:
        return distribution.mean**2, 0.0  # the estimate is always 0
    drawn = strata(GROUPS, max(2, repetitions // GROUPS), generator)
    values, probabilities = report_distribution(estimator, distribution)
    counts = _counts(estimator.users, probabilities, drawn.points, generator)
    total = sum((value * count for value, count in zip(values, counts, strict=True)), np.zeros(1))
    if not estimator.noise:
        return drawn.mean((total / estimator.users - distribution.mean) ** 2)
    moved = estimator.step * discrete_laplace(estimator.sum_noise, drawn.points.shape, generator)
    both = [(total + sign * moved) / estimator.users - distribution.mean for sign in (1, -1)]
    return drawn.mean((both[0] ** 2 + both[1] ** 2) / 2)


def report_distribution(estimator: Estimator, distribution: TwoPoints) -> tuple[Array, Array]:
    """Return the values of a report, ascending, and their probabilities for a random person."""
    clipped = np.clip([distribution.low, distribution.high], -estimator.clip, estimator.clip)
    shares = np.array([1 - distribution.probability, distribution.probability])
    table, clip = estimator.table, estimator.clip
    if table is None:
        return clipped, shares
    values = np.array([float(2 * value / table.steps - 1) * clip for value in table.values])
    return values, shares @ [_row(table, y) for y in clipped / clip]


def _row(table: NumberTable, y: float) -> Array:
    """Return the probabilities of the symbols for y in [-1, 1], rounded at random to the grid."""
    position = (y + 1) / 2 * table.steps
    below = min(int(position), table.steps - 1)
    low, high = (np.array([units / ONE for units in row]) for row in table.rows[below : below + 2])
    return np.asarray(low + (position - below) * (high - low))


def _counts(people: int, probabilities: Array, points: Array, generator: Generator) -> list[Counts]:
    """Return how many reports have each value: strata split them into two halves of the values."""
    half = len(probabilities) // 2
    upper = binomial_quantiles(people, float(probabilities[half:].sum()), points)
    return [
        *_split(people - upper, probabilities[:half], generator),
        *_split(upper, probabilities[half:], generator),
    ]


def _split(people: Counts, probabilities: Array, generator: Generator) -> list[Counts]:
    if len(probabilities) == 1:
        return [people]
    first = generator.binomial(people, min(1.0, probabilities[0] / math.fsum(probabilities)))
    return [first, *_split(people - first, probabilities[1:], generator)]


# Strata


@dataclass(frozen=True)
class Strata:
    """One point in each stratum of each group, as an array of groups by strata."""

    points: Array
    widths: Array  # widths of the strata: the weights of the points within their group

    def mean(self, values: Array) -> tuple[float, float]:
        groups = (values * self.widths).sum(axis=1)
        return float(groups.mean()), float(groups.std(ddof=1) / math.sqrt(len(groups)))


def strata(groups: int, size: int, generator: Generator) -> Strata:
    v = np.arange(size + 1) / size
    edges = v * v * (3 - 2 * v)
    widths = np.diff(edges)
    return Strata(edges[:-1] + widths * generator.random((groups, size)), widths)


def binomial_quantiles(people: int, probability: float, points: Array) -> Counts:
    """Return the least count whose cumulative probability exceeds each point."""
    counts, chances = binomial(people, probability)
    cumulative = np.cumsum(chances)
    index = np.searchsorted(cumulative, points * cumulative[-1], side="right")
    return np.asarray(counts[np.minimum(index, len(counts) - 1)], dtype=np.int64)
