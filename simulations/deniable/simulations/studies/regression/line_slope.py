"""Slopes of a line, y = θ x + e, x uniform on [-1, 1], e on ±1/2: one, θ = 1/2, or several.

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
from deniable.simulations.studies.bit_reports import Array, estimated_rate
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
MIN_SQUARES = 1e-3  # smallest eigenvalue of a matrix of estimated mean squares
POINTS = 6  # number of points of the Gauss rule for Σx^2
LAPLACE_POINTS = 12  # number of points on each side of a Laplace distribution


def formulas(epsilon: float) -> dict[Estimator, slopes.Formula]:
    one, (a, b) = several_formulas(epsilon, 1), slopes.bit_variances(epsilon, SLOPE * XX, XX)
    best = slopes.Formula((math.sqrt(a) + math.sqrt(b)) ** 2 / XX**2)
    signs = slopes.Formula(1 / math.tanh(epsilon / 2) ** 2)
    gradient = one.pop(GRADIENT)
    return {**one, SUMS: best, HALVES: one[SUMS], GRADIENT: gradient, SIGNS: signs}


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


# Several attributes, in each of which the slope is 1 / (2 p)


def each_slope(p: int) -> float:
    return 1 / (2 * p)


def products(p: int) -> int:
    """Return T, the number of different sums."""
    return p * (p + 1) // 2 + p


def largest_move(p: int) -> float:
    """Return Δ."""
    return p * (p + 2) ** 2 / (2 * (p + 1))


def several_formulas(epsilon: float, p: int) -> dict[Estimator, slopes.Formula]:
    none, c2, t2 = p * ERROR / XX, 1 / math.tanh(epsilon / 2) ** 2, each_slope(p) ** 2
    steep = slopes.Formula(none, small=192 * p * (p + 1) * (p + 2) / epsilon**2)
    noisy = 18 * p * largest_move(p) ** 2 * (1 + p * t2) / epsilon**2
    bits = c2 * (1 + t2 / 4 + (p - 1) * t2) - t2 * (XX**2 + (XX - 0.5) ** 2)
    return {
        NONE: slopes.Formula(none),
        EXPONENTIAL: slopes.Formula(none, 12 * p / epsilon),
        KNG: steep,
        OBJECTIVE: steep,
        NOISY_SUMS: slopes.Formula(none, small=noisy),
        SUMS: slopes.Formula(9 * p * products(p) * bits),
        GRADIENT: slopes.Formula(p**2 * 16 * c2 * S**2),
    }


def several_drawn(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> dict[Estimator, Array]:
    """Return the errors of all slopes, a row for each repetition."""
    epsilon, end = float(response.epsilon), 1 / p
    deviations = np.sqrt(n * np.where(np.eye(p), SQUARE_VARIANCE, XX**2))
    xx = n * XX * np.eye(p) + _mirrored(generator.normal(0, deviations, (times, p, p)))
    root = np.linalg.cholesky(xx)
    normal = math.sqrt(ERROR) * generator.normal(size=(times, p))
    xy = xx.sum(axis=2) * each_slope(p) + np.einsum("tij,tj->ti", root, normal)
    least, scale = _solved(xx, xy), LineCrowd.gradient_sensitivity
    wide = math.sqrt(LineCrowd.loss_sensitivity / epsilon) * generator.normal(size=(times, p))
    steep, push = (_in_cube(2 * scale / epsilon, (times, p), generator) for _ in range(2))
    ridge = p * LineCrowd.ridge(epsilon) * np.eye(p)
    noise = largest_move(p) / epsilon
    sums = xx + _mirrored(generator.laplace(0, noise, (times, p, p)))
    estimates = {
        NONE: least,
        EXPONENTIAL: least + _solved(root.transpose(0, 2, 1), wide),
        KNG: least + _solved(2 * xx, steep),
        OBJECTIVE: _solved(2 * xx + ridge, 2 * xy - push),
        NOISY_SUMS: _solved(_raised(sums / n), (xy + generator.laplace(0, noise, xy.shape)) / n),
        SUMS: _of_products(response, n, p, times, generator),
        GRADIENT: _of_gradients(response, n, p, times, generator),
    }
    return {one: np.clip(theta, -end, end) - each_slope(p) for one, theta in estimates.items()}


def _of_products(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Draw the reports of T groups, each about one product, and divide the sums."""
    size, wide = n // products(p), (times, p)
    xy = 2 * estimated_rate(response, size, (1 + XX * each_slope(p)) / 2, wide, generator) - 1
    rates = np.where(np.eye(p), XX, 0.5)  # a square is from 0 to 1, other products from -1 to 1
    bits = estimated_rate(response, size, rates, (times, p, p), generator)
    return _solved(_raised(_mirrored(np.where(np.eye(p), bits, 2 * bits - 1))), xy)


def _of_gradients(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Search for each slope with the people who report that coordinate of the gradient."""
    goal = slopes.Search(
        lambda theta: (1 + 2 * XX * (each_slope(p) - theta) / STEEPEST) / 2,
        lambda theta: np.full_like(theta, 0.5),
        2 * STEEPEST * S,
    )
    return goal.drawn(response, n // p, times * p, generator).reshape(times, p)


def _mirrored(matrices: Array) -> Array:
    """Return symmetric matrices with the same upper triangles."""
    return np.asarray(np.triu(matrices) + np.triu(matrices, 1).transpose(0, 2, 1))


def _in_cube(scale: float, shape: tuple[int, int], generator: Generator) -> Array:
    """Draw from the density that falls as e^(-|u| / scale) with the largest coordinate |u|."""
    times, p = shape
    return generator.gamma(p + 1, scale, (times, 1)) * generator.uniform(-1, 1, shape)


def _raised(matrices: Array) -> Array:
    """Return the matrices with every eigenvalue at least `MIN_SQUARES`."""
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, MIN_SQUARES)
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _solved(matrices: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
