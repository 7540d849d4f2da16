"""Training of a small real model with DP-SGD: who was admitted to Berkeley in 1973.

`pages/privacy.txt` has the details and sources, under "theory".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from deniable.simulations.studies.composition import sampled_pld

Array = NDArray[np.float64]
ADMISSIONS = {  # (men admitted, men rejected, women admitted, women rejected)
    "A": (512, 313, 89, 19), "B": (353, 207, 17, 8), "C": (120, 205, 202, 391),
    "D": (138, 279, 131, 244), "E": (53, 138, 94, 299), "F": (22, 351, 24, 317),
}  # fmt: skip
LEARNING_RATE, LONGEST = 8.0, math.sqrt(2)  # the length of (1, 1): sex, and one department


class Training(NamedTuple):
    """A model: the log-odds of admission of women against men, its average loss, and its ε."""

    log_odds: float
    loss: float
    epsilon: float


def train(
    sigma: float,
    generator: np.random.Generator,
    departments: bool = True,
    rate: float = 0.1,
    steps: int = 300,
    delta: float = 1e-5,
) -> Training:
    """Train with DP-SGD; σ = 0 trains without noise, on everyone, and has no ε."""
    features, admitted, held = _cells(departments)
    theta = np.zeros(features.shape[1])
    for step in range(steps):
        asked = generator.binomial(held, rate if sigma else 1.0)
        pull = (asked * (expit(features @ theta) - admitted)) @ features
        pull += generator.normal(0, LONGEST * sigma, len(theta))
        pace = LEARNING_RATE / math.sqrt(1 + step / 10)
        theta = theta - pace * pull / (held.sum() * (rate if sigma else 1.0))
    chances = expit((2 * admitted - 1) * (features @ theta))
    loss = float(-held @ np.log(chances) / held.sum())
    epsilon = sampled_pld(1 / sigma, rate, steps, delta) if sigma else math.inf
    return Training(float(theta[0]), loss, epsilon)


def _cells(departments: bool) -> tuple[Array, Array, NDArray[np.int64]]:
    held = np.array(list(ADMISSIONS.values())).ravel()
    woman, admitted = np.tile([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0]], len(ADMISSIONS))
    parts = np.repeat(np.eye(len(ADMISSIONS)), 4, axis=0) if departments else np.ones((24, 1))
    return np.column_stack([woman, parts]), admitted, held
