"""Results over HTTP: estimates with intervals, as JSON and as CSV, for analysts."""

from __future__ import annotations

from flask import Blueprint, Response, request

from deniable.server.http.auth import require
from deniable.server.http.context import asked_for, parts
from deniable.server.http.messages import HttpError, answer
from deniable.server.results import Results, csv_text, survey_results, window
from deniable.shared.errors import Refused

CSV = "text/csv"
MOST_ROUND_DIGITS = 9

blueprint = Blueprint("results", __name__)


@blueprint.get("/v1/surveys/<identifier>/results")
@require("analyst")
def results(identifier: str) -> Response:
    return answer(results_of(identifier))


@blueprint.get("/v1/surveys/<identifier>/results.csv")
@require("analyst")
def results_csv(identifier: str) -> Response:
    found = results_of(identifier)
    disposition = {"Content-Disposition": f'attachment; filename="{found.name}-results.csv"'}
    return Response(csv_text(found), mimetype=CSV, headers=disposition)


def results_of(identifier: str) -> Results:
    """By the rounds that the address of this request names."""
    number, first, last = (_number(name) for name in ("round", "from", "until"))
    here, published = parts(), asked_for(identifier)
    now = here.clock.now()
    shown = window(published.survey, now, first, last)
    if number is not None:
        shown = window(published.survey, now, number, number)
    try:
        tallies = here.store.tallies(published.sequence, *shown.read(published.survey))
        annotations = here.store.annotations(published.sequence)
        return survey_results(published, tallies, now, number, shown, annotations)
    except Refused as error:
        raise HttpError(404, str(error)) from None


def _number(name: str) -> int | None:
    """Of a round that is asked for, if one is."""
    text = request.args.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_ROUND_DIGITS):
        raise HttpError(400, f"{name} must be a whole number, like ?{name}=683")
    return int(text)
