"""What a trusted server's noise adds: the variances of discrete Laplace noise, by formulas.

    one whole number, moved by Δ at most    2 a / (a - 1)^2          a = e^(ε / Δ)
    an option's share of n people           the same / n^2
    the mean of n numbers, of the range     the same / (n steps)^2   Δ = steps, of a public grid
    a coordinate of a mean vector           (d + 1) / (n ε)^2        noise as long as a gamma

n is public: a neighbour is one person with another answer. With a fine grid a mean's variance is
below 2 / (n ε)^2, Laplace's, and near it. The noise itself is drawn in simulations only.

Source: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
STOC, for counts.
"""

from __future__ import annotations

import math

from deniable.shared.privacy.epsilon import Epsilon

ADD_OR_DELETE, REPLACE_ONE = 1, 2  # how far one person moves the counts of options, altogether
FINE = 2**20  # steps


def noise_variance(epsilon: Epsilon, sensitivity: int) -> float:
    decay = -float(epsilon) / sensitivity
    return 2 * math.exp(decay) / math.expm1(decay) ** 2


def share_variance(epsilon: Epsilon, people: int, sensitivity: int) -> float:
    return noise_variance(epsilon, sensitivity) / people**2


def mean_variance(epsilon: Epsilon, people: int, steps: int = FINE) -> float:
    """Of the mean as a share of the range, the grid positions given."""
    return noise_variance(epsilon, steps) / (people * steps) ** 2


def coordinate_variance(epsilon: Epsilon, people: int, dimension: int) -> float:
    return (dimension + 1) / (people * float(epsilon)) ** 2
