"""Results over HTTP: estimates with intervals, as JSON and as CSV, for analysts."""

from __future__ import annotations

import msgspec
from flask import Blueprint, Response, request

from deniable.server.http.auth import require
from deniable.server.http.context import parts
from deniable.server.http.problems import problem
from deniable.server.results import csv_text, survey_results
from deniable.shared.errors import Refused

blueprint = Blueprint("results", __name__)


@blueprint.get("/v1/surveys/<identifier>/results")
@require("analyst")
def results(identifier: str) -> Response:
    return _answer(identifier, "application/json")


@blueprint.get("/v1/surveys/<identifier>/results.csv")
@require("analyst")
def results_csv(identifier: str) -> Response:
    return _answer(identifier, "text/csv")


def _answer(identifier: str, kind: str) -> Response:
    text = request.args.get("round")
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 10):
        return problem(400, "round is a whole number, like ?round=683")
    here = parts()
    try:
        published = here.store.find(identifier)
        tallies = here.store.tallies(published.id)
        document = survey_results(published, tallies, here.now(), int(text) if text else None)
    except Refused as error:
        return problem(404, str(error))
    if kind == "text/csv":
        name = f"{published.name}-results.csv"
        disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(csv_text(document), mimetype=kind, headers=disposition)
    return Response(msgspec.json.encode(document), mimetype=kind)
