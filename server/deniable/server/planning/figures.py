"""What a question costs and tells: of the mechanism that a survey would have, and of all others.

`n_variance` is n times the variance that noise and rounding add: of an option's share where shares
are all alike, or of the mean of numbers that all stand at the worst place, with the range as
[-1, 1]. The least that any local mechanism can have is in `least_variance.py`.

A text is an option of as many as there are buckets, of which the final groups' reports tell;
`floor` is the share from which on it is found at all. How close to the limit that is, is not known.

How many direct answers carry as much depends on how people differ: here their answers are spread
evenly, over the options, over the range or over all directions. With σ^2 the variance of one, n
deniable answers are worth n σ^2 / (σ^2 + n_variance), at the worst place.
"""

from __future__ import annotations

import math
from typing import Any

from deniable.server.planning.choosing import Asked, choose, others
from deniable.server.planning.least_variance import least_n_variance
from deniable.server.planning.models import half_width, shuffled_half_width, trusted_half_width
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.survey.kinds.base import Question


def plan(
    asked: Asked, people: int | None, error: float | None, most_bytes: int | None = None
) -> dict[str, Any]:
    """`error` is half of the 95 % interval, in the question's own measure; `most_bytes` what a
    report may take. Any: what JSON holds."""
    question = choose(asked, most_bytes)
    mechanism = question.mechanism
    enough = people if error is None else people_for(question, error)
    count = enough if people is None else people
    assert count is not None, "the verb wants one of both"
    spread = mechanism.n_variance()
    least = least_n_variance(mechanism)
    mixed = shuffled_half_width(asked, count, most_bytes)
    return {
        "kind": question.kind,
        "epsilon": str(question.epsilon),
        "people": count,
        **_facts(question, count),
        "people_for_error": enough,
        "limit_ratio": None if least is None else spread / least,
        "direct_equivalent": direct_equivalent(mechanism, count),
        "central_half_width_95": trusted_half_width(question, count),
        "shuffled_half_width_95": mixed.half_width,
        "shuffled_delta": mixed.delta,
        "shuffled_report_epsilon": str(mixed.epsilon),
        "alternatives": [_facts(other, count) for other in others(asked, question, most_bytes)],
    }


def people_for(question: Question, error: float) -> int:
    """How many it takes until half of the 95 % interval is this small."""
    return max(1, math.ceil((half_width(question, 1) / error) ** 2 * (1 - 1e-12)))


def direct_equivalent(mechanism: Mechanism, people: int) -> int:
    """So many direct answers carry as much as these deniable ones."""
    one = mechanism.answer_variance
    return round(people * one / (one + mechanism.n_variance()))


def _facts(question: Question, people: int) -> dict[str, Any]:
    mechanism = question.mechanism
    return {
        "mechanism": mechanism.name,
        "payload_bytes": mechanism.payload_size,
        "n_variance": mechanism.n_variance(),
        "standard_error": mechanism.predicted_error(people) * question.span,
        "half_width_95": half_width(question, people),
        "leverage": mechanism.leverage,
        **({} if (floor := mechanism.floor(people)) is None else {"floor": floor}),
    }
