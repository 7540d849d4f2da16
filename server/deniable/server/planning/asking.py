"""A question to plan, from what a command's options or a form's fields say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deniable.shared.errors import InvalidSurvey, WrongUse

MOST_PEOPLE = 10**12
MOST_OPTIONS = 65_536
FIELDS: Mapping[str, tuple[str, ...]] = {  # what is said of each kind
    "bit": (),
    "choice": ("options",),
    "number": ("low", "high"),
    "text": ("length",),
    "vector": ("dimension",),
}


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
    for field in FIELDS[kind]:
        if said.get(field) is None:
            raise WrongField(field, f"a {kind} needs it")
        question[field] = said[field]
    if kind == "choice":
        options = int(said["options"])
        if not 2 <= options <= MOST_OPTIONS:
            raise WrongField("options", f"a choice has 2 to {MOST_OPTIONS:,} options")
        question["options"] = [f"option {number}" for number in range(1, options + 1)]
    return question


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
