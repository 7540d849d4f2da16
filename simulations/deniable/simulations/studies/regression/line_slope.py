"""A line's slope: y = θ x + e, x uniform on [-1, 1], e uniform on ±1/2, θ = 1/2.

n times the mean squared error, to first order, with C = 1 / tanh(ε / 2) and S = 1 / (2 E x^2):

    none       least squares                     Var e / E x^2
    central    exponential mechanism             8 S / ε                        and that of none
    central    KNG, or objective perturbation    512 S^2 / (ε^2 n)              and that of none
    central    noisy sums of x^2 and x y         (81/8) (1 + θ^2) / (ε E x^2)^2 / n    and none's
    local      sums, by two groups               (A / w + B / (1 - w)) / (E x^2)^2
    local      gradients, one bit each           16 C^2 S^2
    local      signs, one bit each               C^2, as E|x| f(0) = 1/2

A = C^2 - (θ E x^2)^2 and B = θ^2 (C^2 / 4 - (E x^2 - 1/2)^2) are the variances of one bit for x y
and for x^2; a share w of the people reports the first, the best being √A / (√A + √B). A search asks
for gradients 2 x (y - θ x), rounded at random to ±4, or for the signs of x (y - θ x). Signs find
the θ at which residuals have the median 0, which is the slope here, as errors are symmetric. All
are bits, randomized, and as private as those of devices.

Exact errors: given Σx^2 = s, every trusted estimate, and that without privacy, has a known mean
square, as long as the ends -1 and 1 are out of reach (`FAR`), and s has a known distribution. A
Gauss rule with `POINTS` points gives E f(s) exactly for every polynomial f of degree below twice
that, from cumulants, which add up over people; its error for 1 / s with a thousand people is below
1e-14 [1]. Two groups' sums have an exact distribution as well, with the ends. No exact error of a
search is known.

Limit, local: for many people (E|x e| / E x^2)^2 C^2 / n, in general by `van_trees`. Under densities
changed by 1 + v sign(x e) the slope of least squares moves by v E|x e| / E x^2, and a report has
the information t^2 / (1 - t^2 v^2) about v, t = 1 / C, as randomized response does. None is known
for a curator: uniform errors have sharp ends, from which a line can be found better than by least
squares.

[1] Golub, Welsch 1969, "Calculation of Gauss quadrature rules", Math. Comp. 23(106).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central import linear_regression as central
from deniable.simulations.engine.comparison import Series, look
from deniable.simulations.studies.regression.slope_questions import (
    Array,
    Bit,
    Known,
    Ratio,
    known,
    search,
    van_trees,
)

NONE = Series("none", "least-squares", "no privacy", look(2))
EXPONENTIAL = Series("central", "exponential", "trusted, exponential mechanism", look(1))
KNG = Series("central", "kng", "trusted, KNG", look(3))
OBJECTIVE = Series("central", "objective", "trusted, objective perturbation", look(4))
NOISY_SUMS = Series("central", "noisy-sums", "trusted, noisy sums", look(5))
SUMS = Series("local", "sums", "devices, sums", look(0))
HALVES = Series("local", "sums-halves", "devices, sums by halves", look(3))
GRADIENT = Series("local", "gradient", "devices, gradients", look(4))
SIGNS = Series("local", "signs", "devices, signs", look(5))
TRUSTED = (NONE, EXPONENTIAL, OBJECTIVE, KNG, NOISY_SUMS)
DEVICES = (GRADIENT, HALVES, SUMS, SIGNS)
SERIES = (*TRUSTED, *DEVICES)

SLOPE, XX, ERROR = 0.5, 1 / 3, 1 / 12  # θ, E x^2, Var e
S = 1 / (2 * XX)
X_E = 1 / 8  # E|x e|
STEEPEST = 4.0  # of a gradient
FAR = (8, 16)  # standard errors to the nearest end, of normal noise and of Laplace's
SQUARE_VARIANCE = 1 / 5 - 1 / 9  # of one x^2
POINTS = 6  # of a Gauss rule for Σx^2
LAPLACE_POINTS = 12  # on each side of a Laplace distribution


def formulas(epsilon: float) -> dict[Series, tuple[float, float | None, float | None]]:
    """Return n times the error, then n times and n^2 times what noise adds to it."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    a, b = parts(epsilon)
    best = (math.sqrt(a) + math.sqrt(b)) ** 2
    steep = 512 * S**2 / epsilon**2
    return {
        NONE: (ERROR / XX, None, None),
        EXPONENTIAL: (ERROR / XX, 8 * S / epsilon, None),
        KNG: (ERROR / XX, None, steep),
        OBJECTIVE: (ERROR / XX, None, steep),
        NOISY_SUMS: (ERROR / XX, None, 81 / 8 * (1 + SLOPE**2) / (epsilon * XX) ** 2),
        SUMS: (best / XX**2, None, None),
        HALVES: (2 * (a + b) / XX**2, None, None),
        GRADIENT: (16 * c2 * S**2, None, None),
        SIGNS: (c2, None, None),
    }


