"""Planner page: the precision of a question, by people or by error, in three models of trust.

The chart shows the margin of error against the number of people, both in powers of ten. It rounds
the ε₀ of the shuffled model down to a whole number, because for numbers each ε₀ needs a search for
a table. The line of that model is therefore slightly above the figures next to the chart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
from deniable.server.planning.experiment import experiment_sentence
from deniable.server.planning.forecast import (
    LOOKS_WORDS,
    Expected,
    installs_sentence,
    sentences,
    shuffled,
)
from deniable.server.planning.planned_question import choose
from deniable.server.results.display import STYLES, Style
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import installs_of_survey

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 12.0, 78.0, 24, 290, 322
DECADES = 2  # powers of ten on either side of the number of people
MIN_DECADE, MAX_DECADE = 1, 12
LABEL_SPACING = 18  # pixels
MODELS = {  # name of each model, and its key in a plan
    "local": ("devices", "margin"),
    "shuffled": ("shuffled", "margin_shuffled"),
    "trusted": ("trusted", "margin_of_trusted_server"),
}

blueprint: Blueprint = pages("planning", public=("as_json",))


@dataclass(frozen=True)
class PlanLine:
    model: str
    name: str
    steps: tuple[tuple[tuple[float, float], tuple[float, float]], ...]
    marked: tuple[float, float]  # point at the planned number of people
    label_y: float
    margin: str


@dataclass(frozen=True)
class PlanChart:
    lines: tuple[PlanLine, ...]
    people: tuple[Tick, ...]
    errors: tuple[Tick, ...]
    at: float
    height, top, bottom, right = HEIGHT, TOP, BOTTOM, RIGHT  # layout of every chart


@dataclass(frozen=True)
class PlannedQuestion:
    """Question and its plan, for the template."""

    form: Form
    survey: Survey | None = None  # if it is published

    @cached_property
    def question(self) -> Question:
        return choose(self.form.asked, self.form.max_bytes)

    @cached_property
    def forecast(self) -> dict[str, Any]:  # Any: JSON values
        return self.form.plan()

    @property
    def style(self) -> Style:
        return STYLES[self.question.statistic]

    @property
    def sentences(self) -> list[str]:
        told, answers = sentences(self.forecast, self.margin), self.forecast["installs_for"]
        if self.survey is None:
            unit, tests = self.question.unit, self.form.experiment.values()
            first = [experiment_sentence(test, unit) for test in tests]
            return [*first, *told, installs_sentence(self.forecast)]
        return [*told, *installs_of_survey(self.survey, answers)]

    def margin(self, error: float) -> str:
        return self.style.margin(error, self.question.unit)

    def slider(self, name: str) -> Slider:
        return SLIDERS[name]

    def position(self, name: str) -> str:
        value = {
            "epsilon": float(self.question.epsilon),
            "people": self.forecast["people"],
            "error": self._error / self.form.range,
        }[name]
        return SLIDERS[name].position(value)

    def shown(self, name: str) -> str:
        """Return the value shown next to its slider."""
        if name == "people":
            return people_text(self.forecast["people"])
        return self.margin(self._error) if name == "error" else self.form.epsilon

    @property
    def _error(self) -> float:
        return self.form.error or self.forecast["margin"]

    # The chart: a line for each model, both axes in powers of ten

    @cached_property
    def chart(self) -> PlanChart:
        people = math.log10(self.forecast["people"])
        middle = min(max(people, MIN_DECADE + DECADES), MAX_DECADE - DECADES)
        first, last = math.floor(middle - DECADES), math.ceil(middle + DECADES)
        counts = [10**power for power in range(first, last + 1)]
        drawn = {
            model: [math.log10(self._margin(model, count)) for count in counts] for model in MODELS
        }
        across = Axis(first, last, LEFT, RIGHT)
        errors = [value for values in drawn.values() for value in values]
        down = Axis(math.floor(min(errors)), math.ceil(max(errors)), BOTTOM, TOP)
        labels = _spaced({model: down.place(values[-1]) for model, values in drawn.items()})
        at, places = across.place(people), [across.place(math.log10(count)) for count in counts]

        def line(model: str, values: Sequence[float]) -> PlanLine:
            name, key = MODELS[model]
            margin = self.forecast[key]
            steps = tuple(pairwise(zip(places, map(down.place, values), strict=True)))
            marked = at, down.place(math.log10(margin))
            return PlanLine(model, name, steps, marked, labels[model], self.margin(margin))

        return PlanChart(
            lines=tuple(line(model, values) for model, values in drawn.items()),
            people=tuple(map(Tick, places, map(people_text, counts))),
            errors=_errors(down, self.style),
            at=at,
        )

    def _margin(self, model: str, people: int) -> float:
        form, share, sure = self.form, self.forecast["share"], self.forecast["confidence"]
        expected = Expected(self.question, share, sure)
        if model == "shuffled":
            return shuffled(form.asked, expected, people, form.max_bytes, coarse=True).margin
        of = expected.margin if model == "local" else expected.margin_of_trusted_server
        return of(people)


@blueprint.get("/plan")
def page() -> ResponseReturnValue:
    form = read_form(request.args)
    plan, query = PlannedQuestion(form), urlencode(form.typed)
    kinds = {name: kind.form_label for name, kind in KINDS.items()}
    text = render_template("plan.html", plan=plan, query=query, kinds=kinds, looks=LOOKS_WORDS)
    return text, 400 if form.problems else 200


@blueprint.get("/plan.json")
@require("analyst")
def as_json() -> Response:
    form = read_form(request.args)
    if form.problems:
        detail = "; ".join(f"{name}: {words}" for name, words in form.problems.items())
        return problem(HttpError(400, detail))
    return jsonify(form.plan())


def _spaced(wanted: dict[str, float]) -> dict[str, float]:
    """Return the positions of the labels, at the ends of their lines and without overlaps."""
    placed, last = dict[str, float](), -math.inf
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        placed[name] = last = max(y + 4, last + LABEL_SPACING)
    return placed


def _errors(down: Axis, style: Style) -> tuple[Tick, ...]:
    powers = range(round(down.low), round(down.high) + 1)
    shown = powers[:: math.ceil(len(powers) / 7)]
    return tuple(Tick(down.place(power), style.margin(10.0**power, None)) for power in shown)


def people_text(count: int) -> str:
    """Format a number of people.

    >>> people_text(100), people_text(10**7), people_text(10**9)
    ('100', '10 million', '1 billion')
    """
    for size, word in ((10**9, "billion"), (10**6, "million")):
        if count >= size and count % size == 0:
            return f"{count // size:,} {word}"
    return f"{count:,}"
