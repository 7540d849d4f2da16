"""For anyone who runs the server: is it alive, ready, how is it doing, what can be asked of it."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from deniable.server.http.context import Parts, parts
from deniable.server.http.messages import Status, answer, problem
from deniable.server.http.openapi import document
from deniable.server.http.sealed import missing_keys
from deniable.server.intake.metrics import CONTENT_TYPE
from deniable.shared.errors import StoreUnusable

blueprint = Blueprint("operations", __name__)


@blueprint.get("/healthz")
def alive() -> Response:
    return answer(Status(status="alive"))


@blueprint.get("/readyz")
def ready() -> Response:
    reason = readiness(parts())
    return answer(Status(status="ready")) if reason is None else problem(503, reason)


@blueprint.get("/metrics")
def metrics() -> Response:
    return Response(parts().metrics.render(), content_type=CONTENT_TYPE)


@blueprint.get("/v1/openapi.json")
def openapi() -> Response:
    return jsonify(document())


def readiness(here: Parts) -> str | None:
    """Why reports cannot be taken, or None: the writer runs and the store can be written."""
    if not here.writer.running:
        return "the writer has stopped because the disk failed; restart once the disk is well"
    if (doubt := here.writer.doubt()) is not None:
        return doubt
    if without := [each.survey.name for _, each in missing_keys(here, here.clock.now())]:
        return (
            f"reports of {without[0]} come sealed to a key that is not here: "
            "deniable serve --sealing-key FILE"
        )
    try:
        here.store.check_writable()
    except StoreUnusable as error:
        return str(error)
    return None
