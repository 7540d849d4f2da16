"""Line with p attributes, y = <θ, x> + e: trusted servers and devices that estimate all p slopes.

x is uniform on [-1, 1]^p, e on ±1/2, and every slope is 1 / (2 p). Slopes are clipped to ±1 / p, so
that <θ, x> is from -1 to 1, and losses and gradients have the ranges that they have for one slope.
n times the sum of the squared errors, to first order, with C = 1 / tanh(ε / 2) and t = 1 / (2 p):

    none       least squares             p / 4
    central    exponential mechanism     12 p / ε                            more
    central    KNG, or objective         192 p (p + 1) (p + 2) / (ε^2 n)     more
    central    noisy sums                18 p Δ^2 (1 + p t^2) / (ε^2 n)      more
    local      sums                      9 p T (C^2 (1 + t^2 / 4 + (p - 1) t^2) - t^2 (1/9 + 1/36))
    local      gradients                 36 p^2 C^2

A device reports one of T = p (p + 1) / 2 + p products, or one coordinate of the gradient. The
largest coordinate measures a gradient, so the noise of KNG and of objective perturbation is r u,
with u uniform in [-1, 1]^p and r from a gamma distribution of shape p + 1. One person moves the log
determinant of the curvature by at most ε / 2 if Λ = 2 p / (e^(ε/2) - 1), and all sums together by
at most Δ = p (p + 2)^2 / (2 (p + 1)). Proof: let z = (x, y) become w, with |z - w| / 2 = a and
|z + w| / 2 <= 1 - a in each coordinate. Then |z_i z_j - w_i w_j| <= 2 (a_i (1 - a_j) + a_j (1 -
a_i)), whose sum is largest if y stays and all other a are (p + 2) / (2 (p + 1)).

Sums over people are drawn from normal distributions. Draws of the trusted mechanisms are clipped,
which is exact where the ends are out of reach.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import LineCrowd
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.studies.bit_reports import Array, estimated_rate
from deniable.simulations.studies.regression.line_slope import (
    ERROR,
    EXPONENTIAL,
    GRADIENT,
    KNG,
    NOISY_SUMS,
    NONE,
    OBJECTIVE,
    SQUARE_VARIANCE,
    STEEPEST,
    SUMS,
    XX,
    S,
)
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
    none, c2, t2 = p * ERROR / XX, 1 / math.tanh(epsilon / 2) ** 2, slope(p) ** 2
    steep = Formula(none, small=192 * p * (p + 1) * (p + 2) / epsilon**2)
    noisy = 18 * p * largest_move(p) ** 2 * (1 + p * t2) / epsilon**2
    bits = c2 * (1 + t2 / 4 + (p - 1) * t2) - t2 * (XX**2 + (XX - 0.5) ** 2)
    return {
        NONE: Formula(none),
        EXPONENTIAL: Formula(none, 12 * p / epsilon),
        KNG: steep,
        OBJECTIVE: steep,
        NOISY_SUMS: Formula(none, small=noisy),
        SUMS: Formula(9 * p * products(p) * bits),
        GRADIENT: Formula(p**2 * 16 * c2 * S**2),
    }


def drawn(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> dict[Estimator, Array]:
    """Return the errors of all slopes, a row for each repetition."""
    epsilon, end = float(response.epsilon), 1 / p
    deviations = np.sqrt(n * np.where(np.eye(p), SQUARE_VARIANCE, XX**2))
    xx = n * XX * np.eye(p) + _mirrored(generator.normal(0, deviations, (times, p, p)))
    root = np.linalg.cholesky(xx)
    normal = math.sqrt(ERROR) * generator.normal(size=(times, p))
    xy = xx.sum(axis=2) * slope(p) + np.einsum("tij,tj->ti", root, normal)
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
    return {one: np.clip(slopes, -end, end) - slope(p) for one, slopes in estimates.items()}


def _of_products(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Draw the reports of T groups, each about one product, and divide the sums."""
    size, wide = n // products(p), (times, p)
    xy = 2 * estimated_rate(response, size, (1 + XX * slope(p)) / 2, wide, generator) - 1
    rates = np.where(np.eye(p), XX, 0.5)  # a square is from 0 to 1, other products from -1 to 1
    bits = estimated_rate(response, size, rates, (times, p, p), generator)
    return _solved(_raised(_mirrored(np.where(np.eye(p), bits, 2 * bits - 1))), xy)


def _of_gradients(
    response: RandomizedResponse, n: int, p: int, times: int, generator: Generator
) -> Array:
    """Search for each slope with the people who report that coordinate of the gradient."""
    goal = Search(
        lambda theta: (1 + 2 * XX * (slope(p) - theta) / STEEPEST) / 2,
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
