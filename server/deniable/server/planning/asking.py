"""A question to plan, from what a command's options or a form's fields say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.survey.kinds import KINDS

MOST_PEOPLE = 10**12


class WrongField(WrongUse):
    """One field holds what cannot be planned; `problem` says what to write there."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"--{field}: {problem}")
        self.field, self.problem = field, problem


def asked(
    kind: str, epsilon: str, said: Mapping[str, Any], mechanism: str | None = None
) -> dict[str, Any]:
    """As a survey file has it; the reader of surveys says what else is wrong with it."""
    question: dict[str, Any] = {"name": "it", "kind": kind, "epsilon": epsilon}
    if mechanism is not None:
        question["mechanism"] = mechanism
    for field in KINDS[kind].plan_fields:
        if said.get(field.name) is None:
            raise WrongField(field.name, f"a {kind} needs it")
        if not field.low <= said[field.name] <= field.high:
            problem = f"a {kind} has {field.low:,} to {field.high:,} {field.name}"
            raise WrongField(field.name, problem)
    return question | KINDS[kind].planned(said)


def check_people(people: int) -> int:
    if not 1 <= people <= MOST_PEOPLE:
        raise WrongField("people", f"1 to {MOST_PEOPLE:,} people, not {people}")
    return people


def check_error(error: float) -> float:
    if not (error > 0 and math.isfinite(error)):
        raise WrongField("error", f"an error is a number above 0, not {error}")
    return error


def field_of(error: InvalidSurvey) -> tuple[str, str]:
    """Where it is, and what."""
    return error.key.rpartition(".")[2], error.problem
