"""What a report costs by a trusted count: the ratio of their variances."""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE


def exact_price(epsilon: Epsilon, people: int) -> Fraction:
    """The variance of randomized response divided by geometric noise's, in whole numbers, from the
    realised ratio a: n / 2."""
    mechanism = RandomizedResponse(epsilon)
    keep, lie = Fraction(mechanism.keep, ONE), Fraction(mechanism.lie, ONE)
    a = keep / lie
    local = keep * lie / (keep - lie) ** 2 / people
    return local / (2 * a / (a - 1) ** 2 / people**2)


def laplace_price(epsilon: float, people: int) -> float:
    return people / 2 * (epsilon / 2 / math.sinh(epsilon / 2)) ** 2


def drawn_price(epsilon: float, share: float) -> float:
    """For the population that people are drawn from, as they grow without end; at shares where
    people do not differ there is no sampling, and the price grows as for these people."""
    if share in (0.0, 1.0):
        return math.inf
    return 1 + 1 / (4 * math.sinh(epsilon / 2) ** 2 * share * (1 - share))
