"""What a survey's page does until there are results: it turns by itself, shows how to send one,
plans with the survey's own questions, and lets an operator try whether a report would be taken."""

from __future__ import annotations

from typing import Any

from flask import Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import require
from deniable.server.http.context import asked_for, parts
from deniable.server.pages.guards import for_operators, pages, refused
from deniable.server.pages.planning import Planned, planned_of
from deniable.server.pages.public import has_public_pages
from deniable.server.pages.trying import by_hand, try_report
from deniable.server.results import state_at
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import Refused
from deniable.shared.survey.questions import question_document

blueprint = pages("waiting", public=("turn",))


@blueprint.app_context_processor
def for_surveys() -> dict[str, Any]:  # Any: what templates read
    return {
        "survey_plan": survey_plan,
        "by_hand": by_hand,
        "reports_so_far": reports_so_far,
        "has_public_pages": has_public_pages,
    }


def reports_so_far(published: PublishedSurvey) -> int:
    """Of all rounds."""
    return sum(tally.reports for tally in parts().store.tallies(published.sequence))


@blueprint.get("/surveys/<identifier>/waiting.json")
@require("analyst")
def turn(identifier: str) -> Response:
    """What the page looks at, to know when it is out of date."""
    published = asked_for(identifier)
    state = state_at(published, parts().clock.now())
    return jsonify({"survey": published.id, "state": state, "reports": reports_so_far(published)})


@blueprint.post("/surveys/<identifier>/try")
@for_operators
def try_out(identifier: str) -> ResponseReturnValue:
    here = parts()
    try:
        published = here.catalogue.find(identifier)
    except Refused as error:
        return refused(str(error), 404)
    tried = try_report(here, published)
    return render_template("tried.html", published=published, tried=tried)


def survey_plan(published: PublishedSurvey) -> Planned:
    """Of the question that the address names, or of the first."""
    questions = {question.name: question for question in published.survey.questions}
    first = published.survey.questions[0]
    asked = questions.get(request.args.get("question", ""), first)
    return planned_of(question_document(asked))
