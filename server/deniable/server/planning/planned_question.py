"""The question to plan, from a command's options or a form's fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deniable.server.surveys.survey_file import with_table
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.labels import KEPT_VALUES
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader

MAX_PEOPLE = 10**12
MIN_ERROR = 1e-6  # as a share of the range


class WrongField(WrongUse):
    """Raised for a field with an unusable value; `problem` states the correction."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"--{field}: {problem}")
        self.field, self.problem = field, problem


def asked(
    kind: str, epsilon: str, values: Mapping[str, Any], mechanism: str | None = None
) -> dict[str, Any]:
    """Return the question as in a survey file; `read` finds the mistakes that this does not."""
    over = values.get("over") or KINDS[kind].usual_over
    question: dict[str, Any] = {"name": "it", "kind": kind, "over": over, "epsilon": epsilon}
    if mechanism is not None:
        question["mechanism"] = mechanism
    for field in KINDS[kind].plan_fields:
        value = values.get(field.name)
        if value is None:
            raise WrongField(field.name, f"a {kind} question needs it")
        if not field.low <= value <= field.high:
            bounds = f"{field.low:,} to {field.high:,}"
            raise WrongField(field.name, f"a {kind} needs {bounds} {field.name}")
    return question | KINDS[kind].planned(values)


def check_count(field: str, count: int) -> int:
    """Return a number of people, or of a label's values."""
    most = {"people": MAX_PEOPLE, "crowd": MAX_PEOPLE, "values": KEPT_VALUES}[field]
    if not 1 <= count <= most:
        raise WrongField(field, f"1 to {most:,} {field}, not {count}")
    return count


def check_error(error: float, span: float) -> float:
    """Check a margin of error of a question whose range has this length."""
    if not (error > 0 and math.isfinite(error)):
        raise WrongField("error", f"the error must be a number above 0, got {error}")
    if error < MIN_ERROR * span:
        raise WrongField("error", "the error must be at least a millionth of the question's range")
    return error


def check_share(kind: str, share: float) -> float:
    if KINDS[kind].statistic == "coordinate":
        raise WrongField("share", "a vector has no share; leave it out")
    if not 0 <= share <= 1:
        raise WrongField("share", f"write a number from 0 to 1, not {share:g}")
    return share


def field_of(error: InvalidSurvey) -> tuple[str, str]:
    """Return the field that has the mistake, and the problem."""
    return error.key.rpartition(".")[2], error.problem


Asked = Mapping[str, Any]  # a question as in a survey file; Any: TOML and JSON values
CHOSEN = ("mechanism", "grid", "integers")


def undecided(asked: Asked) -> Asked:
    """Return the question without its mechanism and that mechanism's parameters."""
    return {key: value for key, value in asked.items() if key not in CHOSEN}


def read(asked: Asked) -> Question:
    """Return the question as a published survey would have it."""
    return parse_question(Reader("question", with_table(dict(asked))))


def choose(asked: Asked, max_bytes: int | None = None) -> Question:
    """Choose the named mechanism, the default, or the best one with a short enough report."""
    usual = read(asked)
    if max_bytes is None or usual.mechanism.payload_size <= max_bytes:
        return usual
    if "mechanism" not in asked and (rest := others(asked, usual, max_bytes)):
        return rest[0]
    shortest = min(
        [usual, *others(asked, usual)], key=lambda question: question.mechanism.payload_size
    )
    raise WrongUse(
        f"{usual.mechanism.name} needs {usual.mechanism.payload_size} bytes per report, more than "
        f"the {max_bytes} allowed; the shortest is {shortest.mechanism.name} with "
        f"{shortest.mechanism.payload_size}"
    )


def others(asked: Asked, chosen: Question, max_bytes: int | None = None) -> list[Question]:
    """Return the other mechanisms for this question, each at its best size, best first."""
    questions = []
    for name in mechanisms(chosen.mechanism_kind):
        if name != chosen.mechanism.name:
            with suppress(InvalidSurvey):
                questions.append(read({**undecided(asked), "mechanism": name}))
    fitting = [q for q in questions if max_bytes is None or q.mechanism.payload_size <= max_bytes]
    return sorted(fitting, key=lambda question: question.mechanism.predicted_error(1))
