"""Results over HTTP: estimates with intervals, streamed as JSON and as CSV, for analysts."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, request

from deniable.server.http.auth import require
from deniable.server.http.context import asked_for, parts
from deniable.server.http.messages import JSON, HttpError
from deniable.server.results import (
    Results,
    Round,
    csv_chunks,
    json_chunks,
    select_rounds,
    stored_estimates,
)
from deniable.server.results.round_selection import MAX_ROWS
from deniable.server.results.survey_results import check_round
from deniable.shared.errors import Refused

CSV = "text/csv"
MAX_ROUND_DIGITS = 9

blueprint = Blueprint("results", __name__)


@blueprint.get("/v1/surveys/<identifier>/results")
@require("analyst")
def results(identifier: str) -> Response:
    return json_results(identifier)


@blueprint.get("/v1/surveys/<identifier>/results.csv")
@require("analyst")
def results_csv(identifier: str) -> Response:
    header, rounds = requested_results(identifier)
    disposition = {"Content-Disposition": f'attachment; filename="{header.name}-results.csv"'}
    return Response(csv_chunks(header, rounds), mimetype=CSV, headers=disposition)


def json_results(identifier: str) -> Response:
    return Response(json_chunks(*requested_results(identifier)), mimetype=JSON)


def requested_results(identifier: str) -> tuple[Results, Iterator[Round]]:
    """Return the results of the rounds that this request's address names: the document without its
    rounds, and its rounds."""
    number, first, last = (_number(name) for name in ("round", "from", "until"))
    here, published = parts(), asked_for(identifier)
    if number is not None:
        first = last = number
    now = here.clock.now()
    selection = select_rounds(published.survey, now, first, last)
    estimates = stored_estimates(here.store, published, now, selection, here.estimates, MAX_ROWS)
    try:
        if number is not None:
            check_round(estimates, number)
    except Refused as error:
        raise HttpError(404, str(error)) from None
    return estimates.header, estimates.rounds()


def _number(name: str) -> int | None:
    text = request.args.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_ROUND_DIGITS):
        raise HttpError(400, f"{name} must be a whole number, like ?{name}=683")
    return int(text)
