"""Lower bounds on the risk of any estimator on P_k, as explicit numbers.

X is ±u^(-1/k) with probability u, otherwise 0: E|X|^k = 1, and its mean is u^(1 - 1/k) times that
of the sign. With r = 2 - 2 / k, for any u, and all bounds for any n, ε and k:

Without privacy   (1)  1 / (1 + √n)^2, the minimax risk of the mean of n answers of +1 or -1 [1].
Locally, also with sequential interaction
   (2)  a report of X is a function of Y, which is 0 with probability 1 - η, and otherwise the sign
        by randomized response at ℓ:   w = 1 + u (e^ε - 1),  ℓ = ln w,  η = (1 + w) / (1 + e^ε).
        For two equally likely means, with all signs + or all -:
            risk >= u^r ∫ g(ω)^n / cosh(π ω / 2) dω over ω > 0,
            g = 1 - ((√w - 1)^2 + 4 √w sin^2(ω ℓ / 4)) / (1 + e^ε)
   (3)  van Trees' inequality with Y's information and a cosine prior within h of 0, τ = tanh(ℓ/2):
            risk >= u^r / (n η τ^2 / (1 - τ^2 h^2) + π^2 / h^2) for any h
Centrally
   (4)  if the curator knows who is not 0, all + and all - are N replacements apart, N binomial:
            risk >= 4 u^r Σ_N P(N) R_N,  t_j = 1 / (1 + e^((N - 2j) ε)),
            R_N = t_0^2 + Σ_{j<N} e^(-jε) (t_(j+1)^2 - t_j^2) / (1 + e^ε)
        is the least Bayes risk of distinguishing 0 from 1 at the ends of N replacements.
(1) holds in every model. The limit is the largest of these bounds over a grid of u and h.

(2): the posterior odds are e^(S ℓ) for the sum S of n erased signs, and the Bayes risk is the sum
of √(f+ f-)(S) / cosh(S ℓ / 2), where √(f+ f-) is the distribution of a symmetric walk times a
constant to the power n; 1 / cosh y is the integral of cos(ω y) / cosh(π ω / 2).
(4): the trade-off between the two errors of any ε-DP test of inputs N replacements apart is above a
piecewise linear function with the knots (e^(-jε), e^(-(N-1-j)ε)) / (1 + e^ε) [2].

[1] Hodges, Lehmann 1950, "Some problems in minimax point estimation", Annals of Mathematical
    Statistics 21(2): the constant-risk estimate of a binomial probability.
[2] Dong, Roth, Su 2022, "Gaussian differential privacy", JRSS B 84(1), section 2.5.
The rates follow Duchi, Jordan, Wainwright 2018, and Barber, Duchi 2014.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FINENESS = 240  # grid points for u and for h; any number gives a valid bound
PANELS = (0.0, 0.05, 0.3, 1.0, 3.0, 8.0, 24.0)  # values of ω; beyond, 1 / cosh is < 1e-16
NODES = 32  # number of points in each panel
MAX_CHAIN = 2_000  # replacements; longer chains could only raise the bound


@cache
def lower_bound(model: str, moments: float, epsilon: float, people: int) -> float:
    exponent, bounds = 2 - 2 / moments, [1 / (1 + math.sqrt(people)) ** 2]
    if model == "local":
        u = _shares(epsilon, people)
        bounds.append(float(np.max(u[:, 0] ** exponent * sign_risks(u, epsilon, people))))
        bounds.append(float(np.max(u**exponent / tree_information(u, epsilon, people))))
    elif model == "central":
        u = np.minimum(1.0, np.geomspace(0.02, 30, FINENESS) / (people * epsilon))[:, None]
        risks = chain_risks(epsilon)
        chances = replacements(len(risks) - 1, people, u)
        bounds.append(float(np.max(4 * u[:, 0] ** exponent * (chances @ risks))))
    return max(bounds)


def replacements(most: int, people: int, share: Array) -> Array:
    """Return P(N) for N = 0, ..., most, a row for each of a column of shares."""
    from scipy.special import xlog1py, xlogy

    counts = np.arange(most + 1)
    left = np.maximum(people - counts, 0)
    with np.errstate(divide="ignore"):
        ways = np.cumsum(np.log(np.append(1, left[:-1] / counts[1:])))
    return np.asarray(np.exp(ways + xlogy(counts, share) + xlog1py(left, -share)))


def sign_risks(u: Array, epsilon: float, people: int) -> Array:
    """Return the Bayes risk of the sign's mean in (2), for a column of u."""
    root, loss, _ = _erased(u, epsilon)
    omega, weights = _frequencies()
    decrease = (root - 1) ** 2 + 4 * root * np.sin(omega * loss / 4) ** 2
    g = 1 - decrease / (1 + math.exp(epsilon))
    power = np.exp(people * np.log(np.maximum(np.abs(g), 1e-300)))
    if people % 2:
        power = np.copysign(power, g)
    return np.asarray(power @ weights)


def tree_information(u: Array, epsilon: float, people: int) -> Array:
    """Return the denominator of (3), for a column of u and a row of h."""
    _, loss, erased = _erased(u, epsilon)
    tau, h = np.tanh(loss / 2), np.geomspace(1e-6, 1, FINENESS)
    information = people * erased * tau**2 / (1 - (tau * h) ** 2)
    return np.asarray(information + (np.pi / h) ** 2)


@cache
def chain_risks(epsilon: float) -> Array:
    """Return R_0, R_1, ... of (4), except for a negligible tail."""
    from scipy.special import expit

    most = min(MAX_CHAIN, math.ceil(60 / epsilon))
    risks = []
    for n in range(most + 1):
        squares = expit((2 * np.arange(n + 1) - n) * epsilon) ** 2
        weights = np.exp(-epsilon * np.arange(n)) / (1 + math.exp(epsilon))
        risks.append(squares[0] + weights @ np.diff(squares))
    return np.array(risks)


def _shares(epsilon: float, people: int) -> Array:
    """Return a column of values of u, mostly around n u^2 J = 1, where the bounds are largest."""
    information = math.expm1(epsilon) ** 2 / (2 * (math.exp(epsilon) + 1))
    scale = 1 / math.sqrt(people * information)
    return np.append(np.minimum(1.0, np.geomspace(0.02, 50, FINENESS) * scale), 1.0)[:, None]


def _erased(u: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """Return √w, ℓ and η."""
    w = 1 + u * math.expm1(epsilon)
    return np.sqrt(w), np.log(w), (1 + w) / (1 + math.exp(epsilon))


@cache
def _frequencies() -> tuple[Array, Array]:
    """Return ω and Gauss-Legendre weights times 1 / cosh(π ω / 2), in each panel."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    starts, ends = np.array(PANELS[:-1])[:, None], np.array(PANELS[1:])[:, None]
    omega = ((starts + ends) / 2 + (ends - starts) / 2 * nodes).ravel()
    scaled = ((ends - starts) / 2 * weights).ravel()
    return omega, scaled / np.cosh(np.pi * omega / 2)
