"""Planner form: sliders for rough values, and fields for exact ones.

A filled-in field takes precedence over its slider. An invalid value is reported at its field and
replaced by a default, so that there is always a plan to show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from deniable.server.estimation.statements import final_reading
from deniable.server.planning.experiment import amount, experiment
from deniable.server.planning.forecast import plan
from deniable.server.planning.planned_question import (
    Asked,
    WrongField,
    asked,
    check_count,
    check_error,
    check_share,
    choose,
    field_of,
)
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.survey.document import LOOKS
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import PlanField
from deniable.shared.survey.phrases import upper_first

MAX_FIELD_CHARACTERS = 40
DEFAULT_EPSILON, DEFAULT_PEOPLE, DEFAULT_ERROR = "1", 10_000, 0.01  # error as a share of the range

T = TypeVar("T")


class Slider(NamedTuple):
    """Slider over round values; its position is sent as a number."""

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
    # error as a share of the range
    "error": Slider(-4, -0.5, 0.1, True, ("0.01 %", "0.1 %", "1 %", "10 %")),
}


@dataclass
class Form:
    """Values of the planner's form, and its problems by field."""

    typed: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    kind: str = "bit"
    epsilon: str = DEFAULT_EPSILON
    by_error: bool = False
    people: int | None = None
    error: float | None = None
    max_bytes: int | None = None
    share: float | None = None
    looks: str = LOOKS[0]
    values: dict[str, Any] = field(default_factory=dict)  # values of the kind's fields
    asked: Asked = field(default_factory=dict)
    experiment: dict[str, Any] = field(default_factory=dict)  # empty, or with one key of a plan

    @property
    def fields(self) -> tuple[PlanField, ...]:
        return KINDS[self.kind].plan_fields

    @property
    def range(self) -> float:
        """Length of the question's range, the unit of relative errors."""
        return KINDS[self.kind].error_unit(self.asked)

    def plan(self) -> dict[str, Any]:
        limits = self.people, self.error, self.max_bytes
        return plan(self.asked, *limits, share=self.share, looks=self.looks) | self.experiment

    def text(self, name: str) -> str:
        return self.typed.get(name, "")

    def sentence(self, name: str) -> str:
        return f"{upper_first(self.problems[name])}." if name in self.problems else ""

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        if not (text := self.text(name)):
            return None
        try:
            return parse(text)
        except (ValueError, WrongField) as error:
            problem = error.problem if isinstance(error, WrongField) else str(error)
            self.problems.setdefault(name, problem)
            return None

    def slid(self, name: str) -> float | None:
        """Return the value of a slider; ignore an invalid position, which no browser sends."""
        try:
            return SLIDERS[name].value(float(self.text(f"{name}_slider")))
        except ValueError:
            return None


def read_form(typed: Mapping[str, str], fixed: Asked | None = None, looks: str = LOOKS[0]) -> Form:
    """Parse the form. If the question is `fixed`, with its survey's looks, parse only the rest."""
    form = Form({key: value.strip()[:MAX_FIELD_CHARACTERS] for key, value in typed.items()})
    form.looks = looks
    if fixed is None:
        form.looks = form.read("looks", _looks) or looks
        _read_question(form)
        question, sure = choose(form.asked, form.max_bytes), final_reading(form.looks).confidence
        made = form.read(
            "effect", lambda text: experiment(question, text, form.text("share"), sure)
        )
        form.experiment = {"experiment": made} if made else {}
    else:
        form.kind, form.epsilon, form.asked = fixed["kind"], fixed["epsilon"], fixed
    form.by_error = bool(form.text("error")) or form.text("by") == "error"
    if form.text("people") or not form.by_error:
        people = form.read("people", lambda text: check_count("people", _count(text)))
        form.people = people or round(form.slid("people") or DEFAULT_PEOPLE)
    if form.by_error:
        error = form.read("error", lambda text: check_error(_number(text), form.range))
        share = form.slid("error") or DEFAULT_ERROR
        form.error = error or float(f"{share * form.range:.10g}")
    return form


def _read_question(form: Form) -> None:
    form.kind = form.text("kind") or "bit"
    if form.kind not in KINDS:
        form.problems["kind"] = f"the kind must be one of {', '.join(KINDS)}"
        form.kind = "bit"
    for plan_field in form.fields:
        value = form.read(plan_field.name, _count if plan_field.is_whole else _number)
        form.values[plan_field.name] = plan_field.usual if value is None else value
    epsilon, position = form.read("epsilon", lambda text: str(Epsilon(text))), form.slid("epsilon")
    form.epsilon = epsilon or (DEFAULT_EPSILON if position is None else f"{position:.10g}")
    form.max_bytes = form.read("bytes", _count)
    form.share = form.read("share", lambda text: check_share(form.kind, amount("share", text)))
    # Find a valid question: report problems, and use defaults instead.
    defaults = {plan_field.name: plan_field.usual for plan_field in form.fields}
    for values, mechanism, max_bytes in (
        (form.values, form.text("mechanism") or None, form.max_bytes),
        (form.values, None, None),
        (defaults, None, None),
    ):
        try:
            question = asked(form.kind, form.epsilon, values, mechanism)
            choose(question, max_bytes)
        except InvalidSurvey as error:
            form.problems.setdefault(*field_of(error))
        except WrongField as error:
            form.problems.setdefault(error.field, error.problem)
        except WrongUse as error:
            form.problems.setdefault("bytes", str(error))
        else:
            form.asked, form.max_bytes, form.values = question, max_bytes, dict(values)
            return


def _looks(text: str) -> str:
    if text not in LOOKS:
        raise ValueError(f"results are shown {', '.join(LOOKS[:-1])} or {LOOKS[-1]}")
    return text


def _count(text: str) -> int:
    digits = text.replace(",", "").replace(" ", "")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("enter a whole number, such as 5")
    return int(digits)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("enter a number, such as 0.01")
    return value