def parts(epsilon: float) -> tuple[float, float]:
    """Return A and B."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    return c2 - (SLOPE * XX) ** 2, SLOPE**2 * (c2 / 4 - (XX - 0.5) ** 2)


def known_errors(response: RandomizedResponse, people: int) -> dict[Series, Known]:
    epsilon, errors = float(response.epsilon), exact(response, people)
    least = van_trees(people, lambda h: _information(epsilon, h), X_E / XX)
    return {
        series: known(
            people,
            formula,
            errors.get(series),
            least if series.model == "local" else None,
            noisy=series.model == "central",
        )
        for series, formula in formulas(epsilon).items()
    }


def exact(response: RandomizedResponse, people: int) -> dict[Series, float]:
    """Return the mean squared errors that are known exactly."""
    epsilon = float(response.epsilon)
    s, weights = sum_of_squares(people)
    errors = {series: float(weights @ error) for series, error in _given(s, epsilon).items()}
    reach = {series: errors[series] - errors[NONE] for series in errors}
    near = 1 - abs(SLOPE)
    return {
        **{
            series: error
            for series, error in errors.items()
            if series is NONE
            or FAR[series is not EXPONENTIAL] * math.sqrt(reach[series])
            + FAR[0] * math.sqrt(errors[NONE]) <= near
        },
        **{one: ratio.mean_square(SLOPE) for one, ratio in ratios(response, people).items()},
    }  # fmt: skip


def _given(s: Array, epsilon: float) -> Mapping[Series, Array]:
    """Return mean squared errors given Σx^2, without ends."""
    least = ERROR / s
    ridge, push = (
        central.regularizer(epsilon),
        central.GRADIENT_SENSITIVITY / (central.NOISE_SHARE * epsilon),
    )
    noise, scale = laplace_rule(), central.SUMS_SENSITIVITY / epsilon
    below = np.array([s + scale * value for value in noise[0]])
    sums = ERROR * s + scale**2 * (2 + SLOPE**2 * noise[0][:, None] ** 2)
    return {
        NONE: least,
        EXPONENTIAL: least + central.LOSS_SENSITIVITY / (epsilon * s),
        KNG: least + 2 * (central.GRADIENT_SENSITIVITY / (epsilon * s)) ** 2,
        OBJECTIVE: ((SLOPE * ridge) ** 2 + 4 * ERROR * s + 2 * push**2) / (2 * s + ridge) ** 2,
        NOISY_SUMS: noise[1] @ (sums / below**2),
    }


def ratios(response: RandomizedResponse, people: int) -> dict[Series, Ratio]:
    a, b = (math.sqrt(part) for part in parts(float(response.epsilon)))
    bits = ((1 + SLOPE * XX) / 2, XX)
    firsts = {SUMS: round(people * a / (a + b)), HALVES: round(people / 2)}
    return {one: Ratio(response, (first, people - first), bits) for one, first in firsts.items()}


def limit(epsilon: float) -> float:
    """Return n times the least error of any local protocol, for many people."""
    return (X_E / XX / math.tanh(epsilon / 2)) ** 2


def _information(epsilon: float, tilt: float) -> float:
    """Return the information of one report about v, up to this `tilt`."""
    t2 = math.tanh(epsilon / 2) ** 2
    return t2 / (1 - t2 * tilt**2)


def drawn(
    response: RandomizedResponse, n: int, times: int, generator: Generator
) -> dict[Series, Array]:
    """Return estimates; sums over people are drawn from normal distributions."""
    epsilon = float(response.epsilon)
    xx = generator.normal(n * XX, math.sqrt(n * SQUARE_VARIANCE), times)
    people = central.Sums(xx, SLOPE * xx + generator.normal(0, np.sqrt(xx * ERROR)))
    return {
        NONE: people.slope,
        EXPONENTIAL: central.exponential(people, epsilon, generator),
        KNG: central.kng(people, epsilon, generator),
        OBJECTIVE: central.objective(people, epsilon, generator),
        NOISY_SUMS: central.noisy_sums(people, epsilon, generator),
        **{one: ratio.drawn(times, generator) for one, ratio in ratios(response, n).items()},
        GRADIENT: search(response, n, times, BY_GRADIENT, generator),
        SIGNS: search(response, n, times, BY_SIGN, generator),
    }


def by_gradient(theta: Array) -> Array:
    """Return the probability that the gradient is rounded to its upper end."""
    return np.asarray((1 + 2 * XX * (SLOPE - theta) / STEEPEST) / 2)


def by_sign(theta: Array) -> Array:
    """Return P(x (y - θ x) > 0) = 1/2 ± E min(|d x|, 1/2), with the sign of d = SLOPE - θ."""
    d = SLOPE - theta
    far = 0.5 - 1 / (8 * np.maximum(np.abs(d), 0.5))
    return np.asarray(0.5 + np.sign(d) * np.where(np.abs(d) <= 0.5, np.abs(d) / 2, far))


def _half(theta: Array) -> Array:
    return np.full_like(theta, 0.5)


BY_GRADIENT = Bit(by_gradient, _half, 2 * STEEPEST * S)
BY_SIGN = Bit(by_sign, _half, 2.0)


# The distribution of Σx^2


def sum_of_squares(people: int) -> tuple[Array, Array]:
    """Return points of the distribution of Σx^2 and their probabilities."""
    mean, deviation = people / 3, math.sqrt(people * SQUARE_VARIANCE)
    cumulants = [0.0, 0.0, 1.0]
    cumulants += [people * c / deviation**j for j, c in enumerate(_cumulants()[3:], 3)]
    points, weights = _gauss(_moments(cumulants))
    return mean + deviation * points, weights


@cache
def laplace_rule() -> tuple[Array, Array]:
    """Return points of a Laplace distribution of scale 1 and their probabilities."""
    points, weights = np.polynomial.laguerre.laggauss(LAPLACE_POINTS)
    return np.concatenate([-points, points]), np.concatenate([weights, weights]) / 2


@cache
def _cumulants() -> list[float]:
    """Return the cumulants of x^2, from E x^(2j) = 1 / (2j + 1)."""
    raw = [1 / (2 * j + 1) for j in range(2 * POINTS)]
    values = [0.0]
    for j in range(1, 2 * POINTS):
        lower = (math.comb(j - 1, i - 1) * values[i] * raw[j - i] for i in range(1, j))
        values.append(raw[j] - sum(lower))
    return values


def _moments(cumulants: list[float]) -> list[float]:
    values = [1.0]
    for j in range(1, len(cumulants)):
        values.append(
            sum(math.comb(j - 1, i - 1) * cumulants[i] * values[j - i] for i in range(1, j + 1))
        )
    return values


def _gauss(moments: list[float]) -> tuple[Array, Array]:
    """Return the rule that has the moments 0, 1, ..., 2 POINTS - 1."""
    size = POINTS + 1
    even = [*moments, 0.0]  # the last moment changes an unused part of the factor
    hankel = np.array([[even[i + j] for j in range(size)] for i in range(size)])
    hankel[-1, -1] = 1e6  # any number large enough
    factor = np.linalg.cholesky(hankel).T
    diagonal = np.diag(factor)
    above = np.diag(factor, 1)
    ratio = np.concatenate([[0.0], above / diagonal[:-1]])
    jacobi = np.diag(np.diff(ratio))
    off_diagonal = diagonal[1:-1] / diagonal[:-2]
    jacobi += np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    points, vectors = np.linalg.eigh(jacobi)
    return points, vectors[0] ** 2
