"""Dashboard for analysts: the list of surveys, and the page of each, also as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from flask import Response, current_app, render_template, request
from flask.typing import ResponseReturnValue
from msgspec import Struct
from werkzeug.exceptions import NotFound

from deniable.server.http.api import json_results
from deniable.server.http.context import answer, parts, problem, require
from deniable.server.http.messages import HttpError
from deniable.server.pages import access
from deniable.server.pages.access import go, pages, restricted
from deniable.server.pages.survey_page import outcome_rows, read_page
from deniable.server.results import state_at
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.clock import State
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.phrases import upper_first

NOTHING_HERE = "there is nothing at this address; /v1/openapi.json lists what there is"

blueprint = pages("dashboard", public=("sign_in", "sign_out", "surveys_json", "survey_json"))


@dataclass(frozen=True)
class Overview:
    """A survey in the list."""

    published: PublishedSurvey
    state: State
    reports: int

    @property
    def odds(self) -> str:
        return odds_factor(self.published.survey.round_billionths)


class ListedSurvey(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    title: str
    state: State
    opens: date
    closes: date
    round: str
    epsilon: str  # of one round
    questions: int
    reports: int


class ListedSurveys(Struct, frozen=True):
    surveys: Sequence[ListedSurvey]


def overviews() -> list[Overview]:
    """Return all surveys, the newest first."""
    here = parts()
    now, totals = here.clock.now(), here.store.report_totals()
    return [
        Overview(published, state_at(published, now), totals.get(published.sequence, 0))
        for published in reversed(here.catalogue.surveys())
    ]


@blueprint.get("/")
def surveys() -> str:
    return render_template("surveys.html", rows=overviews(), store=parts().store.option)


@blueprint.get("/surveys.json")
@require("analyst")
def surveys_json() -> Response:
    return answer(ListedSurveys([_listed(row) for row in overviews()]))


@blueprint.get("/surveys/")
def no_survey() -> ResponseReturnValue:
    return go("/")


@blueprint.get("/surveys/<identifier>")
def survey(identifier: str) -> ResponseReturnValue:
    try:
        page = read_page(identifier)
    except Refused as error:
        return _missing(str(error))
    return render_template(
        "survey.html",
        page=page,
        outcomes=outcome_rows(parts().store.counters(page.published.sequence)),
        has_public_page=parts().public_pages,
        url=request.url_root.rstrip("/"),
        device_url=parts().device_url or request.url_root.rstrip("/"),
    )


@blueprint.get("/surveys/<identifier>.json")
@require("analyst")
def survey_json(identifier: str) -> Response:
    """Return the same document as /v1."""
    return json_results(identifier)


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    return access.sign_in(request.form.get("token", ""), request.form.get("target", "/"))


@blueprint.post("/sign-out")
def sign_out() -> Response:
    return access.sign_out()


@blueprint.app_errorhandler(NotFound)
def _not_found(_: NotFound) -> ResponseReturnValue:
    """Answer people with a page, and programs with a problem document."""
    wants_page = request.accept_mimetypes.best_match(["application/problem+json", "text/html"])
    if request.path.startswith("/v1/") or wants_page != "text/html":
        return problem(
            HttpError(404, "there is nothing at this address; /v1/openapi.json lists what there is")
        )
    text, status = _missing("there is nothing at this address")
    return restricted(current_app.make_response((text, status)))


def _missing(reason: str) -> tuple[str, int]:
    return render_template("missing.html", reason=upper_first(reason)), 404


def _listed(row: Overview) -> ListedSurvey:
    published, survey = row.published, row.published.survey
    return ListedSurvey(
        id=published.id,
        name=survey.name,
        title=survey.title,
        state=row.state,
        opens=survey.opens,
        closes=survey.closes,
        round=survey.period,
        epsilon=survey.round_epsilon,
        questions=len(survey.questions),
        reports=row.reports,
    )
