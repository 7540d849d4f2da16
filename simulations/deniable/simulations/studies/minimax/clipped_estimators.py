"""Clipped estimators: clip each number, randomize it, average; and their worst-case risks.

`pages/minimax.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import OneBitMean, SplitSign, Ternary
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.engine import custom_mechanisms

Array = NDArray[np.float64]
TABLES: dict[str, type[OneBitMean | Ternary | SplitSign]] = {
    "one-bit": OneBitMean,
    "ternary": Ternary,
    "split-sign": SplitSign,
}
MODELS = dict.fromkeys(TABLES, "local") | {"laplace": "central", "mean": "none"}
MANY_LEVELS = "many-levels"
LEVELS, BEND = 32, 30.0
GRID = 2**20  # the clip is at most this many steps of the central sum's grid, at least half


@dataclass(frozen=True)
class Estimator:
    """Clipped mean for P_k: the second moment of its reports, its noise, and its clip."""

    name: str
    moments: float  # k, or infinity
    users: int
    second: tuple[float, float, float] = (0, 0, 1)  # s0, s1, s2
    noise: float = 0.0  # variance of the noise of the mean, for a clip of 1
    table: NumberTable | None = None
    epsilon: Epsilon | None = None  # ε of the central noise
    clip: float = math.inf

    @property
    def model(self) -> str:
        return model_of(self.name)

    @cached_property
    def curve(self) -> tuple[Array, Array]:
        """The grid's points in [-1, 1], and a report's second moment there; linear in between."""
        assert self.table is not None
        return moment_curve(self.table)

    @property
    def bound(self) -> float:
        """The risk formula above at this clip; 1 where the estimate is always 0."""
        return worst_risk(self, self.clip) if self.clip else 1.0

    @property
    def step(self) -> float:
        return grid_step(self.clip)

    @property
    def sum_noise(self) -> DiscreteLaplace:
        """Noise on the clipped sum, in steps. One person moves the sum by at most two clips."""
        assert self.epsilon is not None
        return DiscreteLaplace(self.epsilon, 2 * round(self.clip / self.step))

    def clipped_at(self, clip: float) -> Estimator:
        """Return this estimator with another clip, in whole steps if there is central noise."""
        return replace(self, clip=whole_clip(clip) if self.noise else clip)


def model_of(name: str) -> str:
    """Return the model of an estimator; other names are tables for devices."""
    return MODELS.get(name, "local")


def moments_value(moments: float) -> int | float | str:
    if math.isinf(moments):
        return "inf"
    return int(moments) if moments.is_integer() else moments


def best_estimator(name: str, moments: float, epsilon: Epsilon, users: int) -> Estimator:
    """Return the named estimator with the clip that minimizes its risk bound."""
    if name == "mean":
        return Estimator(name, moments, users)
    if name == "laplace":
        noise = 8 / (users * float(epsilon)) ** 2
        plain = Estimator(name, moments, users, noise=noise, epsilon=epsilon)
    else:
        table = table_of(name, epsilon)
        plain = Estimator(name, moments, users, second_moments(table), table=table)
    best = plain.clipped_at(_best_clip(plain))
    return replace(best, clip=0.0) if worst_risk(best, best.clip) >= 1 else best


def worst_risk(estimator: Estimator, clip: float) -> float:
    s0, s1, s2 = estimator.second
    if math.isinf(clip):
        return s2 / estimator.users
    spread = (s0 * clip**2 + s1 * clip + s2) / estimator.users
    return worst_bias(estimator.moments, clip) ** 2 + spread + estimator.noise * clip**2


def worst_bias(moments: float, clip: float) -> float:
    """Return the largest bias of clipping in P_k; 0 where nothing exceeds the clip."""
    if math.isinf(moments):
        return 0.0
    k = moments
    return math.exp((k - 1) * math.log((k - 1) / clip) - k * math.log(k))


def grid_step(clip: float) -> float:
    """Return the step of the central sum's grid: a power of two, so that 1 is on the grid."""
    return 2.0 ** math.ceil(math.log2(clip)) / GRID


def whole_clip(clip: float) -> float:
    return round(clip / grid_step(clip)) * grid_step(clip)


def moment_curve(table: NumberTable) -> tuple[Array, Array]:
    values = np.array([float(2 * value / table.steps - 1) for value in table.values])
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    return np.linspace(-1, 1, table.steps + 1), rows @ values**2


def second_moments(table: NumberTable) -> tuple[float, float, float]:
    """Return s0, s1 and s2: the moment at 0, its largest growth from there, and 0."""
    points, moments = moment_curve(table)
    middle = float(np.interp(0.0, points, moments))
    other = points != 0
    return middle, max(0.0, float(((moments - middle)[other] / abs(points[other])).max())), 0.0


@lru_cache(maxsize=64)
def table_of(name: str, epsilon: Epsilon) -> NumberTable:
    if name in TABLES:
        return TABLES[name](epsilon)
    if name == MANY_LEVELS:
        from deniable.server.surveys.optimal_table import MAX_SEARCH_EPSILON, search, whole_table

        best = search(min(float(epsilon), MAX_SEARCH_EPSILON), LEVELS, BEND)
        return whole_table(best, epsilon, LEVELS)
    return custom_mechanisms.number_mechanism(name, epsilon)


def _best_clip(estimator: Estimator) -> float:
    """Return 1 for P_inf, the closed form where s1 = 0, or else the result of a search below it."""
    if math.isinf(estimator.moments):
        return 1.0
    k, (s0, s1, _) = estimator.moments, estimator.second
    spread = s0 / estimator.users + estimator.noise
    closed = ((k - 1) * worst_bias(k, 1.0) ** 2 / spread) ** (1 / (2 * k))
    if not s1:
        return float(closed)
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(
        lambda log: worst_risk(estimator, math.exp(log)),
        bounds=(math.log(closed) - 8, math.log(closed) + 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(np.exp(best.x))
