"""Mechanisms of the literature to compare with: reports of a choice, and of a number in [-1, 1].

A choice, by a pure protocol: a report supports one's own option with probability p and each other
one with q. With n people the share f has the variance (f p (1-p) + (1-f) q (1-q)) / (n (p-q)^2).

    DE          k-ary randomized response          p = e / (e + k - 1)     q = 1 / (e + k - 1)
    SUE         unary bits, RAPPOR's one stage     p = h / (h + 1)         q = 1 / (h + 1)
    OUE         unary bits, optimal                p = 1 / 2               q = 1 / (e + 1)
    OLH         a random hash to g options         p = e / (e + g - 1)     q = 1 / g, g = [e + 1]
    Hadamard    one random row of +-1              p = e / (e + 1)         q = 1 / 2

with e = e^ε and h = e^(ε/2). The joint distribution of counts is exact for SUE, OUE and OLH with
random hashes; for DE and Hadamard, that of each count alone is.

A number: Duchi's one bit +-C, C = 1 / tanh(ε/2); PM, with probability h / (h + 1) uniform on an
interval of length C' - 1 around x, else on the rest of [-C', C'], C' = (h + 1) / (h - 1); and HM,
which is PM with probability 1 - 1 / h if ε > .609, else Duchi. These are unbiased. OPM reports a
number in [0, 1] by another one: its density is h on an interval of length 1 / (h + 1) around x,
moved into [0, 1] where it sticks out, and 1 / h elsewhere. It is biased, and has the least absolute
error at the worst x of all mechanisms whose density is constant on finitely many intervals.

Sources: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation", USENIX Security; Wang, Xiao, Yang and others 2019, "Collecting and analyzing
multidimensional data with local differential privacy", ICDE; Acharya, Sun, Zhang 2019, AISTATS;
Zheng, Mishra, Hu 2025, "Optimal piecewise-based mechanism for collecting bounded numerical data
under local differential privacy", PETS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
CHOICES = ("DE", "SUE", "OUE", "OLH", "Hadamard")
NUMBERS = ("Duchi", "PM", "HM")
HYBRID_FROM = 0.609353  # ε from which HM mixes


def supports(name: str, epsilon: float, options: int) -> tuple[float, float]:
    """Return p and q of a protocol for a choice."""
    e, h = math.exp(epsilon), math.exp(epsilon / 2)
    g = round(e + 1)
    return {
        "DE": (e / (e + options - 1), 1 / (e + options - 1)),
        "SUE": (h / (h + 1), 1 / (h + 1)),
        "OUE": (1 / 2, 1 / (e + 1)),
        "OLH": (e / (e + g - 1), 1 / g),
        "Hadamard": (e / (e + 1), 1 / 2),
    }[name]


def choice_variance(name: str, epsilon: float, options: int, share: float = 0.0) -> float:
    """Return n times the variance of an option's share among these people."""
    p, q = supports(name, epsilon, options)
    return (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2


def estimated_shares(
    name: str, epsilon: float, held: Sequence[int], times: int, generator: np.random.Generator
) -> Array:
    """Draw estimates of all shares, one row for each repetition."""
    counts, people = np.asarray(held), sum(held)
    p, q = supports(name, epsilon, len(held))
    size = (times, len(held))
    named = generator.binomial(counts, p, size) + generator.binomial(people - counts, q, size)
    return np.asarray((named / people - q) / (p - q))


def number_variance(name: str, epsilon: float, x: float) -> float:
    h, mixed = math.exp(epsilon / 2), _piecewise_part(name, epsilon)
    piecewise = x * x / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
    return mixed * piecewise + (1 - mixed) * (1 / math.tanh(epsilon / 2) ** 2 - x * x)


def _piecewise_part(name: str, epsilon: float) -> float:
    hybrid = 1 - math.exp(-epsilon / 2) if epsilon > HYBRID_FROM else 0.0
    return {"Duchi": 0.0, "PM": 1.0, "HM": hybrid}[name]


def number_reports(name: str, epsilon: float, x: Array, generator: np.random.Generator) -> Array:
    h, c = math.exp(epsilon / 2), 1 / math.tanh(epsilon / 2)
    duchi = np.where(generator.random(x.shape) < (1 + x / c) / 2, c, -c)
    most = (h + 1) / (h - 1)
    start = (most + 1) / 2 * x - (most - 1) / 2
    near = start + (most - 1) * generator.random(x.shape)
    far = -most + (most + 1) * generator.random(x.shape)
    far = np.where(far < start, far, far + most - 1)
    piecewise = np.where(generator.random(x.shape) < h / (h + 1), near, far)
    mixed = generator.random(x.shape) < _piecewise_part(name, epsilon)
    return np.where(mixed, piecewise, duchi)


def optimal_interval(epsilon: float, x: Array | float) -> tuple[Array, Array]:
    """Return the ends of the interval in which OPM's reports of x are the most likely."""
    width = 1 / (math.exp(epsilon / 2) + 1)
    low = np.clip(np.asarray(x) - width / 2, 0, 1 - width)
    return low, low + width


def optimal_error(epsilon: float, x: float, power: int = 1) -> float:
    """Return the mean of |report - x|^power for one report of x by OPM."""
    h, ends = math.exp(epsilon / 2), np.array([0.0, *optimal_interval(epsilon, x), 1.0]) - x
    parts = np.diff(np.sign(ends) * abs(ends) ** (power + 1)) / (power + 1)
    return float(parts @ [1 / h, h, 1 / h])


def optimal_reports(epsilon: float, x: Array, generator: np.random.Generator) -> Array:
    """Draw one report of each number in [0, 1] by OPM."""
    (low, high), h = optimal_interval(epsilon, x), math.exp(epsilon / 2)
    near = low + (high - low) * generator.random(x.shape)
    far = (1 - (high - low)) * generator.random(x.shape)
    far = np.where(far < low, far, far + high - low)
    return np.where(generator.random(x.shape) < h / (h + 1), near, far)
