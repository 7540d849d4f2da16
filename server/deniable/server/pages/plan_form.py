"""What the planner's form says: sliders for the eye, and fields for what is known exactly.

Where a field is filled in, it counts, and its slider does not. What cannot be read is said at its
field, and the usual value taken, so that there is always something to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deniable.server.planning.asking import (
    WrongField,
    asked,
    check_error,
    check_people,
    field_of,
)
from deniable.server.planning.choosing import Asked, choose
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import PlanField
from deniable.shared.survey.phrases import upper_first

MOST_LETTERS = 40  # of a field
USUAL_EPSILON, USUAL_PEOPLE = "1", 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class Slider:
    """A range of round values; the position is sent, and read, as a number."""

    low: float
    high: float
    step: float
    powers: bool  # whether a position is a power of ten
    ticks: tuple[str, ...]

    def value(self, position: float) -> float:
        if not self.low <= position <= self.high:
            raise ValueError
        return float(f"{10**position:.2g}") if self.powers else position

    def position(self, value: float) -> str:
        exact = math.log10(value) if self.powers else value
        steps = round((min(max(exact, self.low), self.high) - self.low) / self.step)
        return f"{self.low + steps * self.step:.10g}"


SLIDERS = {
    "epsilon": Slider(0.1, 8, 0.1, False, ("0.1", "2", "4", "6", "8")),
    "people": Slider(2, 9, 0.1, True, ("100", "10,000", "1 million", "1 billion")),
    "error": Slider(-4, -0.5, 0.1, True, ("0.01 %", "0.1 %", "1 %", "10 %")),  # of the range
}


@dataclass
class Form:
    """What was asked for, and what is wrong with it by field."""

    said: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    kind: str = "bit"
    epsilon: str = USUAL_EPSILON
    by_error: bool = False
    people: int | None = None
    error: float | None = None
    most_bytes: int | None = None
    values: dict[str, Any] = field(default_factory=dict)  # of the kind's own fields
    asked: Asked = field(default_factory=dict)

    @property
    def fields(self) -> tuple[PlanField, ...]:
        return KINDS[self.kind].plan_fields

    @property
    def range(self) -> float:
        """What an error is a share of: 1 of a share, the range of a number."""
        return KINDS[self.kind].error_unit(self.asked)

    def typed(self, name: str) -> str:
        return self.said.get(name, "")

    def sentence(self, name: str) -> str:
        """What is wrong with this field."""
        words = self.problems.get(name)
        return f"{upper_first(words)}." if words else ""

    def problem_first(self, name: str, problem: str) -> None:
        self.problems.setdefault(name, problem)


def read_form(said: Mapping[str, str], fixed: Asked | None = None) -> Form:
    """`fixed` is a question that stands already: only people and error are asked for."""
    form = Form({key: value.strip()[:MOST_LETTERS] for key, value in said.items()})
    if fixed is None:
        _read_question(form)
    else:
        form.kind, form.epsilon, form.asked = fixed["kind"], fixed["epsilon"], fixed
    form.by_error = bool(form.typed("error")) or form.typed("by") == "error"
    if form.typed("people") or not form.by_error:
        form.people = _read(form, "people", _people) or _slid(form, "people", _whole)
        form.people = form.people or USUAL_PEOPLE
    if form.by_error:
        form.error = (
            _read(form, "error", _error)
            or _slid(form, "error", _of_range(form))
            or (0.01 * form.range)
        )
    return form


def _read_question(form: Form) -> None:
    form.kind = form.typed("kind") or "bit"
    if form.kind not in KINDS:
        form.problem_first("kind", f"a kind is one of {', '.join(KINDS)}")
        form.kind = "bit"
    form.values = {
        field.name: field.usual
        if (value := _read(form, field.name, _count if field.is_whole else _float)) is None
        else value
        for field in form.fields
    }
    typed = _read(form, "epsilon", _epsilon)
    form.epsilon = typed or _slid(form, "epsilon", "{:.10g}".format) or USUAL_EPSILON
    form.most_bytes = _read(form, "bytes", _count)
    _settle(form)


def _settle(form: Form) -> None:
    """On a question that there can be: what is wrong is said, and the usual taken in its place."""
    mechanism = form.typed("mechanism") or None
    usual = {field.name: field.usual for field in form.fields}
    for values, named, most in (
        (form.values, mechanism, form.most_bytes),
        (form.values, None, None),
        (usual, None, None),
    ):
        try:
            question = asked(form.kind, form.epsilon, values, named)
            choose(question, most)
        except InvalidSurvey as error:
            form.problem_first(*field_of(error))
        except WrongField as error:
            form.problem_first(error.field, error.problem)
        except WrongUse as error:
            form.problem_first("bytes", str(error))
        else:
            form.asked, form.most_bytes = question, most
            form.values = dict(values)
            return


def _read(form: Form, name: str, read: Callable[[str], T]) -> T | None:
    if not (text := form.typed(name)):
        return None
    try:
        return read(text)
    except WrongField as error:
        form.problem_first(name, error.problem)
    except ValueError as error:
        form.problem_first(name, str(error))
    return None


def _slid(form: Form, name: str, made: Callable[[float], T]) -> T | None:
    """Nobody types a position: what is none is not there."""
    try:
        return made(SLIDERS[name].value(float(form.typed(f"{name}_slider"))))
    except ValueError:
        return None


def _epsilon(text: str) -> str:
    return str(Epsilon(text))


def _people(text: str) -> int:
    return check_people(_count(text))


def _error(text: str) -> float:
    return check_error(_float(text))


def _count(text: str) -> int:
    digits = text.replace(",", "").replace(" ", "")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("write a whole number, like 20000")
    return int(digits)


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("write a number, like 0.01")
    return value


def _whole(value: float) -> int:
    return round(value)


def _of_range(form: Form) -> Callable[[float], float]:
    return lambda share: float(f"{share * form.range:.10g}")
