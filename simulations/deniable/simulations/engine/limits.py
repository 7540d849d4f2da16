"""Limits of the squared error of a mean of unit vectors, for any number of people.

Each person has one of the unit vectors x. If all are equally frequent, they have mean 0 and equal
variance 1 / d in every direction of R^d. Examples: the sphere, the corners of a cube, the options
of a choice. With the gain m(ε), the largest |E f x| / E f of an f with values in [1, e^ε], no
estimator from n reports has a smaller largest error, over populations, than the largest over h of

    their population    L = 1 / (n m^2 / (1 - h) + J / h^2)
    these people        (1 - g^2) / n + ((1 - g^2) / (1 + h))^2 L

with g = m(ε + ln((1 + h) / (1 - h))); for many people 1 / (n m^2) and (1 / m^2 - 1) / n.

Proof: let the density of x be 1 + <ϑ, x>, where <ϑ, x> is from -h to h, so that the mean is ϑ / d.
The prior of ϑ has information of trace J / h^2:

    any unit vectors     J = 2 d (d + 4)       proportional to (1 - |ϑ|^2 / h^2)^2
    k options            J = 4 π^2 k           cos^2(π ϑ / h) for each option

A report f has information of trace at most m^2 / (1 - h), given all earlier ones. The first line is
van Trees' inequality [1]. For the second, given the reports and ϑ, people are independent, and the
posterior mean μ of each is at most g long. So their mean has the variance (1 - |μ|^2) / n or more,
and the mean of the μ, to be estimated, has a divergence of at least (1 - |μ|^2) / (1 + h).

[1] Gill, Levit 1995, "Applications of the van Trees inequality", Bernoulli 1(1/2).
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
