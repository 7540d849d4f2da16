"""PrivUnit's reports: directions, likelier by a factor e^ε in a cap around a person's vector.

For v of length one a report is u with <u, v> above a threshold, uniform there, with probability
e q / (1 + (e - 1) q), and else uniform outside, where q is the part of the sphere in the cap and
e = e^ε. So any density is one of two, which differ by the factor e^ε, whatever v is. The threshold
is the one of the largest mean m = E<u, v>; u / m is unbiased.

Cosines are drawn in doubles, from the beta distribution that (1 + <u, v>) / 2 has on a sphere: a
simulation of this distribution. Devices report one of finitely many codewords, `KClosest`.

Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, arXiv:1812.00984.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.caps import best_cap

Array = NDArray[np.float64]


def cap_probability(epsilon: float, part: float) -> float:
    """With which a report is in a cap that is this part of the sphere."""
    e = math.exp(epsilon)
    return e * part / (1 + (e - 1) * part)


def cosines(epsilon: float, dimension: int, times: int, generator: np.random.Generator) -> Array:
    """<u, v> of so many reports."""
    from scipy.special import betaincinv

    _, both = best_cap(dimension, epsilon)  # the cap and the one opposite
    part = both / 2
    inside = generator.random(times) < cap_probability(epsilon, part)
    above = generator.random(times)  # how much of the sphere is closer to v
    above = np.where(inside, part * above, part + (1 - part) * above)
    shape = (dimension - 1) / 2
    return np.asarray(1 - 2 * betaincinv(shape, shape, above))
