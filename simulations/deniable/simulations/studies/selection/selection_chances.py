"""Probabilities of selecting the right one of k options, for each way of asking, and their limits.

Votes: each person has one vote, and the leader is ahead of each other option by g. With
x = e^(-ε g / 2)

    exponential mechanism    1 / (1 + (k - 1) x)                  also the largest with Gumbel noise
    permute and flip         (1 - (1 - x)^k) / (k x)                                            [1]
    unary on devices         Σ_c a(c) (B(c)^k - B(c - 1)^k) / (k b(c))

where a and b are the probabilities of c reports for the leader and for another option, and B the
sum of b; a coin decides a tie. A curator that is right with probability 1 - err needs at least
g = ln((k - 1) (1 - err) / err) / ε: leaders are g people apart, so each other option is selected at
least e^(-ε g) as often (packing).

Conditions: each person has k values of +1 or -1. One of them has the mean δ, all others 0.

    none, devices    normal, with deviation s = c √(m / n), and s1 with c^2 - δ^2 for the right one:
                     c = 1, m = 1 without privacy; c = 1 / tanh(ε / 2), m = k on devices, which
                     answer one drawn condition by randomized response
    trusted          the same counts with Gumbel noise of scale 2 / ε: the exponential mechanism

Devices need at least n = 4 V k ((1 - err) ln k - ln 2) / δ^2, V = e^ε / (e^ε - 1)^2. It follows
from Fano's inequality and a report's information about all k hypotheses jointly [2], also for
sequential interaction.

[1] McKenna, Sheldon 2020, "Permute-and-flip", NeurIPS.
[2] Duchi, Jordan, Wainwright 2018, JASA 113(521); for one round, Ullman 2018, arXiv:1802.02638.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import Unary
from deniable.simulations.studies.bit_reports import Array, binomial, noise

NODES, LIMIT = 4_001, 9.0  # grid of a normal distribution; less than 1e-18 lies beyond it
LEAST = 1e-300


def exponential(options: int, epsilon: float, gap: float) -> float:
    return 1 / (1 + (options - 1) * math.exp(-epsilon * gap / 2))


def permute_and_flip(options: int, epsilon: float, gap: float) -> float:
    x = math.exp(-epsilon * gap / 2)
    if x < 1e-12:
        return 1 - (options - 1) * x / 2
    return -math.expm1(options * math.log1p(-x)) / (options * x) if x < 1 else 1 / options


def packing(options: int, epsilon: float, right: float) -> float:
    return math.log((options - 1) * right / (1 - right)) / epsilon


def votes(options: int, people: int, gap: int) -> tuple[int, int]:
    """Return the votes of the leader, and the equal number of votes of each other option.

    Up to `options` - 1 people are left over.

    >>> votes(4, 103, 20)
    (40, 20)
    """
    other = (people - gap) // options
    return other + gap, other


def unary(options: int, epsilon: Epsilon, people: int, gap: int) -> float:
    mechanism = Unary(epsilon, options)
    leader, other = votes(options, people, gap)
    voting = leader + (options - 1) * other
    start_a, a = _supports(mechanism, leader, voting)
    start_b, b = _supports(mechanism, other, voting)
    upto = np.concatenate([[0.0], np.minimum(1.0, np.cumsum(b))])
    counts = start_a + np.arange(len(a)) - start_b  # indices into b
    above = np.clip(counts + 1, 0, len(b))
    below = np.clip(counts, 0, len(b))
    tied = np.where((counts >= 0) & (counts < len(b)), b[np.clip(counts, 0, len(b) - 1)], 0.0)
    high, low = upto[above], upto[below]
    # Σ_j high^j low^(k-1-j) / k is (high^k - low^k) / (k (high - low)), which loses all digits
    # where high and low are near: there it is high^(k-1)
    far = tied > 1e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(
            far, (high**options - low**options) / (options * tied), high ** (options - 1)
        )
    return float(a @ ways)


def normal(options: int, people: float, delta: float, spread: float, asked: int) -> float:
    """Return the probability for counts with spread c, if each person gets one of `asked`."""
    s = spread * math.sqrt(asked / people)
    s1 = math.sqrt((spread**2 - delta**2) * asked / people)
    x, weights = _normal_nodes()
    return float(weights @ np.exp((options - 1) * log_ndtr((delta + x * s1) / s)))


def trusted(options: int, people: float, delta: float, epsilon: float) -> float:
    """Return the probability that the right condition has the largest noisy count.

    The distribution function of a noisy count is an average of exp(-e^((count - x) / scale)) over
    counts; the integral is over the right condition's noisy count.
    """
    scale = 2 / epsilon
    s, s1 = math.sqrt(people) / 2, math.sqrt(people * (1 - delta**2)) / 2
    u, weights = _normal_nodes(121)
    mean = people * delta / 2
    x = np.linspace(-LIMIT * s - 6 * scale, mean + LIMIT * s + 40 * scale, 1_501)
    other = np.exp(-np.exp(np.minimum((s * u - x[:, None]) / scale, 700.0))) @ weights
    right = np.exp(-np.exp(np.minimum((mean + s1 * u - x[:, None]) / scale, 700.0))) @ weights
    others = np.exp((options - 1) * np.log(np.maximum(other, LEAST)))
    return float(np.sum(np.diff(right) * (others[1:] + others[:-1]) / 2))


def fano(options: int, epsilon: float, delta: float, right: float) -> float:
    """Return the least number of devices; the bound is 0 for few options."""
    wanted = right * math.log(options) - math.log(2)
    return max(0.0, 4 * noise(epsilon) * options * wanted / delta**2)


def _supports(mechanism: Unary, votes: int, people: int) -> tuple[int, Array]:
    """Return the first count of reports for an option, and the probabilities from there on."""
    from scipy.signal import fftconvolve

    true, p = binomial(votes, mechanism.keep / ONE)
    false, q = binomial(people - votes, mechanism.lie / ONE)
    both = np.maximum(fftconvolve(p, q), 0.0)
    return int(true[0] + false[0]), np.asarray(both / both.sum())


def _normal_nodes(count: int = NODES) -> tuple[Array, Array]:
    x = np.linspace(-LIMIT, LIMIT, count)
    density = np.exp(-(x**2) / 2)
    return x, np.asarray(density / density.sum())
