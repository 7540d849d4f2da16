"""Surveys over HTTP: anyone reads, an operator publishes and closes, an analyst reads counters."""

from __future__ import annotations

import json
from typing import Any, cast

from flask import Blueprint, Response, jsonify
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import require
from deniable.server.http.bodies import BadRequest, read_body
from deniable.server.http.context import parts
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.catalogue import entry
from deniable.server.surveys.publishing import publish
from deniable.shared.errors import InvalidSurvey, UntrustedSurvey

CACHE = "public, max-age=60"  # the same for everyone, so any cache may answer
FIELDS = ("document", "signature", "key")

blueprint = Blueprint("admin", __name__)


@blueprint.get("/v1/surveys")
def list_surveys() -> ResponseReturnValue:
    return _public(parts().catalogue.listing())


@blueprint.get("/v1/surveys/<identifier>")
def show_survey(identifier: str) -> ResponseReturnValue:
    return _public(json.dumps(entry(_known(identifier)), ensure_ascii=False).encode())


@blueprint.post("/v1/surveys")
@require("operator")
def publish_survey() -> ResponseReturnValue:
    """The signature must be by a key that is enrolled here: the server itself holds none."""
    fields = _fields()
    here = parts()
    known = {survey.id for survey in here.store.surveys()}
    try:
        published = publish(
            here.store, fields["document"].encode(), fields["signature"], fields["key"]
        )
    except InvalidSurvey as error:
        raise BadRequest(400, str(error), "invalid-survey") from None
    except UntrustedSurvey as error:
        raise BadRequest(403, str(error), "untrusted-survey") from None
    here.catalogue.refresh()
    return jsonify(entry(published)), 200 if published.id in known else 201


@blueprint.post("/v1/surveys/<identifier>/close")
@require("operator")
def close_survey(identifier: str) -> ResponseReturnValue:
    """Closed is closed: the server takes no more reports of it, and nothing opens it again."""
    here = parts()
    here.store.close_survey(_known(identifier).id)
    here.catalogue.refresh()
    return jsonify(entry(_known(identifier)))


@blueprint.get("/v1/surveys/<identifier>/counters")
@require("analyst")
def show_counters(identifier: str) -> ResponseReturnValue:
    published = _known(identifier)
    counters = parts().store.counters(published.id)
    refused = {code: n for code, n in counters.items() if code not in ("accepted", "duplicates")}
    return jsonify(
        {
            "survey": published.id,
            "name": published.name,
            "accepted": counters.get("accepted", 0),
            "duplicates": counters.get("duplicates", 0),
            "refused": refused,
        }
    )


def _known(identifier: str) -> PublishedSurvey:
    published = parts().catalogue.find(identifier)
    if published is None:
        raise BadRequest(
            404, "no survey with this id is published here; GET /v1/surveys lists them"
        )
    return published


def _public(body: bytes) -> Response:
    response = Response(body, mimetype="application/json")
    response.headers["Cache-Control"] = CACHE
    return response


def _fields() -> dict[str, str]:
    try:
        table: Any = json.loads(read_body())  # Any: whatever was sent, checked below
        whole = isinstance(table, dict) and set(table) == set(FIELDS)
        if whole and all(isinstance(value, str) and value.encode() for value in table.values()):
            return cast(dict[str, str], table)
    except (ValueError, RecursionError):
        raise BadRequest(400, "the body is not JSON in UTF-8") from None
    raise BadRequest(400, f"send an object with exactly the texts {', '.join(FIELDS)}")
