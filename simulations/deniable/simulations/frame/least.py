"""How much a mechanism's noise adds, and the least that any could add.

`n_variance` is n times the variance that noise and rounding add: of an option's share where shares
are all alike, or of the mean of numbers that all stand at the worst place, with the range as
[-1, 1], or of a whole vector, all coordinates together, when each person's has the length 1. The
least that any local mechanism can have is

    yes or no   e^ε / (e^ε - 1)^2, which randomized response has
    k options   ((k - 1)^2 / T - (k - 1) / k) / k,    T = max over d of
                k d (k - d) (e^ε - 1)^2 / (d e^ε + k - d)^2, for many people
    a number    the optimal table's on its grid alone, without what rounding to it adds
    a vector    1 / m^2 - 1, with m the mean along the vector of a report of the best cap (PrivUnit)

Sources: Ye, Barg 2019, arXiv:1810.07283, for options; the tables' search for numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.privacy.mechanisms.subset_selection import best_subset
from deniable.shared.privacy.shapes import Shape
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.vector_design import VectorDesign

RANGE = 2  # of [-1, 1]


def n_variance(mechanism: Shape) -> float:
    if isinstance(mechanism, VectorDesign):
        return mechanism.whole_error(1) ** 2 - 1
    scale = RANGE if isinstance(mechanism, NumberTable) else 1
    return (scale * mechanism.predicted_error(1)) ** 2


def least_n_variance(mechanism: Shape) -> float | None:
    """What no mechanism is below; None where it is not known closely."""
    if isinstance(mechanism, NumberTable):
        return _least_of_a_number(mechanism.epsilon)
    if isinstance(mechanism, VectorDesign):
        return mechanism.least_error**2 - 1
    e, k = math.exp(float(mechanism.epsilon)), mechanism.options
    d = best_subset(mechanism.epsilon, k)
    told = k * d * (k - d) * (e - 1) ** 2 / (d * e + k - d) ** 2
    return ((k - 1) ** 2 / told - (k - 1) / k) / k


@lru_cache(maxsize=32)
def _least_of_a_number(epsilon: Epsilon) -> float | None:
    from deniable.server.surveys.optimal_table import ENOUGH_EPSILON, optimal_table
    from deniable.server.surveys.table_search import NoTable

    steps = OptimalTable.best_size(epsilon)
    try:
        table = optimal_table(epsilon, steps)
    except NoTable:
        return None
    least = RANGE**2 * max(table.variance(1, point / steps) for point in range(steps + 1))
    return least if float(epsilon) <= ENOUGH_EPSILON else None
