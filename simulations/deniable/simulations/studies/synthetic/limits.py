"""What nobody is below, and what BLR guarantees."""

from __future__ import annotations

import math

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.studies.synthetic.attributes import Attributes

SURE = 0.05  # β of BLR


def limit(epsilon: Epsilon, people: Attributes) -> float:
    """n times what no local protocol's mean squared error of a cell is below."""
    noise = 1 / math.sinh(float(epsilon) / 2) ** 2
    return noise * float(np.sqrt(people.weights).sum()) ** 2 / 16


def blr(epsilon: float, attributes: int, people: int) -> float:
    """What no cell is further off, with probability 1 - β: of the best size of set."""
    m = np.unique(np.geomspace(1, 10**7, 4_000).astype(np.int64)).astype(float)
    many = math.log(4 * attributes * (attributes - 1))
    sets = m * attributes * math.log(2) + math.log(1 / SURE)
    return min(1.0, float((np.sqrt(many / (2 * m)) + 2 * sets / (epsilon * people)).min()))
