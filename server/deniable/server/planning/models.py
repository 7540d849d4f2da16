"""Half of the 95 % interval of one question, in its own measure, in each of three models.

    local      nobody is trusted: each report is ε-private by itself
    shuffled   a shuffler is trusted to mix the reports of n honest people, so that each may be
               ε₀-private, with the largest ε₀ that leaves (ε, δ) to whoever sees them mixed
    trusted    a server is trusted with the answers, and adds noise to what it publishes

In the first two, people are at the worst place and shares are all alike; a trusted server's noise
is all of its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deniable.server.planning import trusted
from deniable.server.planning.choosing import Asked, choose, undecided
from deniable.server.planning.shuffled import report_epsilon, usual_delta
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.survey.kinds.base import Question

Z95 = 1.96
MOST_SHUFFLED = 10**9  # with more of them ε₀ is larger still


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
    """By the mechanism that such a question has at ε₀, whatever its own is. `coarse` takes ε₀ down
    to a whole number where that is above ε: few tables have to be searched for."""
    delta, epsilon = usual_delta(people), Epsilon(asked["epsilon"])
    alone = report_epsilon(epsilon, min(people, MOST_SHUFFLED), delta)
    if coarse:
        whole = alone.billionths // BILLION * BILLION
        alone = max(epsilon, Epsilon(decimal_text(max(1, whole))))
    question = choose({**undecided(asked), "epsilon": str(alone)}, most_bytes)
    return Shuffled(half_width(question, people), delta, alone)


def trusted_half_width(question: Question, people: int) -> float:
    variance = TRUSTED.of(question.mechanism)(question.mechanism, people)
    return Z95 * math.sqrt(variance) * question.span


def _share(mechanism: Mechanism, people: int) -> float:
    moved = trusted.ADD_OR_DELETE if mechanism.size == 2 else trusted.REPLACE_ONE
    return trusted.share_variance(mechanism.epsilon, people, moved)


def _mean(table: NumberTable, people: int) -> float:
    return trusted.mean_variance(table.epsilon, people)


def _coordinate(design: VectorDesign, people: int) -> float:
    return trusted.coordinate_variance(design.epsilon, people, design.dimension)


# Any: each function takes the family of its key
TRUSTED: FamilyTable[Callable[[Any, int], float]] = FamilyTable(
    {Mechanism: _share, NumberTable: _mean, VectorDesign: _coordinate}
)
