"""Small examples of lectures on privacy that are too short for a study, each as one function.

    price_chances      prices by the exponential mechanism: the best price, without its revenue
    reconstruct        all subset counts within an error E reveal a table up to 4 E people
    disjoint_counts    parallel composition, and why it needs neighbours of different sizes
    largest_errors     the error that no count exceeds: (λ, δ)-usefulness, devices and server

Graphs have no function: hiding all edges of one person (node privacy) takes noise in proportion to
the largest degree, and hiding one edge (edge privacy) is a `bit` for each pair of people. PINQ and
Sage spend ε on queries as `disjoint_counts` does: the largest ε of disjoint parts, and the sum over
parts that overlap (`compose`). Support vector machines and quantile regression have convex losses
of bounded slope, so the bounds of `regression` apply with their slope in place of its own.

Sources: Dinur, Nissim 2003, "Revealing information while preserving privacy", PODS; McSherry,
Talwar 2007, FOCS; McSherry 2009, "Privacy integrated queries", SIGMOD.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.stats import norm

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.central.selection import ExponentialMechanism

Table = tuple[int, ...]


def price_chances(bids: Sequence[int], prices: Sequence[int], epsilon: Epsilon) -> list[Fraction]:
    """Return the probability of each price, in whole cents; one bidder moves revenue by one price.

    >>> [round(float(p), 4) for p in price_chances([10, 10, 10, 31], [10, 11, 30], Epsilon("1"))]
    [0.406, 0.2504, 0.3437]
    """
    revenues = [price * sum(bid >= price for bid in bids) for price in prices]
    mechanism = ExponentialMechanism(epsilon, max(prices))
    weights = mechanism.weights([max(revenues) - revenue for revenue in revenues])
    return [Fraction(weight, sum(weights)) for weight in weights]


def reconstruct(answer: Callable[[Table], float], people: int, error: float) -> Iterator[Table]:
    """Yield the tables of yes and no that agree with an answer about every subset, within `error`.

    A table that differs from the true one has more than 2 E people with yes only in one of both, or
    fewer in each: their own subset has an answer within E of both counts. So at most 4 E differ.
    """
    subsets = np.array(list(product((0, 1), repeat=people)))
    answers = np.array([answer(tuple(subset)) for subset in subsets.tolist()])
    for table in subsets.tolist():
        if (abs(subsets @ table - answers) <= error).all():
            yield tuple(table)


def disjoint_counts(epsilon: Epsilon, noisy: bool = True) -> tuple[float, float]:
    """Return the ε of noisy counts of disjoint parts: a person more or fewer, and one who moves.

    Each count has ε. An additional person is in one part only, so all parts together have ε too. A
    person who moves changes two counts. Without noise each count alone has ε = 0 for neighbours
    of equal size, where it is a constant, and yet all counts together reveal who moved.
    """
    if not noisy:
        return math.inf, math.inf
    noise = DiscreteLaplace(epsilon)
    one = math.log(noise.probability(0) / noise.probability(1))
    return one, 2 * one


def largest_errors(design: SupportDesign, people: int, failure: float) -> tuple[float, float, int]:
    """Return errors of a histogram, in people, that no option exceeds except with this probability.

    On devices by the normal distribution of each option, and by the bound √(2 V ln(2 k / δ)) that
    is often used; on a server exactly, for independent geometric noise on every bin.
    """
    variance, k = people**2 * design.variance(people, 0.0), design.size
    each = -math.expm1(math.log1p(-failure) / k)  # probability that one option exceeds it
    devices = float(norm.isf(failure / (2 * k))) * math.sqrt(variance)
    bound = math.sqrt(2 * variance * math.log(2 * k / failure))
    return devices, bound, DiscreteLaplace(design.epsilon, 2).radius(each)
