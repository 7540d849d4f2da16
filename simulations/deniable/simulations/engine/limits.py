"""Limits of the squared error of a mean of unit vectors, for any number of people.

`studies/pages/vector.txt` has the formulas and their proof, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

WIDTHS = np.geomspace(1e-4, 0.9, 30).tolist()  # h


def unit_vector_limits(
    people: int, prior: float, gain: Callable[[float], float], epsilon: float
) -> tuple[float, float]:
    """Return the limits about these people and about their population; `prior` is J."""
    squared, these, population = gain(epsilon) ** 2, [0.0], []
    for h in WIDTHS:
        population.append(1 / (people * squared / (1 - h) + prior / h**2))
        left = max(0.0, 1 - gain(epsilon + math.log((1 + h) / (1 - h))) ** 2)
        these.append(left / people + (left / (1 + h)) ** 2 * population[-1])
    return max(these), max(population)


def unit_vector_columns(
    people: int, dimension: int, gain: Callable[[float], float], epsilon: float, scale: float = 1.0
) -> dict[str, dict[str, float]]:
    """Return the limits of each model, times a factor; without privacy and centrally, gain is 1."""
    prior = ball_prior(dimension)
    these, population = unit_vector_limits(people, prior, gain, epsilon)
    sampled = scale * unit_vector_limits(people, prior, lambda _: 1.0, epsilon)[1]
    others = {model: {"limit_drawn": sampled} for model in ("central", "none")}
    return {"local": {"limit": scale * these, "limit_drawn": scale * population}, **others}


def ball_prior(dimension: int) -> float:
    """Return J for any unit vectors in this dimension."""
    return 2.0 * dimension * (dimension + 4)


def options_prior(options: int) -> float:
    """Return J for the options of a choice."""
    return min(ball_prior(options - 1), 4 * math.pi**2 * options)
