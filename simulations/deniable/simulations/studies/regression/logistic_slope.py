"""A logistic slope: y is 1 with probability 1 / (1 + e^(-θ x)) and -1 otherwise, θ = 1/2.

`pages/regression.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import LogisticCrowd
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.studies import bit_reports as bits
from deniable.simulations.studies.regression import slope_questions as slopes

NONE = Estimator("none", "logistic-likelihood", "no privacy", slopes.LOOK[2])
EXPONENTIAL, KNG, OBJECTIVE, NOISY_SUMS, SUMS, GRADIENT, SIGNS = slopes.common_estimators(
    "logistic-"
)
AGREEMENT = Estimator("local", "logistic-agreement", "devices, agreement", slopes.LOOK[9])
TRUSTED = (NONE, EXPONENTIAL, OBJECTIVE, KNG, NOISY_SUMS)
DEVICES = (GRADIENT, SUMS, SIGNS, AGREEMENT)

SLOPE = 0.5
X = np.arange(1, 16, 2) / 16  # |x|
PLACES = np.concatenate([-X[::-1], X])  # values of z, and also of x
SHARES = expit(SLOPE * PLACES) / len(X)  # shares of people with each z
XX, Z = float((X**2).mean()), float(SHARES @ PLACES)
RATIO = Z / XX  # m
BIAS = 2 * RATIO - SLOPE  # β
BEND = expit(SLOPE * X) * expit(-SLOPE * X)
INFORMATION = float((X**2 * BEND).mean())  # I
PACE = float((X * BEND).mean())  # D
NEAR = np.linspace(0, 1, 201)  # slopes
GRID = np.linspace(-1, 1, 20_001)
AGREED = expit(GRID[:, None] * X).mean(axis=1)  # the probability a at each θ of the grid


def formulas(epsilon: float) -> dict[Estimator, slopes.Formula]:
    v = bits.noise(epsilon)
    a, b = slopes.bit_variances(epsilon, Z, XX)
    sampled = PLACES - RATIO * PLACES**2
    spread = float(SHARES @ sampled**2 - (SHARES @ sampled) ** 2)
    doubled = 81 / 2 * (1 + RATIO**2) / (epsilon * XX) ** 2
    steep = slopes.Formula(1 / INFORMATION, small=8 / (epsilon * INFORMATION) ** 2)
    agree, sign = agreement(SLOPE), float(sign_level(SLOPE))
    return {
        NONE: slopes.Formula(1 / INFORMATION),
        EXPONENTIAL: slopes.Formula(1 / INFORMATION, 2 / (epsilon * INFORMATION)),
        KNG: steep,
        OBJECTIVE: steep,
        NOISY_SUMS: slopes.Formula(4 * spread / XX**2, small=doubled, bias=BIAS),
        GRADIENT: slopes.Formula((v + expit(SLOPE) * expit(-SLOPE)) / INFORMATION**2),
        SUMS: slopes.Formula(4 * (math.sqrt(a) + math.sqrt(b)) ** 2 / XX**2, bias=BIAS),
        SIGNS: slopes.Formula(float(sign_width(SLOPE)) ** 2 * (v + sign * (1 - sign)) / PACE**2),
        AGREEMENT: slopes.Formula((v + agree * (1 - agree)) / PACE**2),
    }


def limit(epsilon: float) -> float:
    """Return n times the least error that any local protocol can have, for many people."""
    return 1 / report_information(epsilon, SLOPE)


def report_information(epsilon: float, slope: float) -> float:
    """Return the largest information in a report: M+ M-, or that of a true answer if it is less."""
    shares, score = expit(slope * PLACES) / len(X), PLACES * expit(-slope * PLACES)
    reach = _reach(shares, score, epsilon) * _reach(shares, -score, epsilon)
    return min(reach, float(shares @ score**2))


def _reach(shares: bits.Array, score: bits.Array, epsilon: float) -> float:
    """Return M, the maximum of E f s / E f over all f with values in [1, e^ε]."""
    order, more = np.argsort(-score), math.expm1(epsilon)
    gains = more * np.cumsum((shares * score)[order]) / (1 + more * np.cumsum(shares[order]))
    return float(gains.max())


def limits(epsilon: float, people: int) -> dict[str, float]:
    person = (X**2 * expit(np.outer(NEAR, X)) * expit(-np.outer(NEAR, X))).mean(axis=1)
    whole = slopes.van_trees(people, lambda away: _largest(person, away))
    report = _report_informations(epsilon)
    local = slopes.van_trees(people, lambda away: _largest(report, away))
    return {"none": whole, "central": whole, "local": local}


@cache
def _report_informations(epsilon: float) -> bits.Array:
    return np.array([report_information(epsilon, slope) for slope in NEAR.tolist()])


def _largest(informations: bits.Array, away: float) -> float:
    """Return the largest information at slopes in `NEAR`, up to `away` from the true slope."""
    return float(informations[np.abs(NEAR - SLOPE) <= away + NEAR[1] - NEAR[0]].max())


def exact(response: RandomizedResponse, people: int) -> dict[Estimator, float]:
    counts, chances = bits.binomial(people, float(bits.reported_rate(response, agreement(SLOPE))))
    agreed = slope_of(response.unbiased_share(counts / people))
    return {
        SUMS: slopes.best_ratio(response, people, Z, XX, 2).mean_square(SLOPE),
        AGREEMENT: float(chances @ (agreed - SLOPE) ** 2),
    }


def crowd(n: int, times: int, generator: Generator) -> LogisticCrowd:
    return LogisticCrowd(PLACES, generator.multinomial(n, SHARES, times))


class Agreement:
    """One round in which each device reports whether x and y agree."""

    def drawn(
        self, response: RandomizedResponse, n: int, times: int, generator: Generator
    ) -> bits.Array:
        return slope_of(bits.estimated_rate(response, n, agreement(SLOPE), times, generator))


def questions(
    response: RandomizedResponse, n: int
) -> dict[Estimator, slopes.Ratio | slopes.Search | Agreement]:
    sums = slopes.best_ratio(response, n, Z, XX, 2)
    return {GRADIENT: BY_GRADIENT, SUMS: sums, SIGNS: BY_SIGN, AGREEMENT: Agreement()}


def agreement(theta: float) -> float:
    """Return a, the probability that y has the sign of x."""
    return float(expit(theta * X).mean())


def slope_of(share: bits.Array) -> bits.Array:
    """Return the θ at which this share of people agree."""
    return np.interp(share, AGREED, GRID)


def by_gradient(theta: bits.Array) -> bits.Array:
    """Return the probability that the gradient at θ is rounded to its upper end."""
    mean = -(SHARES * PLACES) @ expit(-PLACES[:, None] * theta)
    return np.asarray(expit(theta) - mean)


def sign_width(theta: bits.Array | float) -> bits.Array:
    """Return the width of the range of 1[z > 0] - σ(θ |z|): -max(1/2, σ(θ)) to 1 - min(...)."""
    ends = np.sort([expit(np.asarray(theta)), np.full_like(np.asarray(theta, float), 0.5)], axis=0)
    return np.asarray(1 + ends[1] - ends[0])


def sign_level(theta: bits.Array | float) -> bits.Array:
    ends = np.maximum(expit(np.asarray(theta)), 0.5)
    return np.asarray(ends / sign_width(theta))


def by_sign(theta: bits.Array) -> bits.Array:
    agree = expit(SLOPE * X).mean() - expit(X[:, None] * theta).mean(axis=0)
    return np.asarray(sign_level(theta) + agree / sign_width(theta))


def _tabulated(rate: slopes.At) -> slopes.At:
    """Interpolate between the points of the grid, with an error below 1e-8."""
    values = rate(GRID)
    return lambda theta: np.interp(theta, GRID, values)


BY_GRADIENT = slopes.Search(_tabulated(by_gradient), expit, 1 / INFORMATION)
BY_SIGN = slopes.Search(
    _tabulated(by_sign), _tabulated(sign_level), float(sign_width(SLOPE)) / PACE
)
