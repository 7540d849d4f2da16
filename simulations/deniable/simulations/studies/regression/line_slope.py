"""A line's slope: y = θ x + e, x uniform on [-1, 1], e uniform on ±1/2, θ = 1/2.

`pages/regression.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import SUMS_SENSITIVITY, LineCrowd
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.studies.bit_reports import Array
from deniable.simulations.studies.regression import slope_questions as slopes

NONE = Estimator("none", "least-squares", "no privacy", slopes.LOOK[2])
EXPONENTIAL, KNG, OBJECTIVE, NOISY_SUMS, SUMS, GRADIENT, SIGNS = slopes.common_estimators("")
HALVES = Estimator("local", "sums-halves", "devices, sums by halves", slopes.LOOK[8])
TRUSTED = (NONE, EXPONENTIAL, OBJECTIVE, KNG, NOISY_SUMS)
DEVICES = (GRADIENT, HALVES, SUMS, SIGNS)

SLOPE, XX, ERROR = 0.5, 1 / 3, 1 / 12  # θ, E x^2, Var e
S = 1 / (2 * XX)
X_E = 1 / 8  # E|x e|
STEEPEST = 4.0  # the largest gradient
FAR = (8, 16)  # distance to an end, in standard errors: of normal noise, and of Laplace noise
SQUARE_VARIANCE = 1 / 5 - 1 / 9  # variance of one x^2
POINTS = 6  # number of points of the Gauss rule for Σx^2
LAPLACE_POINTS = 12  # number of points on each side of a Laplace distribution


def formulas(epsilon: float) -> dict[Estimator, slopes.Formula]:
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    a, b = slopes.bit_variances(epsilon, SLOPE * XX, XX)
    best = (math.sqrt(a) + math.sqrt(b)) ** 2
    steep = slopes.Formula(ERROR / XX, small=512 * S**2 / epsilon**2)
    return {
        NONE: slopes.Formula(ERROR / XX),
        EXPONENTIAL: slopes.Formula(ERROR / XX, 8 * S / epsilon),
        KNG: steep,
        OBJECTIVE: steep,
        NOISY_SUMS: slopes.Formula(ERROR / XX, small=81 / 8 * (1 + SLOPE**2) / (epsilon * XX) ** 2),
        SUMS: slopes.Formula(best / XX**2),
        HALVES: slopes.Formula(2 * (a + b) / XX**2),
        GRADIENT: slopes.Formula(16 * c2 * S**2),
        SIGNS: slopes.Formula(c2),
    }


def exact(response: RandomizedResponse, people: int) -> dict[Estimator, float]:
    s, weights = sum_of_squares(people)
    errors = {one: float(weights @ error) for one, error in _given(s, float(response.epsilon))}
    least = errors[NONE]

    def is_far(one: Estimator) -> bool:
        """Return whether the nearest end, -1 or 1, is out of reach."""
        noise = FAR[one is not EXPONENTIAL] * math.sqrt(errors[one] - least)
        return one is NONE or noise + FAR[0] * math.sqrt(least) <= 1 - abs(SLOPE)

    sums = ratios(response, people).items()
    return {one: error for one, error in errors.items() if is_far(one)} | {
        one: ratio.mean_square(SLOPE) for one, ratio in sums
    }


def _given(s: Array, epsilon: float) -> list[tuple[Estimator, Array]]:
    """Return mean squared errors given Σx^2, if the ends are out of reach."""
    least, ridge = ERROR / s, LineCrowd.ridge(epsilon)
    noise, weights = laplace_rule()
    scale = SUMS_SENSITIVITY / epsilon
    below = s + scale * noise[:, None]
    sums = ERROR * s + scale**2 * (2 + SLOPE**2 * noise[:, None] ** 2)
    bent = (SLOPE * ridge) ** 2 + 4 * ERROR * s + 2 * LineCrowd.noise_scale(epsilon) ** 2
    return [
        (NONE, least),
        (EXPONENTIAL, least + LineCrowd.loss_sensitivity / (epsilon * s)),
        (KNG, least + 2 * (LineCrowd.gradient_sensitivity / (epsilon * s)) ** 2),
        (OBJECTIVE, bent / (2 * s + ridge) ** 2),
        (NOISY_SUMS, weights @ (sums / below**2)),
    ]


def ratios(response: RandomizedResponse, people: int) -> dict[Estimator, slopes.Ratio]:
    best, half = slopes.best_ratio(response, people, SLOPE * XX, XX), round(people / 2)
    return {SUMS: best, HALVES: replace(best, sizes=(half, people - half))}


def limit(epsilon: float) -> float:
    """Return n times the least error that any local protocol can have, for many people."""
    return (X_E / XX / math.tanh(epsilon / 2)) ** 2


def limits(epsilon: float, people: int) -> dict[str, float]:
    t2 = math.tanh(epsilon / 2) ** 2
    return {"local": slopes.van_trees(people, lambda h: t2 / (1 - t2 * h**2), X_E / XX)}


def crowd(n: int, times: int, generator: Generator) -> LineCrowd:
    """Draw the sums over people, from normal distributions."""
    xx = generator.normal(n * XX, math.sqrt(n * SQUARE_VARIANCE), times)
    return LineCrowd(xx, SLOPE * xx + generator.normal(0, np.sqrt(xx * ERROR)))


def questions(
    response: RandomizedResponse, n: int
) -> dict[Estimator, slopes.Ratio | slopes.Search]:
    return {**ratios(response, n), GRADIENT: BY_GRADIENT, SIGNS: BY_SIGN}


def by_gradient(theta: Array) -> Array:
    """Return the probability that the gradient is rounded to its upper end."""
    return np.asarray((1 + 2 * XX * (SLOPE - theta) / STEEPEST) / 2)


def by_sign(theta: Array) -> Array:
    """Return P(x (y - θ x) > 0) = 1/2 ± E min(|d x|, 1/2), with the sign of d = SLOPE - θ."""
    d = SLOPE - theta
    far = 0.5 - 1 / (8 * np.maximum(np.abs(d), 0.5))
    return np.asarray(0.5 + np.sign(d) * np.where(np.abs(d) <= 0.5, np.abs(d) / 2, far))


BY_GRADIENT = slopes.Search(by_gradient, lambda theta: np.full_like(theta, 0.5), 2 * STEEPEST * S)
BY_SIGN = slopes.Search(by_sign, lambda theta: np.full_like(theta, 0.5), 2.0)


# The distribution of Σx^2


def sum_of_squares(people: int) -> tuple[Array, Array]:
    """Return points of the distribution of Σx^2 and their probabilities.

    The rule has the moments 0, 1, ..., 2 POINTS - 1 of the sum, which are the coefficients of the
    generating function of one x^2, raised to the power of the number of people.
    """
    mean, deviation = people * XX, math.sqrt(people * SQUARE_VARIANCE)
    x, weights = np.polynomial.legendre.leggauss(2 * POINTS)
    orders = np.arange(2 * POINTS)
    scale = np.cumprod(np.maximum(orders, 1.0))  # j!
    one = weights / 2 @ ((x[:, None] ** 2 - XX) / deviation) ** orders / scale
    series = [1.0]
    for j in orders[1:]:
        i = orders[1 : j + 1]
        series.append(float((i * people - j + i) * one[i] @ np.array(series)[j - i]) / j)
    points, chances = _gauss(np.array(series) * scale)
    return mean + deviation * points, chances


def _gauss(moments: Array) -> tuple[Array, Array]:
    """Return the rule that has these moments, from the roots of its orthogonal polynomial."""
    half = len(moments) // 2
    rows = np.arange(half)[:, None] + np.arange(half)
    monic = np.linalg.solve(moments[rows], -moments[half:])
    points = np.sort(np.roots([1.0, *monic[::-1]]).real)
    return points, np.linalg.solve(np.vander(points, increasing=True).T, moments[:half])


@cache
def laplace_rule() -> tuple[Array, Array]:
    """Return points of a Laplace distribution of scale 1 and their probabilities."""
    points, weights = np.polynomial.laguerre.laggauss(LAPLACE_POINTS)
    return np.concatenate([-points, points]), np.concatenate([weights, weights]) / 2
