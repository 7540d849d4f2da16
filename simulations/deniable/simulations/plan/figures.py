"""What a question costs and tells: of the mechanism that a survey would have, and of all others.

`n_variance` is n times the variance that noise and rounding add: of an option's share where shares
are all alike, or of the mean of numbers that all stand at the worst place, with the range as
[-1, 1]. The least that any local mechanism can have is in `frame/least_variance.py`.

A text is an option of as many as there are buckets, of which the final groups' reports tell;
`floor` is the share from which on it is found at all. How close to the limit that is, is not known.

How many direct answers carry as much depends on how people differ: here their answers are spread
evenly, over the options, over the range or over all directions. With σ^2 the variance of one, n
deniable answers are worth n σ^2 / (σ^2 + n_variance), at the worst place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deniable.server.results.advice import Z95
from deniable.server.surveys.authored import with_table
from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.shapes import Shape
from deniable.shared.privacy.shapes.grouped import GroupedDesign
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.vector_design import VectorDesign
from deniable.shared.survey.questions import Question, parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.central import BoundedMean, GeometricCounts
from deniable.simulations.central.geometric import ADD_OR_DELETE, REPLACE_ONE
from deniable.simulations.frame.least_variance import RANGE, least_n_variance, n_variance


def plan(asked: Mapping[str, Any], people: int | None, error: float | None) -> dict[str, Any]:
    """`asked` is a question as a survey file has it, Any being what JSON holds; `error` half of the
    95 % interval, in the question's own measure."""
    question = read(asked)
    mechanism, span = question.mechanism, question.span
    enough = people if error is None else people_for(question, error)
    count = enough if people is None else people
    assert count is not None, "the verb wants one of both"
    spread = n_variance(mechanism)
    least = least_n_variance(mechanism)
    return {
        "kind": question.kind,
        "epsilon": str(question.epsilon),
        "people": count,
        **_facts(question, count),
        "people_for_error": enough,
        "limit_ratio": None if least is None else spread / least,
        "direct_equivalent": round(count * _of_one(mechanism) / (_of_one(mechanism) + spread)),
        "central_half_width_95": Z95 * math.sqrt(_central(mechanism, count)) * span,
        "alternatives": [_facts(other, count) for other in _others(asked, mechanism.name)],
    }


def people_for(question: Question, error: float) -> int:
    """How many it takes until half of the 95 % interval is this small."""
    one = Z95 * question.mechanism.predicted_error(1) * question.span
    return max(1, math.ceil((one / error) ** 2 * (1 - 1e-12)))


def read(asked: Mapping[str, Any]) -> Question:
    """As a survey with this question would have it when it is published."""
    return parse_question(Reader("question", with_table(dict(asked))))


def _others(asked: Mapping[str, Any], chosen: str) -> list[Question]:
    """The other mechanisms that take this question, at the sizes that suit them."""
    found = []
    for name in mechanisms(asked["kind"]):
        try:
            other = read({**asked, "mechanism": name}) if name != chosen else None
        except InvalidSurvey:
            continue
        found += [other] if other else []
    return sorted(found, key=lambda other: other.mechanism.predicted_error(1))


def _facts(question: Question, people: int) -> dict[str, Any]:
    mechanism = question.mechanism
    error = mechanism.predicted_error(people) * question.span
    return {
        "mechanism": mechanism.name,
        "payload_bytes": mechanism.payload_size,
        "n_variance": n_variance(mechanism),
        "standard_error": error,
        "half_width_95": Z95 * error,
        "leverage": mechanism.leverage,
        **({"floor": mechanism.floor(people)} if isinstance(mechanism, GroupedDesign) else {}),
    }


def _of_one(mechanism: Shape) -> float:
    """The variance of one direct answer, where they are spread evenly."""
    if isinstance(mechanism, NumberTable):
        return RANGE**2 / 12
    if isinstance(mechanism, VectorDesign):
        return 1.0
    return (mechanism.size - 1) / mechanism.size**2


def _central(mechanism: Shape, people: int) -> float:
    """The variance with a trusted server, for one person who answers otherwise."""
    if isinstance(mechanism, NumberTable):
        return BoundedMean(mechanism.epsilon).variance(people)
    if isinstance(mechanism, VectorDesign):  # of a coordinate; the noise's length has a gamma's law
        return (mechanism.dimension + 1) / (people * float(mechanism.epsilon)) ** 2
    moved = ADD_OR_DELETE if mechanism.size == 2 else REPLACE_ONE
    return GeometricCounts(mechanism.epsilon, moved).variance(people)
