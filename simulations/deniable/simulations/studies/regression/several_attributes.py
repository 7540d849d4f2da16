"""Line with p attributes, y = <θ, x> + e: trusted servers and devices that estimate all p slopes.

`pages/regression.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import LineCrowd
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.studies.bit_reports import Array, estimated_rate
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression.slope_questions import Formula, Search

MIN_SQUARES = 1e-3  # smallest eigenvalue of a matrix of estimated mean squares


def slope(p: int) -> float:
    return 1 / (2 * p)


def products(p: int) -> int:
    """Return T, the number of different sums."""
    return p * (p + 1) // 2 + p


def largest_move(p: int) -> float:
    """Return Δ."""
    return p * (p + 2) ** 2 / (2 * (p + 1))


def formulas(epsilon: float, p: int) -> dict[Estimator, Formula]:
    none, c2, t2 = p * line.ERROR / line.XX, 1 / math.tanh(epsilon / 2) ** 2, slope(p) ** 2
    steep = Formula(none, small=192 * p * (p + 1) * (p + 2) / epsilon**2)
    noisy = 18 * p * largest_move(p) ** 2 * (1 + p * t2) / epsilon**2
    bits = c2 * (1 + t2 / 4 + (p - 1) * t2) - t2 * (line.XX**2 + (line.XX - 0.5) ** 2)
    return {
        line.NONE: Formula(none),
        line.EXPONENTIAL: Formula(none, 12 * p / epsilon),
        line.KNG: steep,
        line.OBJECTIVE: steep,
        line.NOISY_SUMS: Formula(none, small=noisy),
        line.SUMS: Formula(9 * p * products(p) * bits),
        line.GRADIENT: Formula(p**2 * 16 * c2 * line.S**2),
    }


def drawn(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> dict[Estimator, Array]:
    """Return the errors of all slopes, a row for each repetition."""
    epsilon, end = float(response.epsilon), 1 / p
    deviations = np.sqrt(n * np.where(np.eye(p), line.SQUARE_VARIANCE, line.XX**2))
    xx = n * line.XX * np.eye(p) + _mirrored(generator.normal(0, deviations, (times, p, p)))
    root = np.linalg.cholesky(xx)
    normal = math.sqrt(line.ERROR) * generator.normal(size=(times, p))
    xy = xx.sum(axis=2) * slope(p) + np.einsum("tij,tj->ti", root, normal)
    least, scale = _solved(xx, xy), LineCrowd.gradient_sensitivity
    wide = math.sqrt(LineCrowd.loss_sensitivity / epsilon) * generator.normal(size=(times, p))
    steep, push = (_in_cube(2 * scale / epsilon, (times, p), generator) for _ in range(2))
    ridge = p * LineCrowd.ridge(epsilon) * np.eye(p)
    noise = largest_move(p) / epsilon
    sums = xx + _mirrored(generator.laplace(0, noise, (times, p, p)))
    estimates = {
        line.NONE: least,
        line.EXPONENTIAL: least + _solved(root.transpose(0, 2, 1), wide),
        line.KNG: least + _solved(2 * xx, steep),
        line.OBJECTIVE: _solved(2 * xx + ridge, 2 * xy - push),
        line.NOISY_SUMS: _solved(
            _raised(sums / n), (xy + generator.laplace(0, noise, xy.shape)) / n
        ),
        line.SUMS: _of_products(response, n, p, times, generator),
        line.GRADIENT: _of_gradients(response, n, p, times, generator),
    }
    return {one: np.clip(slopes, -end, end) - slope(p) for one, slopes in estimates.items()}


def _of_products(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Draw the reports of T groups, each about one product, and divide the sums."""
    size, wide = n // products(p), (times, p)
    xy = 2 * estimated_rate(response, size, (1 + line.XX * slope(p)) / 2, wide, generator) - 1
    rates = np.where(
        np.eye(p), line.XX, 0.5
    )  # a square is from 0 to 1, other products from -1 to 1
    bits = estimated_rate(response, size, rates, (times, p, p), generator)
    return _solved(_raised(_mirrored(np.where(np.eye(p), bits, 2 * bits - 1))), xy)


def _of_gradients(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Search for each slope with the people who report that coordinate of the gradient."""
    goal = Search(
        lambda theta: (1 + 2 * line.XX * (slope(p) - theta) / line.STEEPEST) / 2,
        lambda theta: np.full_like(theta, 0.5),
        2 * line.STEEPEST * line.S,
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
