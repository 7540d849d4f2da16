"""Privacy profiles: the least δ(ε) of a release, and everything that follows from it.

`pages/privacy.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, ndtr, ndtri
from scipy.stats import binom

from deniable.shared.privacy.mechanism import Mechanism

Array = NDArray[np.floating]
Profile = Callable[[float], float]
QUOTIENT_STEP = 1e-5
REFINEMENTS = 6  # of the search for α, each by a factor of 50


def of_table(probabilities: Array) -> Profile:
    """Return the profile of a mechanism: the worst pair of rows, which are answers."""

    def profile(epsilon: float) -> float:
        scaled = np.exp(np.minimum(epsilon, 700)) * probabilities
        return max(float(np.maximum(p - scaled, 0).sum(axis=1).max()) for p in probabilities)

    return profile


def of_mechanism(mechanism: Mechanism) -> Profile:
    answers, symbols = range(mechanism.answers), list(mechanism.encoding.symbols())
    rows = [[float(mechanism.weight(symbol, answer)) for symbol in symbols] for answer in answers]
    return of_table(np.unique(np.array(rows), axis=0))


def reports(epsilon: float, rounds: int = 1) -> Profile:
    """Return the profile of this many randomized responses, the worst ε-private releases."""
    yes = np.arange(rounds + 1)
    return of_table(np.array([binom.pmf(yes, rounds, expit(s * epsilon)) for s in (-1, 1)]))


def majority(epsilon: float, rounds: int) -> Profile:
    """Return the profile of the majority of reports, a coin deciding ties: post-processing."""
    tie = binom.pmf(rounds / 2, rounds, 0.5) * (2 / math.cosh(epsilon / 2)) ** rounds / 2**rounds
    right = float(binom.sf(rounds // 2, rounds, expit(epsilon)) + tie / 2)
    return of_table(np.array([[right, 1 - right], [1 - right, right]]))


def gaussian(mu: float) -> Profile:
    def profile(epsilon: float) -> float:
        far = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))
        return max(0.0, float(ndtr(mu / 2 - epsilon / mu)) - far)

    return profile


def sampled(profile: Profile, rate: float) -> Profile:
    def amplified(epsilon: float) -> float:
        removed = rate * profile(math.log1p(math.expm1(epsilon) / rate))
        left = 1 - (1 - rate) * math.exp(epsilon)
        added = left * profile(epsilon + math.log(rate / left)) if left > 0 else 0.0
        return max(removed, added)

    return amplified


def trade_off(profile: Profile, slopes: Array) -> Callable[[Array], Array]:
    """Return f, as the highest of the tangents for these ε."""
    deltas = np.array([profile(epsilon) for epsilon in slopes.tolist()])
    e = np.exp(np.minimum(slopes, 700))

    def f(alpha: Array) -> Array:
        steep, flat = 1 - deltas - np.outer(alpha, e), (1 - deltas - alpha[:, None]) / e
        return np.asarray(np.maximum(0, np.maximum(steep, flat).max(axis=1)))

    return f


def of_group(profile: Profile, people: int, slopes: Array) -> Profile:
    """Return the profile of a group: 1 + f*(-e^ε), which is largest at one α only."""
    f = trade_off(profile, slopes)

    def grouped(epsilon: float) -> float:
        def gain(alpha: Array) -> Array:
            power = alpha
            for _ in range(people):
                power = 1 - f(power)
            return power - math.exp(min(epsilon, 700)) * alpha

        alpha: Array = np.linspace(0, 1, 101)
        for _ in range(REFINEMENTS):
            best = int(gain(alpha).argmax())
            alpha = np.linspace(alpha[max(best - 1, 0)], alpha[min(best + 1, 100)], 101)
        return max(0.0, float(gain(alpha).max()))

    return grouped


def loss_above(profile: Profile, epsilon: float) -> float:
    """Return P[L > ε]."""
    step, delta = math.exp(epsilon) * math.expm1(QUOTIENT_STEP), profile(epsilon)
    return delta + math.exp(epsilon) * (delta - profile(epsilon + QUOTIENT_STEP)) / step


# Conversions


def gaussian_cover(epsilon: float) -> float:
    """Return the least μ for which every ε-private release is μ-Gaussian private."""
    return -2 * float(ndtri(expit(-epsilon)))


def rounds_limit(epsilon: float, rounds: int) -> float:
    """Return the μ of many reports, by the central limit theorem."""
    return 2 * math.sqrt(rounds) * math.sinh(epsilon / 2)


def blackwell_edge() -> float:
    """Return the ε up to which some test of a report beats all of Gaussian noise with μ = ε."""
    return float(brentq(lambda e: gaussian_cover(e) - e, 1, 10, xtol=1e-12))


def sampled_epsilon(epsilon: float, rate: float) -> float:
    return math.log1p(rate * math.expm1(epsilon))


def classical_deviation(epsilon: float, delta: float, constant: float = 1.25) -> float:
    """Return the classical Gaussian deviation at sensitivity 1, for ε < 1; 1.32 in the notes."""
    return math.sqrt(2 * math.log(constant / delta)) / epsilon
