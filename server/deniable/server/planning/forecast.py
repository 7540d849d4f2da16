"""Forecast for a question: by the mechanism that a survey would have, and by all others.

`n_variance` is n times the variance that noise and rounding add: of an option's share where shares
are all alike, or of the mean of numbers that all stand at the worst place, with the range as
[-1, 1]. The least that any local mechanism can have is in `variances.py`.

A text is an option of as many as there are buckets, of which the final groups' reports tell;
`floor` is the share from which on it is found at all. How close to the limit that is, is not known.

How many direct answers carry as much depends on how people differ: here their answers are spread
evenly, over the options, over the range or over all directions. With σ^2 the variance of one, n
deniable answers are worth n σ^2 / (σ^2 + n_variance), at the worst place.

Two sentences sum it up: how exact, for how many people; and how many direct answers tell as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from deniable.server.planning.planned_question import Asked, choose, others
from deniable.server.planning.variances import (
    half_width,
    least_n_variance,
    shuffled_half_width,
    trusted_half_width,
)
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.survey.kinds.base import Question


def plan(
    asked: Asked, people: int | None, error: float | None, most_bytes: int | None = None
) -> dict[str, Any]:
    """Return the forecast for a number of people, or for an error.

    The error is half of the 95 % interval, in the question's own measure. `most_bytes` limits the
    report. Any: JSON values.
    """
    question = choose(asked, most_bytes)
    mechanism = question.mechanism
    enough = people if error is None else people_for(question, error)
    count = enough if people is None else people
    assert count is not None, "the verb requires one of the two"
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
    """Return how many people are needed for half of the 95 % interval to be this small."""
    return max(1, math.ceil((half_width(question, 1) / error) ** 2 * (1 - 1e-12)))


def direct_equivalent(mechanism: Mechanism, people: int) -> int:
    """Return how many answers asked openly would be as informative."""
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


Found = Mapping[str, Any]  # the result of `plan`; Any: JSON values


def sentences(found: Found, margin: Callable[[float], str]) -> list[str]:
    """Describe a forecast. `margin` formats half of an interval in the question's unit, with ±."""
    if "floor" in found:
        return [_from_where_on(found, margin)]
    return [_how_exact(found, margin), _how_much_it_is_worth(found)]


def _from_where_on(found: Found, margin: Callable[[float], str]) -> str:
    people, floor = found["people"], found["floor"]
    if floor >= 1:
        return f"{people:,} people are too few to find any text."
    return (
        f"With {people:,} people, a text that {math.ceil(floor * people):,} or more give is found "
        f"with a probability of 99 %, and its share is known to {margin(found['half_width_95'])}."
    )


def _how_exact(found: Found, margin: Callable[[float], str]) -> str:
    ratio = found["limit_ratio"]
    above = "" if ratio is None else f", at {ratio:.3f} times the smallest possible variance"
    given = f"{found['people']:,} people give {margin(found['half_width_95'])} (95 %){above}"
    if found["people_for_error"] == found["people"]:
        return f"{given}; for half of that you need {4 * found['people']:,}."
    return f"{given}; for {margin(_error(found))} you need {found['people_for_error']:,}."


def _how_much_it_is_worth(found: Found) -> str:
    return (
        f"{found['people']:,} deniable answers are worth about "
        f"{found['direct_equivalent']:,} asked openly."
    )


def _error(found: Found) -> float:
    """Return the margin at the number of people that the requested error needs."""
    width, people, enough = (found[k] for k in ("half_width_95", "people", "people_for_error"))
    return float(width) * math.sqrt(people / enough)
