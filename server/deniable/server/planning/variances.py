"""Variances in three models, by formulas, and the least that any local mechanism can have.

A trusted server adds discrete Laplace noise, whose variances are:

    one whole number, moved by Δ at most    2 a / (a - 1)^2          a = e^(ε / Δ)
    an option's share of n people           the same / n^2
    the mean of n numbers, of the range     the same / (n steps)^2   Δ = steps, of a public grid
    a coordinate of a mean vector           (d + 1) / (n ε)^2        noise as long as a gamma

n is public: a neighbour is one person with another answer. With a fine grid a mean's variance is
below 2 / (n ε)^2, Laplace's, and near it. The noise itself is drawn in simulations only.

Source: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
STOC, for counts.

The least variance, times n, that noise and rounding can add in any local mechanism:

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

The half widths of the 95 % interval are in the question's own measure, in each of three models:

    local      no trust is needed: each report is ε-private alone
    shuffled   a shuffler is trusted to mix the reports of n honest people, so that each may be
               ε₀-private, with the largest ε₀ that leaves (ε, δ) to those who see them mixed
    trusted    a server is trusted with the answers, and adds noise to what it publishes

In the first two, people are at the worst place and shares are all alike; a trusted server's noise
is all of its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from deniable.server.estimation.amplification import report_epsilon, usual_delta
from deniable.server.planning.planned_question import Asked, choose, undecided
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.survey.kinds.base import Question

ADD_OR_DELETE, REPLACE_ONE = 1, 2  # how far one person moves the counts of options, altogether
FINE = 2**20  # steps


def noise_variance(epsilon: Epsilon, sensitivity: int) -> float:
    decay = -float(epsilon) / sensitivity
    return 2 * math.exp(decay) / math.expm1(decay) ** 2


def share_variance(epsilon: Epsilon, people: int, sensitivity: int) -> float:
    return noise_variance(epsilon, sensitivity) / people**2


def mean_variance(epsilon: Epsilon, people: int, steps: int = FINE) -> float:
    """Return the variance of the mean as a share of the range, for given grid positions."""
    return noise_variance(epsilon, steps) / (people * steps) ** 2


def coordinate_variance(epsilon: Epsilon, people: int, dimension: int) -> float:
    return (dimension + 1) / (people * float(epsilon)) ** 2


def least_n_variance(mechanism: Mechanism) -> float | None:
    """Return what no mechanism for this question is below; None where it is not known closely."""
    return LEAST.of(mechanism)(mechanism)


@lru_cache(maxsize=256)
def least_of_a_share(epsilon: float, options: int) -> float:
    """Return the least variance of each share, as a sum without differences.

    It is ((k - 1)^2 / T - (k - 1) / k) / k.
    """
    e, k = math.exp(epsilon), options
    return min(
        (d * (d - 1) * e**2 + 2 * d * (k - d) * e + (k - d) * (k - d - 1)) / (d * (k - d))
        for d in range(1, k)
    ) * ((k - 1) / k / math.expm1(epsilon) ** 2)


def largest_information(epsilon: float, options: int) -> float:
    """Return T, the largest information of one report about shares that are alike."""
    e, k = math.exp(epsilon), options
    return max(k * d * (k - d) * (e - 1) ** 2 / (d * e + k - d) ** 2 for d in range(1, k))


@lru_cache(maxsize=32)
def least_of_a_number(epsilon: Epsilon) -> float | None:
    """Return the least variance of a mean, if the search finds a table at this ε."""
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


Z95 = 1.96
MAX_SHUFFLED_PEOPLE = 10**9  # with more of them ε₀ is larger still


@dataclass(frozen=True)
class Shuffled:
    half_width: float
    delta: float
    epsilon: Epsilon  # ε₀


def half_width(question: Question, people: int) -> float:
    return Z95 * question.mechanism.predicted_error(people) * question.span


def shuffled_half_width(
    asked: Asked, people: int, most_bytes: int | None = None, *, coarse: bool = False
) -> Shuffled:
    """Return the half width with the mechanism that such a question has at ε₀, whatever its own is.

    `coarse` rounds ε₀ down to a whole number where that is above ε, so that few tables have to be
    searched for.
    """
    delta, epsilon = usual_delta(people), Epsilon(asked["epsilon"])
    alone = report_epsilon(epsilon, min(people, MAX_SHUFFLED_PEOPLE), delta)
    if coarse:
        whole = alone.billionths // BILLION * BILLION
        alone = max(epsilon, Epsilon(decimal_text(max(1, whole))))
    question = choose({**undecided(asked), "epsilon": str(alone)}, most_bytes)
    return Shuffled(half_width(question, people), delta, alone)


def trusted_half_width(question: Question, people: int) -> float:
    variance = TRUSTED.of(question.mechanism)(question.mechanism, people)
    return Z95 * math.sqrt(variance) * question.span


def _share(mechanism: Mechanism, people: int) -> float:
    moved = ADD_OR_DELETE if mechanism.size == 2 else REPLACE_ONE
    return share_variance(mechanism.epsilon, people, moved)


def _mean(table: NumberTable, people: int) -> float:
    return mean_variance(table.epsilon, people)


def _coordinate(design: VectorDesign, people: int) -> float:
    return coordinate_variance(design.epsilon, people, design.dimension)


# Any: each function takes the family of its key
TRUSTED: FamilyTable[Callable[[Any, int], float]] = FamilyTable(
    {Mechanism: _share, NumberTable: _mean, VectorDesign: _coordinate}
)
