"""What no estimator is below, with so many people: van Trees' inequality about one slope.

With a prior cos^2(π v / 2h) / h on slopes up to h away, whose information is π^2 / h^2,

    E (estimate - slope)^2 >= gain^2 / (n sup I + π^2 / h^2)

I being the largest information about v that one person can give, and `gain` how far the slope
moves with v. So nobody's error is below it at every slope so near; for many people the best h is
small, and this is gain^2 / (n I).

Source: Gill, Levit 1995, "Applications of the van Trees inequality", Bernoulli 1(1/2). Reports that
are asked in turn give no more: information adds up, and each one's, given the others, is as above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

WIDTHS = np.geomspace(1e-4, 0.5, 60)


def van_trees(
    people: int,
    information: Callable[[float], float],
    gain: float = 1.0,
    widths: Sequence[float] = tuple(WIDTHS.tolist()),
) -> float:
    """`information` is the largest up to so far away."""
    return max(gain**2 / (people * information(h) + (math.pi / h) ** 2) for h in widths)
