"""The question to plan, from the options of a command or the fields of a form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deniable.server.surveys.survey_file import with_table
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader

MAX_PEOPLE = 10**12


class WrongField(WrongUse):
    """Raised for a field that cannot be planned with; `problem` is what to write there."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"--{field}: {problem}")
        self.field, self.problem = field, problem


def asked(
    kind: str, epsilon: str, said: Mapping[str, Any], mechanism: str | None = None
) -> dict[str, Any]:
    """Return the question as a survey file has it; the reader of surveys finds other mistakes."""
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
    if not 1 <= people <= MAX_PEOPLE:
        raise WrongField("people", f"1 to {MAX_PEOPLE:,} people, not {people}")
    return people


def check_error(error: float) -> float:
    if not (error > 0 and math.isfinite(error)):
        raise WrongField("error", f"an error is a number above 0, not {error}")
    return error


def field_of(error: InvalidSurvey) -> tuple[str, str]:
    """Return the field with the mistake, and the problem."""
    return error.key.rpartition(".")[2], error.problem


Asked = Mapping[str, Any]  # a question as a survey file has it; Any: what TOML and JSON hold
CHOSEN = ("mechanism", "grid", "integers")


def undecided(asked: Asked) -> Asked:
    """Return the question without its mechanism and what was chosen with it for an ε."""
    return {key: value for key, value in asked.items() if key not in CHOSEN}


def read(asked: Asked) -> Question:
    """Return the question that a published survey would have."""
    return parse_question(Reader("question", with_table(dict(asked))))


def choose(asked: Asked, most_bytes: int | None = None) -> Question:
    """Choose the named mechanism, or the survey's, or the best whose report is short enough."""
    usual = read(asked)
    if most_bytes is None or usual.mechanism.payload_size <= most_bytes:
        return usual
    if "mechanism" not in asked and (rest := others(asked, usual, most_bytes)):
        return rest[0]
    shortest = min([usual, *others(asked, usual)], key=lambda each: each.mechanism.payload_size)
    raise WrongUse(
        f"{usual.mechanism.name} takes {usual.mechanism.payload_size} bytes a report, and "
        f"{most_bytes} are allowed; the shortest is {shortest.mechanism.name} with "
        f"{shortest.mechanism.payload_size}"
    )


def others(asked: Asked, chosen: Question, most_bytes: int | None = None) -> list[Question]:
    """Return the other mechanisms that take this question, the best first.

    Each at the size that suits it.
    """
    found = []
    for name in mechanisms(chosen.mechanism_kind):
        try:
            other = (
                read({**undecided(asked), "mechanism": name})
                if name != chosen.mechanism.name
                else None
            )
        except InvalidSurvey:
            continue
        if other and (most_bytes is None or other.mechanism.payload_size <= most_bytes):
            found.append(other)
    return sorted(found, key=lambda other: other.mechanism.predicted_error(1))
