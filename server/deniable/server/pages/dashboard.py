"""Dashboard: the list of surveys, also as JSON; signing in and out; and unknown addresses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from flask import Response, make_response, render_template, request
from flask.typing import ResponseReturnValue
from msgspec import Struct
from werkzeug.exceptions import NotFound

from deniable.server.http.context import NOTHING_HERE, answer, parts, problem, require
from deniable.server.http.messages import HttpError
from deniable.server.pages import access
from deniable.server.pages.access import go, missing, pages, restricted
from deniable.server.store import PublishedSurvey, State

blueprint = pages("dashboard", public=("sign_in", "sign_out", "surveys_json"))


class ListedSurvey(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    title: str
    state: State
    opens: date
    closes: date
    round: str
    epsilon: str  # ε of one round
    questions: int
    reports: int


class ListedSurveys(Struct, frozen=True):
    surveys: Sequence[ListedSurvey]


@blueprint.get("/")
def surveys() -> str:
    return render_template("surveys.html", rows=_rows(), store=parts().store.option)


@blueprint.get("/surveys.json")
@require("analyst")
def surveys_json() -> Response:
    return answer(ListedSurveys([listed for _, listed in _rows()]))


@blueprint.get("/surveys/")
def no_survey() -> ResponseReturnValue:
    return go("/")


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    return access.sign_in(request.form.get("token", ""), request.form.get("target", "/"))


blueprint.post("/sign-out")(access.sign_out)


@blueprint.app_errorhandler(NotFound)
def _not_found(_: NotFound) -> ResponseReturnValue:
    """Respond to people with a page, and to programs with a problem document."""
    wants_page = request.accept_mimetypes.best_match(["application/problem+json", "text/html"])
    if request.path.startswith("/v1/") or wants_page != "text/html":
        return problem(HttpError(404, NOTHING_HERE))
    return restricted(make_response(missing("nothing exists at this address")))


def _rows() -> list[tuple[PublishedSurvey, ListedSurvey]]:
    """Return all surveys with their facts, newest first."""
    here, rows = parts(), []
    now, totals = here.clock.now(), here.store.report_totals()
    for published in reversed(here.catalogue.surveys()):
        survey = published.survey
        listed = ListedSurvey(
            id=published.id,
            name=published.name,
            title=survey.title,
            state=published.state_at(now),
            opens=survey.opens,
            closes=survey.closes,
            round=survey.period,
            epsilon=survey.round_epsilon,
            questions=len(survey.questions),
            reports=totals.get(published.sequence, 0),
        )
        rows.append((published, listed))
    return rows
