"""The HTTP interface as an OpenAPI 3.1 document: every address, every answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deniable.shared.envelope import CONTENT_TYPE, MOST_BODY_BYTES, MOST_REPORTS

Json = dict[str, Any]  # a part of a JSON document

HEX_64 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
COUNT = {"type": "integer", "minimum": 0}
CODES = ["unknown-survey", "closed", "early", "late", "bad-payload", "too-many"]
TEXT = {"type": "string"}
NUMBER_OR_NULL = {"type": ["number", "null"]}

DESCRIPTION = (
    "Reports come in, estimates with intervals go out. Reports are randomized on the device; this "
    "server never sees a true answer. Errors are problem documents (RFC 9457)."
)


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": "deniable", "version": "1", "description": DESCRIPTION},
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"problem": _content("Refused.", "problem", "application/problem+json")},
        },
    }


def _paths() -> Json:
    one = [_path_parameter("id", HEX_64, "The survey's id.")]
    results = [*one, _query("round", COUNT, "Only this round.")]
    return {
        "/v1/surveys": {
            "get": _reading("Which surveys there are: the same answer for everybody.", "surveys"),
            "post": _publish(),
        },
        "/v1/surveys/{id}": {
            "parameters": one,
            "get": _reading("One survey.", "survey", 404),
        },
        "/v1/surveys/{id}/close": {
            "parameters": one,
            "post": _for(
                "operator", "Take no more reports of it, for good.", {"200": "survey"}, 404
            ),
        },
        "/v1/surveys/{id}/results": {
            "parameters": results,
            "get": _for("analyst", "Estimates with intervals.", {"200": "results"}, 400, 404),
        },
        "/v1/surveys/{id}/results.csv": {
            "parameters": results,
            "get": _for("analyst", "The same as CSV.", {"200": "csv"}, 400, 404),
        },
        "/v1/surveys/{id}/counters": {
            "parameters": one,
            "get": _for("analyst", "What became of its reports.", {"200": "counters"}, 404),
        },
        "/v1/envelopes": {"post": _send()},
        "/healthz": {"get": _reading("Alive.", "status")},
        "/readyz": {"get": _reading("Ready: reports can be written.", "status", 503)},
        "/metrics": {
            "get": {
                "summary": "Figures for Prometheus.",
                "responses": {"200": _text("Figures.", "text/plain")},
            }
        },
        "/v1/openapi.json": {"get": _reading("This document.", "anything")},
    }


def _send() -> Json:
    return {
        "summary": "Send reports; answered once they are on disk.",
        "description": (
            f"At most {MOST_BODY_BYTES} bytes. Without a token one report in an envelope, with an "
            f"app token up to {MOST_REPORTS}. An envelope is taken whole or refused whole; the "
            "same id again counts once, so whatever was not answered may be sent again."
        ),
        "security": [{}, {"token": []}],
        "requestBody": {
            "required": True,
            "content": {
                CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}},
                "application/json": {"schema": _ref("envelopes")},
            },
        },
        "responses": {
            "200": _content("What became of them.", "outcome"),
            **_problems(400, 401, 403, 413, 415, 503),
        },
    }


def _publish() -> Json:
    answers = {"200": "survey", "201": "survey"}
    operation = _for(
        "operator", "Publish a survey signed by a key that is enrolled.", answers, 400, 413
    )
    body = {"required": True, "content": {"application/json": {"schema": _ref("signed")}}}
    return operation | {"requestBody": body}


def _reading(summary: str, schema: str, *problems: int) -> Json:
    return {
        "summary": summary,
        "responses": {"200": _content(summary, schema), **_problems(*problems)},
    }


def _for(role: str, summary: str, answers: Mapping[str, str], *problems: int) -> Json:
    found = {
        status: _text(summary, "text/csv") if name == "csv" else _content(summary, name)
        for status, name in answers.items()
    }
    return {
        "summary": summary,
        "description": f"For the role {role}.",
        "security": [{"token": []}],
        "responses": {**found, **_problems(401, 403, *problems, 503)},
    }


def _schemas() -> Json:
    status = {"type": "integer"}
    return {
        "anything": {"type": "object"},
        "status": _object(status=TEXT),
        "problem": _object(("code",), type=TEXT, title=TEXT, status=status, detail=TEXT, code=TEXT),
        "signed": _object(document=TEXT, signature=TEXT, key=HEX_64),
        "survey": _object(
            id=HEX_64, document=TEXT, signature=TEXT, key=HEX_64, state={"enum": ["open", "closed"]}
        ),
        "surveys": _object(surveys=_list(_ref("survey"))),
        "envelopes": _object(envelopes=_list(_ref("envelope"))),
        "envelope": _object(
            survey=HEX_64,
            round=COUNT,
            id={"type": "string", "pattern": "^[0-9a-f]{32}$"},
            reports=_list(
                {"type": "object", "additionalProperties": {"type": ["integer", "string"]}}
            ),
        ),
        "outcome": _object(accepted=COUNT, duplicates=COUNT, refused=_list(_ref("refusal"))),
        "refusal": _object(index=COUNT, code={"enum": CODES}, detail=TEXT),
        "counters": _object(
            survey=HEX_64,
            name=TEXT,
            accepted=COUNT,
            duplicates=COUNT,
            refused={"type": "object", "additionalProperties": COUNT},
        ),
        "results": _open(survey=HEX_64, name=TEXT, epsilon=TEXT, rounds=_list(_ref("round"))),
        "round": _open(
            round=COUNT,
            open={"type": "boolean"},
            reports=COUNT,
            questions={"type": "object", "additionalProperties": _list(_ref("estimate"))},
        ),
        "estimate": _open(
            label=TEXT,
            estimate=NUMBER_OR_NULL,
            low=NUMBER_OR_NULL,
            high=NUMBER_OR_NULL,
            standard_error=NUMBER_OR_NULL,
            reports=COUNT,
        ),
    }


def _object(optional: tuple[str, ...] = (), /, **properties: Json) -> Json:
    return _open(optional, **properties) | {"additionalProperties": False}


def _open(optional: tuple[str, ...] = (), /, **properties: Json) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(summary: str, schema: str, kind: str = "application/json") -> Json:
    return {"description": summary, "content": {kind: {"schema": _ref(schema)}}}


def _text(summary: str, kind: str) -> Json:
    return {"description": summary, "content": {kind: {"schema": TEXT}}}


def _problems(*statuses: int) -> Json:
    return {str(status): {"$ref": "#/components/responses/problem"} for status in statuses}


def _path_parameter(name: str, schema: Json, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": schema,
        "description": description,
    }


def _query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": description}
