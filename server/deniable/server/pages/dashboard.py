"""The pages: what is asked, what a report gives away, and what the reports say. For analysts."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Response, current_app, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from deniable.server.http.context import parts
from deniable.server.http.messages import problem
from deniable.server.pages import sessions
from deniable.server.pages.figures import figures_of
from deniable.server.pages.guards import go, pages, restricted
from deniable.server.pages.survey_page import outcome_rows, read_page
from deniable.server.results import State, state_at
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.phrases import upper_first

blueprint = pages("dashboard", public=("sign_in", "sign_out"))


@dataclass(frozen=True)
class Overview:
    """A survey among the others."""

    published: PublishedSurvey
    state: State
    reports: int

    @property
    def odds(self) -> str:
        return odds_factor(self.published.survey.round_billionths)


def overviews() -> list[Overview]:
    """The newest first."""
    here = parts()
    now, totals = here.clock.now(), here.store.report_totals()
    return [
        Overview(published, state_at(published, now), totals.get(published.sequence, 0))
        for published in reversed(here.catalogue.surveys())
    ]


@blueprint.get("/")
def surveys() -> str:
    return render_template("surveys.html", rows=overviews(), store=parts().store.option)


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
        figures_of=figures_of,
        outcomes=outcome_rows(parts().store.counters(page.published.sequence)),
        url=request.url_root.rstrip("/"),
    )


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    return sessions.sign_in(request.form.get("token", ""), request.form.get("target", "/"))


@blueprint.post("/sign-out")
def sign_out() -> Response:
    return sessions.sign_out()


@blueprint.app_errorhandler(NotFound)
def _nothing_here(_: NotFound) -> ResponseReturnValue:
    """A page for people; programs get the same document as for every other error."""
    wants_page = request.accept_mimetypes.best_match(["application/problem+json", "text/html"])
    if request.path.startswith("/v1/") or wants_page != "text/html":
        return problem(
            404, "there is nothing at this address; /v1/openapi.json lists what there is"
        )
    text, status = _missing("there is nothing at this address")
    return restricted(current_app.make_response((text, status)))


def _missing(reason: str) -> tuple[str, int]:
    return render_template("missing.html", reason=upper_first(reason)), 404
