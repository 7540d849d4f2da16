"""Lower bounds on the risk of any estimator on P_k, as explicit numbers.

`pages/minimax.txt` has the formulas, limits and sources, under "theory".
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
