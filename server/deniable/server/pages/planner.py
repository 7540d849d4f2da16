"""Planner page: how precise a question will be, by people or by error, in three models of trust.

The chart shows the margin against the number of people, both in powers of ten. Shuffling is drawn
for a whole ε₀, rounded down, because each ε₀ needs a search for a number's table: its line is
slightly above the figures next to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.context import problem, require
from deniable.server.http.messages import HttpError
from deniable.server.pages.access import pages
from deniable.server.pages.charts import Axis, Tick
from deniable.server.pages.planner_form import SLIDERS, Form, Slider, read_form
from deniable.server.planning.forecast import plan, sentences
from deniable.server.planning.planned_question import Asked, choose
from deniable.server.planning.variances import half_width, shuffled_half_width, trusted_half_width
from deniable.server.results.display import STYLES, Style
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 12.0, 78.0, 24, 290, 322
DECADES = 2  # on either side of the number of people
MIN_DECADE, MAX_DECADE = 1, 12
LABEL_SPACING = 18  # pixels
NAMES = {"local": "devices", "shuffled": "shuffled", "trusted": "trusted"}
KEYS = {"local": "", "shuffled": "shuffled_", "trusted": "central_"}

blueprint: Blueprint = pages("planning", public=("as_json",))


@dataclass(frozen=True)
class PlanLine:
    model: str
    name: str
    points: tuple[tuple[float, float], ...]
    marked: tuple[float, float]  # at the planned number of people
    label_y: float
    margin: str

    @property
    def steps(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        return list(pairwise(self.points))


@dataclass(frozen=True)
class PlanChart:
    lines: tuple[PlanLine, ...]
    people: tuple[Tick, ...]
    errors: tuple[Tick, ...]
    at: float
    height: int = HEIGHT
    top: int = TOP
    bottom: int = BOTTOM
    right: float = RIGHT


@dataclass(frozen=True)
class PlannedQuestion:
    """A question and its plan, for the template."""

    form: Form
    question: Question
    found: dict[str, Any]  # Any: what JSON holds
    chart: PlanChart

    @property
    def kinds(self) -> dict[str, str]:
        """The label of each kind."""
        return {kind: KINDS[kind].form_label for kind in KINDS}

    @property
    def style(self) -> Style:
        return STYLES[self.question.statistic]

    @property
    def sentences(self) -> list[str]:
        return sentences(self.found, self.margin)

    @property
    def odds(self) -> str:
        return odds_factor(self.question.epsilon.billionths)

    @property
    def mechanisms(self) -> list[dict[str, Any]]:
        """The chosen one first."""
        return [self.found, *self.found["alternatives"]]

    def margin(self, error: float) -> str:
        return self.style.expected(error, self.question.unit)

    def slider(self, name: str) -> Slider:
        return SLIDERS[name]

    def position(self, name: str) -> str:
        value = {
            "epsilon": float(self.question.epsilon),
            "people": self.found["people"],
            "error": self._error / self.form.range,
        }[name]
        return SLIDERS[name].position(value)

    def shown(self, name: str) -> str:
        """Return the value next to its slider."""
        if name == "people":
            return people_text(self.found["people"])
        return self.margin(self._error) if name == "error" else self.form.epsilon

    @property
    def _error(self) -> float:
        return self.form.error or self.found["half_width_95"]


@blueprint.get("/plan")
def page() -> ResponseReturnValue:
    form = read_form(request.args)
    text = render_template("plan.html", plan=planned(form), query=urlencode(form.typed))
    return text, 400 if form.problems else 200


@blueprint.get("/plan.json")
@require("analyst")
def as_json() -> Response:
    form = read_form(request.args)
    if form.problems:
        detail = "; ".join(f"{name}: {words}" for name, words in form.problems.items())
        return problem(HttpError(400, detail))
    return jsonify(plan(form.asked, form.people, form.error, form.max_bytes))


def plan_question(question: Asked) -> PlannedQuestion:
    """Plan an existing question for the people or the error that the address names."""
    return planned(read_form(request.args, question))


def planned(form: Form) -> PlannedQuestion:
    question = choose(form.asked, form.max_bytes)
    found = plan(form.asked, form.people, form.error, form.max_bytes)
    style = STYLES[question.statistic]
    return PlannedQuestion(form, question, found, plan_chart(form, question, found, style))


def plan_chart(form: Form, question: Question, found: Mapping[str, Any], style: Style) -> PlanChart:
    """`found` is the plan for the chosen number of people; Any: what JSON holds."""
    people = found["people"]
    middle = min(max(math.log10(people), MIN_DECADE + DECADES), MAX_DECADE - DECADES)
    first, last = math.floor(middle - DECADES), math.ceil(middle + DECADES)
    counts = [10**power for power in range(first, last + 1)]
    drawn = {name: [model(n) for n in counts] for name, model in _models(form, question).items()}
    every = [math.log10(value) for values in drawn.values() for value in values]
    across = Axis(first, last, LEFT, RIGHT)
    down = Axis(math.floor(min(every)), math.ceil(max(every)), BOTTOM, TOP)
    labels = _spaced({name: down.place(math.log10(values[-1])) for name, values in drawn.items()})
    at = across.place(math.log10(people))
    places = [across.place(math.log10(count)) for count in counts]

    def line(name: str, values: Sequence[float]) -> PlanLine:
        points = zip(places, (down.place(math.log10(value)) for value in values), strict=True)
        margin = found[f"{KEYS[name]}half_width_95"]
        marked = at, down.place(math.log10(margin))
        text = style.expected(margin, question.unit)
        return PlanLine(name, NAMES[name], tuple(points), marked, labels[name], text)

    lines = tuple(line(name, values) for name, values in drawn.items())
    ticks = zip(places, map(people_text, counts), strict=True)
    return PlanChart(lines, tuple(Tick(*tick) for tick in ticks), _errors(down, style), at)


def _models(form: Form, question: Question) -> Mapping[str, Callable[[int], float]]:
    def shuffled(people: int) -> float:
        return shuffled_half_width(form.asked, people, form.max_bytes, coarse=True).half_width

    return {
        "local": lambda people: half_width(question, people),
        "shuffled": shuffled,
        "trusted": lambda people: trusted_half_width(question, people),
    }


def _spaced(wanted: dict[str, float]) -> dict[str, float]:
    """Place labels at the ends of their lines, without overlaps."""
    placed, last = dict[str, float](), -math.inf
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        placed[name] = last = max(y + 4, last + LABEL_SPACING)
    return placed


def _errors(down: Axis, style: Style) -> tuple[Tick, ...]:
    powers = range(round(down.low), round(down.high) + 1)
    step = math.ceil(len(powers) / 7)
    shift = round(math.log10(style.factor))
    return tuple(Tick(down.place(power), power_text(power + shift)) for power in powers[::step])


def power_text(exponent: int) -> str:
    """Return a power of ten as text.

    >>> power_text(3), power_text(0), power_text(-2)
    ('1,000', '1', '0.01')
    """
    return f"{10**exponent:,}" if exponent >= 0 else f"{10.0**exponent:.{-exponent}f}"


def people_text(count: int) -> str:
    """Return a number of people as text.

    >>> people_text(100), people_text(10**7), people_text(10**9)
    ('100', '10 million', '1 billion')
    """
    for size, word in ((10**9, "billion"), (10**6, "million")):
        if count >= size and count % size == 0:
            return f"{count // size:,} {word}"
    return f"{count:,}"
