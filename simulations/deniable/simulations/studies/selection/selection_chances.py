"""Probabilities of selecting the right one of k options, for each way of asking, and their limits.

`pages/select.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.signal import lfilter
from scipy.special import ndtr

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign
from deniable.simulations.studies.bit_reports import Array, binomial, noise

MAX_RESPONSE_OPTIONS = 4  # beyond, the exact distribution of reports takes too long
MAX_POINTS = 2**21  # of this distribution
REACHES = ((8.0, 41), (5.5, 9))  # deviations and counts; beyond the second, 1e-7 is left out
LIMIT, NOISE_SCALES = 9.0, 40.0  # deviations of a count and scales of noise: less than 1e-17 beyond
MAX_COUNTS = 4_000


def exponential(options: int, epsilon: float, gap: float) -> float:
    return 1 / (1 + (options - 1) * math.exp(-epsilon * gap / 2))


def permute_and_flip(options: int, epsilon: float, gap: float) -> float:
    x = math.exp(-epsilon * gap / 2)
    if x < 1e-12:
        return 1 - (options - 1) * x / 2
    return -math.expm1(options * math.log1p(-x)) / (options * x) if x < 1 else 1 / options


def laplace(options: int, epsilon: float, gap: float) -> float:
    """Return the probability for the largest of scores with Laplace noise of scale 2 / ε.

    With the leader's noisy score at z, in scales, the others are below with probability F(z)^(k-1).
    """
    ahead = epsilon * gap / 2

    def density(z: float) -> float:
        below = math.exp(z) / 2 if z < 0 else 1 - math.exp(-z) / 2
        return math.exp(-abs(z - ahead)) / 2 * below ** (options - 1)

    ends = (-NOISE_SCALES, ahead + NOISE_SCALES)
    return float(quad(density, *ends, points=[0.0, ahead], limit=500, epsabs=1e-13)[0])


def expected_loss(gap: float, options: int, epsilon: float, noise: str) -> float:
    """Return by how much the chosen option is behind, on average, if the leader leads by `gap`."""
    ways = {"laplace": laplace, "gumbel": exponential, "exponential": permute_and_flip}
    return gap * (1 - ways[noise](options, epsilon, gap))


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


def unary(mechanism: SupportDesign, people: int, gap: int) -> float:
    options = mechanism.size
    leader, other = votes(options, people, gap)
    voting = leader + (options - 1) * other
    (start_a, a), (start_b, b) = (_supports(mechanism, held, voting) for held in (leader, other))
    start, end = min(start_a, start_b), max(start_a + len(a), start_b + len(b))
    a, b = (np.pad(p, (at - start, end - at - len(p))) for at, p in ((start_a, a), (start_b, b)))
    return _chance_of_first(a, b, options)


def response(mechanism: SupportDesign, people: int, gap: int) -> float:
    """Return the probability that the leader has the most reports of (k-ary) randomized response.

    The differences of the leader's count to the others have an exact distribution, from their
    characteristic function: a product over people. If its grid would have too many points, counts
    are many, and the differences are nearly normal and exchangeable: with the variance v, the
    covariance c and the mean m, all are positive with probability E Φ((m + √c Z) / √(v - c))^(k-1).
    """
    k = mechanism.size
    leader, other = votes(k, people, gap)
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    rows = np.full((k, k), lie) + (keep - lie) * np.eye(k)
    spread = sum(
        held * (np.diag(row) - np.outer(row, row))
        for held, row in zip([leader, *[other] * (k - 1)], rows, strict=True)
    )
    ahead = np.hstack([np.ones((k - 1, 1)), -np.eye(k - 1)])
    v, *c = (ahead @ spread @ ahead.T)[0].tolist()
    mean = (keep - lie) * (leader - other)
    for reach, room in REACHES:
        size = 2 * math.ceil(reach * math.sqrt(v)) + room
        if size ** (k - 1) <= MAX_POINTS:
            grid = np.arange(size, dtype=float) + round(mean) - size // 2
            return _leads(keep, lie, (leader, other), grid, k - 1)
    z, weights = np.polynomial.hermite_e.hermegauss(80)
    right = ndtr((mean + math.sqrt(c[0]) * z) / math.sqrt(v - c[0])) ** (k - 1)
    return float(weights @ right) / math.sqrt(2 * math.pi)


def _leads(keep: float, lie: float, held: tuple[int, int], grid: Array, others: int) -> float:
    """Return the probability that no difference is negative; a coin decides if some are 0.

    Each difference is on the grid. A report of the leader adds 1 to all, any other takes 1 off one.
    """
    turns = np.ix_(*[np.exp(-2j * np.pi * np.fft.fftfreq(len(grid)))] * others)
    names = [1 / math.prod(turns), *turns]
    every = lie * sum(names)
    logs = [np.log(every + (keep - lie) * name) for name in names]
    chances = np.fft.fftn(np.exp(held[0] * logs[0] + held[1] * sum(logs[1:]))).real / every.size
    ahead = np.ix_(*[np.roll(grid, int(grid[0]))] * others)
    wins = math.prod(one >= 0 for one in ahead) / (1 + sum(one == 0 for one in ahead))
    return float((chances * wins).sum())


def largest(options: int, people: int, right: float, other: float, decay: float = 0.0) -> float:
    """Return the probability that the right condition has the largest count.

    Counts are of `people` people, who say yes to the right condition at the rate `right`, and to
    each other one at the rate `other`. `decay` is y = e^(-ε / 2), or 0 without noise.
    """
    mean, deviation = people * right, math.sqrt(people) / 2
    scale = -1 / math.log(decay) if decay else 0.0
    low = max(-1, math.floor(people * other - LIMIT * deviation) - 1)
    high = math.ceil(mean + LIMIT * deviation + NOISE_SCALES * scale)
    step = math.ceil((high - low) / MAX_COUNTS)
    ends = low + step * np.arange(-(-(high - low) // step) + 1)
    a, b = (np.diff(_binomial_below(ends.astype(float), people, rate)) for rate in (right, other))
    y = math.exp(-step / scale) if scale else 0.0
    return _chance_of_first(a, b, options, y)


def _chance_of_first(a: Array, b: Array, options: int, y: float = 0.0) -> float:
    """Return Σ_c K(c) ((B(c) - y H(c))^k - (B(c) - H(c))^k) / (k H(c))."""
    near_a, near_b, upto = (lfilter([1], [1, -rate], p) for p, rate in ((a, y), (b, y), (b, 1)))
    high, low = np.minimum(upto, 1.0) - y * near_b, np.maximum(np.minimum(upto, 1.0) - near_b, 0.0)
    wide = near_b > 1e-9  # elsewhere the difference loses all digits, and high is near low
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(
            wide,
            (high**options - low**options) / (options * near_b),
            (1 - y) * high ** (options - 1),
        )
    return float(near_a @ ways)


def _binomial_below(ends: Array, people: int, rate: float) -> Array:
    """Return the probability of at most `ends`, by a normal distribution where steps are wide."""
    if ends[1] - ends[0] == 1:
        from scipy.stats import binom

        return np.asarray(binom.cdf(ends, people, rate))
    return np.asarray(ndtr((ends + 0.5 - people * rate) / math.sqrt(people * rate * (1 - rate))))


def fano(options: int, epsilon: float, delta: float, right: float) -> float:
    """Return the least number of devices; the bound is 0 for few options."""
    wanted = right * math.log(options) - math.log(2)
    return max(0.0, 4 * noise(epsilon) * options * wanted / delta**2)


def _supports(mechanism: SupportDesign, votes: int, people: int) -> tuple[int, Array]:
    """Return the first count of reports for an option, and the probabilities from there on."""
    from scipy.signal import fftconvolve

    true, p = binomial(votes, mechanism.keep / ONE)
    false, q = binomial(people - votes, mechanism.lie / ONE)
    both = np.maximum(fftconvolve(p, q), 0.0)
    return int(true[0] + false[0]), np.asarray(both / both.sum())
