"""The least variance, times n, that noise and rounding can add in any local mechanism.

    yes or no   e^ε / (e^ε - 1)^2, which randomized response has
    k options   ((k - 1)^2 / T - (k - 1) / k) / k for each, where shares are alike, for many people;
                T = max over d of k d (k - d) (e^ε - 1)^2 / (d e^ε + k - d)^2
    a number    the optimal table's on its grid alone, at the worst place, without what rounding to
                the grid adds; the range being [-1, 1]
    a vector    1 / m^2 - 1, all coordinates together, where each person's has the length 1; m is
                the mean along the vector of a report of the best cap (PrivUnit)

T is the most that any report tells of k shares that are all alike: the trace of its information
about them, which is convex in each column of the report's probabilities, so largest where they have
two values. With people who are drawn, (k - 1)^2 / (n T) is the least sum of squared errors.

Sources: Ye, Barg 2019, arXiv:1810.07283, for options; the tables' search for numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import OptimalTable


def least_n_variance(mechanism: Mechanism) -> float | None:
    """Return what no mechanism for this question is below; None where it is not known closely."""
    return LEAST.of(mechanism)(mechanism)


@lru_cache(maxsize=256)
def least_of_a_share(epsilon: float, options: int) -> float:
    """Of each of them: ((k - 1)^2 / T - (k - 1) / k) / k, in a sum without differences."""
    e, k = math.exp(epsilon), options
    return min(
        (d * (d - 1) * e**2 + 2 * d * (k - d) * e + (k - d) * (k - d - 1)) / (d * (k - d))
        for d in range(1, k)
    ) * ((k - 1) / k / math.expm1(epsilon) ** 2)


def told(epsilon: float, options: int) -> float:
    """T."""
    e, k = math.exp(epsilon), options
    return max(k * d * (k - d) * (e - 1) ** 2 / (d * e + k - d) ** 2 for d in range(1, k))


@lru_cache(maxsize=32)
def least_of_a_number(epsilon: Epsilon) -> float | None:
    """None where the search finds no table, or is over before ε is."""
    from deniable.server.surveys.optimal_table import ENOUGH_EPSILON, optimal_table
    from deniable.server.surveys.table_search import NoTable

    steps = OptimalTable.best_size(epsilon)
    try:
        table = optimal_table(epsilon, steps)
    except NoTable:
        return None
    least = RANGE**2 * max(table.variance(1, point / steps) for point in range(steps + 1))
    return least if float(epsilon) <= ENOUGH_EPSILON else None


# Any: each function takes the family of its key
LEAST: FamilyTable[Callable[[Any], float | None]] = FamilyTable(
    {
        Mechanism: lambda _: None,
        SupportDesign: lambda design: least_of_a_share(float(design.epsilon), design.options),
        NumberTable: lambda table: least_of_a_number(table.epsilon),
        VectorDesign: lambda design: design.least_error**2 - 1,
    }
)
