"""Accounts of the total cost of T rounds: the ε for which (ε, δ) holds.

    basic        T ε, with δ = 0
    advanced     √(2 T ln(1/δ)) ε + T ε (e^ε - 1)                                             [1]
    rdp          T r(α) + ln(1 - 1/α) - (ln δ + ln α) / (α - 1), least over α                [2]
    clt          as T rounds of Gaussian noise with μ = 2 √T sinh(ε/2): a limit, no guarantee [3]
    exact        the least ε with  δ >= Σ_l C(T, l) [e^((T-l) ε) - e^(E + l ε)]_+ / (1 + e^ε)^T [4]
    gaussian     μ √T for T rounds of Gaussian noise, which is exact                          [3]
    pld          privacy loss distributions, numerical, never too small                       [5]

"exact" and r(α) = ln((e^(α ε) + e^((1-α) ε)) / (1 + e^ε)) / (α - 1) are exact for randomized
response, the worst mechanism with this ε and the mechanism of every local report of one bit.

[1] Dwork, Rothblum, Vadhan 2010. [2] Canonne, Kamath, Steinke 2020, for the conversion.
[3] Dong, Roth, Su 2022. [4] Kairouz, Oh, Viswanath 2017, IEEE Trans. Inf. Theory 63(6).
[5] Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022; computed by the library dp-accounting,
which the field trusts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, log_ndtr
from scipy.stats import norm

FINEST = 1e-4  # of privacy loss distributions: the step of their grid


def basic(epsilon: float, rounds: int, _delta: float) -> float:
    return epsilon * rounds


def advanced(epsilon: float, rounds: int, delta: float) -> float:
    spread = math.sqrt(2 * rounds * math.log(1 / delta)) * epsilon
    return spread + rounds * epsilon * math.expm1(epsilon)


def rdp(epsilon: float, rounds: int, delta: float) -> float:
    def renyi(order: float) -> float:
        both = np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0, epsilon)
        return rounds * float(both) / (order - 1)

    return _converted(renyi, delta)


def clt(epsilon: float, rounds: int, delta: float) -> float:
    return gaussian(2 * math.sinh(epsilon / 2), rounds, delta)


def exact(epsilon: float, rounds: int, delta: float) -> float:
    lies = np.arange(rounds + 1)
    ways = gammaln(rounds + 1) - gammaln(lies + 1) - gammaln(rounds - lies + 1)
    true = ways + (rounds - lies) * epsilon - rounds * np.logaddexp(0, epsilon)
    false = ways + lies * epsilon - rounds * np.logaddexp(0, epsilon)

    def left(total: float) -> float:
        above = np.minimum(0.0, total + false - true)  # a negative term adds nothing
        return math.fsum(np.exp(true) * -np.expm1(above)) - delta

    return _root(left, rounds * epsilon)


def gaussian(mu: float, rounds: int, delta: float) -> float:
    """Return the ε of `rounds` rounds; `mu` is sensitivity / standard deviation in one round."""
    mu *= math.sqrt(rounds)

    def left(total: float) -> float:
        far = math.exp(total + log_ndtr(-total / mu - mu / 2))
        return float(norm.cdf(mu / 2 - total / mu)) - far - delta

    return _root(left, mu * mu / 2 + mu * 10)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the μ of the least Gaussian noise that is (ε, δ) in one round."""
    return float(brentq(lambda mu: gaussian(mu, 1, delta) - epsilon, 1e-6, 50 + 10 * epsilon))


def sampled_pld(mu: float, rate: float, rounds: int, delta: float) -> float:
    """Return the ε of sampled rounds; a neighbour has one person more or fewer."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    one = from_gaussian_mechanism(1 / mu, sampling_prob=rate, value_discretization_interval=FINEST)
    return float(one.self_compose(rounds).get_epsilon_for_delta(delta))


def sampled_rdp(mu: float, rate: float, rounds: int, delta: float) -> float:
    """Return the same by the moments accountant at whole orders, exact for removal."""
    orders = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(65, 1024, 40).astype(int)]))

    def renyi(order: int) -> float:
        k = np.arange(order + 1)
        ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        terms = (
            ways + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) * mu**2 / 2
        )
        return rounds * float(np.logaddexp.reduce(terms)) / (order - 1)

    return min(_convert(renyi(int(order)), int(order), delta) for order in orders)


def _converted(renyi: Callable[[float], float], delta: float) -> float:
    """Return the least ε over all orders."""
    best = minimize_scalar(
        lambda log: _convert(renyi(1 + math.exp(log)), 1 + math.exp(log), delta),
        bounds=(-12, 12),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(best.fun)


def _convert(divergence: float, order: float, delta: float) -> float:
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _root(left: Callable[[float], float], most: float) -> float:
    """Return the ε at which δ is reached, at least 0."""
    if left(0.0) <= 0:
        return 0.0
    return float(brentq(left, 0.0, most, xtol=1e-12)) if left(most) < 0 else most
