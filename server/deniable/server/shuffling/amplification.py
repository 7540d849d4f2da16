"""Privacy amplification by shuffling: the (ε, δ) of one report among others.

n people report with an ε₀-private randomizer, and only the multiset of their reports is seen. An
observer who knows all answers but one can distinguish two values of that answer no better than P
from Q:

    P = (A + D, C - A + 1 - D),  Q = (A + 1 - D, C - A + D)
    C ~ Bin(n - 1, 2 / (e^ε₀ + 1)),  A ~ Bin(C, 1/2),  D ~ Bern(q),  q = e^ε₀ / (e^ε₀ + 1)

so δ(ε) is the hockey-stick divergence of P and Q. Given C = c, P(x) - e^ε Q(x) is positive for x
above s = ⌊(c + 1) b / (a + b)⌋, with a = q - e^ε (1 - q) and b = e^ε q - (1 - q), so

    δ(ε) = Σ_c P[C = c] max(0, a P[A ≥ s] - b P[A > s])

This bound holds for every randomizer [1]. For binary randomized response it equals the bound of the
privacy blanket, the best known [2]. It assumes that the shuffler and n people are honest: people
who forge or reveal their reports do not help to hide others.

The count of n shuffled randomized responses reveals less: the others' reports are not uniform, so
all of them hide one answer, not only those that ignore theirs. If m of the others hold a yes, an
observer distinguishes P = S + Bern(q) from Q = S + Bern(1 - q), where S = Bin(m, q) +
Bin(n - 1 - m, 1 - q). The largest δ is where nearly all others hold the same answer, or anywhere if
they are few: all m are tried for few people, and for more people the first few and a grid.

Conversely, ε₀ may grow with n while each person keeps (ε, δ); bisection finds the largest ε₀.
Without the shuffler, or among dishonest people, a report guarantees only ε₀.

[1] Feldman, McMillan, Talwar 2023, "Stronger privacy amplification by shuffling for Rényi and
    approximate differential privacy", SODA.
[2] Balle, Bell, Gascón, Nissim 2019, "The privacy blanket of the shuffle model", CRYPTO.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.epsilon import BILLION, MAX_EPSILON, Epsilon, decimal_text

Array = npt.NDArray[np.float64]

TAIL = 1e-9  # relative to δ: probability of C omitted on either side, and added to δ
PRECISION = 1e-7  # relative error of ε, which is rounded to the private side
COUNT_TAIL = 1e-19
# Numbers of others who hold a yes: the first ones, and a grid that includes all for few people
FIRST_ANSWERS, GRID, GRID_PEOPLE = 8, 64, 5_000
SMALLEST_DELTA = 1e-300  # avoids the logarithm of 0
DELTA = 1e-6
STEP = BILLION // 10_000  # step of ε₀, in billionths


def shuffled_delta(local_epsilon: float, people: int, epsilon: float) -> float:
    """Return the least δ, to 1e-18, for which a report among `people` is (ε, δ)-private."""
    return _divergence(local_epsilon, people, 5e-19)(epsilon)


def shuffled_epsilon(local_epsilon: float, people: int, delta: float) -> float:
    """Return the least ε, rounded up, for which a report among `people` is (ε, δ)-private.

    It never exceeds the ε of an unshuffled report.

    >>> round(shuffled_epsilon(1.0, 1_000, 1e-6), 6)
    0.148671
    """
    from scipy.optimize import brentq

    if people < 2:
        return local_epsilon
    divergence = _divergence(local_epsilon, people, TAIL * delta)
    end = local_epsilon * (1 - PRECISION)

    def excess(epsilon: float) -> float:
        return math.log(max(divergence(epsilon), SMALLEST_DELTA) / delta)

    if excess(end) > 0:
        return local_epsilon
    if excess(0.0) <= 0:
        return 0.0
    root = float(brentq(excess, 0.0, end, rtol=PRECISION, xtol=PRECISION * local_epsilon / people))
    while excess(root) > 0:  # δ is still too large
        root *= 1 + PRECISION
    return min(root, local_epsilon)


def count_delta(local_epsilon: float, people: int, epsilon: float) -> float:
    """Return the δ of one of `people` randomized responses of which only the count is seen."""
    odds, others, factor = math.exp(local_epsilon), people - 1, math.exp(epsilon)
    keep, lie, largest = odds / (odds + 1), 1 / (odds + 1), 0.0
    tried = {*range(min(others, FIRST_ANSWERS) + 1)}
    if people <= GRID_PEOPLE:
        tried |= {others * part // (2 * GRID) for part in range(GRID + 1)}
    for yes in tried:  # by symmetry, more of them change nothing
        _, of_yes = _binomial(yes, keep, COUNT_TAIL)
        _, of_no = _binomial(others - yes, lie, COUNT_TAIL)
        law = np.convolve(of_yes, of_no)
        one, other = (
            np.append(without * law, 0) + np.append(0, with_one * law)
            for without, with_one in ((lie, keep), (keep, lie))
        )
        for first, second in ((one, other), (other, one)):
            largest = max(largest, float(np.maximum(first - factor * second, 0).sum()))
    return largest + 4 * COUNT_TAIL


def _divergence(local_epsilon: float, people: int, tail: float) -> Callable[[float], float]:
    """Return δ as a function of ε."""
    from scipy.special import bdtrc

    odds = math.exp(local_epsilon)
    q, (c, probability) = odds / (odds + 1), _binomial(people - 1, 2 / (odds + 1), tail)
    whole = c.astype(np.int64)

    def at_least(s: Array) -> Array:
        """Return P[A ≥ s | C = c]."""
        inside = bdtrc(np.clip(s - 1, 0, c), whole, 0.5)
        return np.where(s <= 0, 1.0, np.where(s > c, 0.0, inside))

    def delta(epsilon: float) -> float:
        factor = math.exp(epsilon)
        a, b = q - factor * (1 - q), factor * q - (1 - q)
        if a <= 0:
            return 0.0
        s = np.floor((c + 1) * (b / (a + b)))
        share = np.maximum(0.0, a * at_least(s) - b * at_least(s + 1))
        return float(np.dot(probability, share)) + 2 * tail

    return delta


def _binomial(trials: int, p: float, tail: float) -> tuple[Array, Array]:
    """Return counts and their probabilities, omitting at most `tail` on either side (Bernstein).

    The probabilities come from the ratios of neighbours, so that no large logarithms cancel.
    """
    bound, variance = -math.log(tail), trials * p * (1 - p)
    width = bound / 3 + math.sqrt(bound * bound / 9 + 2 * variance * bound)
    first, last = max(0, int(trials * p - width)), min(trials, int(trials * p + width) + 1)
    counts = np.arange(first, last + 1, dtype=np.float64)
    steps = np.log((trials - counts[:-1]) / (counts[:-1] + 1)) + math.log(p / (1 - p))
    logarithms = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, weights / weights.sum()


@lru_cache(maxsize=256)
def report_epsilon(
    epsilon: Epsilon,
    people: int,
    delta: float = DELTA,
    delta_of: Callable[[float, int, float], float] = shuffled_delta,
) -> Epsilon:
    """Return the largest ε₀ for which n shuffled reports are (ε, δ)-private.

    The result is rounded down to four decimals. It is at least ε and at most a survey's maximum.
    `delta_of` is `count_delta` if only a count of randomized responses is seen.

    >>> report_epsilon(Epsilon("0.1"), 1_000), report_epsilon(Epsilon("0.1"), 1_000_000)
    (Epsilon('0.7328'), Epsilon('5.9444'))
    """
    low, high = epsilon.billionths // STEP, MAX_EPSILON * BILLION // STEP + 1
    while high - low > 1:  # δ grows with ε₀
        middle = (low + high) // 2
        if delta_of(middle * STEP / BILLION, people, float(epsilon)) <= delta:
            low = middle
        else:
            high = middle
    return Epsilon(decimal_text(max(epsilon.billionths, low * STEP)))


def usual_delta(people: int) -> float:
    """Return the default δ: one in a million, or 0.01 / people if that is less."""
    return min(DELTA, 1 / (100 * people))
