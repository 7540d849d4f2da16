"""The planner: what a question will tell, by people or error, in three models; nothing is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import require
from deniable.server.http.messages import problem
from deniable.server.pages.guards import pages
from deniable.server.pages.plan_chart import PlanChart, people_text, plan_chart
from deniable.server.pages.plan_form import SLIDERS, Form, Slider, read_form
from deniable.server.planning.choosing import Asked, choose
from deniable.server.planning.figures import plan
from deniable.server.planning.sentences import sentences
from deniable.server.results.display import STYLES, Style
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Question

blueprint: Blueprint = pages("planning", public=("as_json",))


@dataclass(frozen=True)
class Planned:
    """A question and what it will tell, for the template."""

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
        """The one that is chosen first."""
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
        """Beside its slider."""
        if name == "people":
            return people_text(self.found["people"])
        return self.margin(self._error) if name == "error" else self.form.epsilon

    @property
    def _error(self) -> float:
        return self.form.error or self.found["half_width_95"]


def planned(form: Form) -> Planned:
    question = choose(form.asked, form.most_bytes)
    found = plan(form.asked, form.people, form.error, form.most_bytes)
    style = STYLES[question.statistic]
    return Planned(form, question, found, plan_chart(form, question, found, style))


def planned_of(question: Asked) -> Planned:
    """Of a question that stands already, with what the address says of people and error."""
    return planned(read_form(request.args, question))


@blueprint.get("/plan")
def page() -> ResponseReturnValue:
    form = read_form(request.args)
    text = render_template("plan.html", plan=planned(form), query=urlencode(form.said))
    return text, 400 if form.problems else 200


@blueprint.get("/plan.json")
@require("analyst")
def as_json() -> Response:
    form = read_form(request.args)
    if form.problems:
        detail = "; ".join(f"{name}: {words}" for name, words in form.problems.items())
        return problem(400, detail)
    return jsonify(plan(form.asked, form.people, form.error, form.most_bytes))
