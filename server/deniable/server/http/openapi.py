"""The HTTP interface as an OpenAPI 3.1 document: every address, every answer.

The schemas of answers are made from the types that are sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from deniable.server.http.api import Counters, SignedSurvey
from deniable.server.http.messages import JSON, PROBLEM
from deniable.server.http.uploads import Receipt
from deniable.server.results import Results
from deniable.server.results.document import Count, SurveyId
from deniable.server.results.round_selection import MAX_ROUNDS, MAX_ROWS
from deniable.server.store.register_chain import Event
from deniable.server.surveys.catalogue import SurveyEntry
from deniable.shared.envelope import (
    CONTENT_TYPE,
    MAX_BODY_BYTES,
    MAX_ENVELOPES,
    MAX_JSON_BYTES,
    MAX_REPORTS,
)
from deniable.shared.errors import RequestCode
from deniable.shared.sealed_envelope import SEALED_TYPE

Json = dict[str, Any]  # a part of a JSON document
Answer = type[Struct] | str  # a type that is sent as JSON, or the media type of a text

Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Problem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason why a request was not answered; its type is the address of a page that explains it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str  # random: finds the request in the log, and says nothing of its sender
    code: RequestCode | UnsetType = UNSET  # for programs, where the detail is for people


class Status(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Health of a process."""

    status: Literal["alive", "ready"]


class SurveyList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Surveys that can be answered, or whose reports are taken, in the order of publication."""

    surveys: tuple[SurveyEntry, ...]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event of one survey; nothing says when it was."""

    number: Count
    event: Event
    survey: SurveyId
    key: Hex
    head: Hex


class Register(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries in order; where there are `more`, ask for those `after` the last one's number."""

    entries: tuple[Entry, ...]
    more: bool
    note: str


TYPES = (
    Counters,
    Problem,
    Receipt,
    Register,
    Results,
    SignedSurvey,
    Status,
    SurveyEntry,
    SurveyList,
)
PLACE = "#/components/schemas/"
TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
SENT = {
    "JsonEnvelopes": {
        "type": "object",
        "description": "Envelopes for people with curl; a question's value is its symbol.",
        "properties": {
            "envelopes": {
                "type": "array",
                "items": {"$ref": f"{PLACE}JsonEnvelope"},
                "minItems": 1,
            }
        },
        "required": ["envelopes"],
        "additionalProperties": False,
    },
    "JsonEnvelope": {
        "type": "object",
        "properties": {
            "survey": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "round": {**COUNT, "maximum": 2**32 - 1},
            "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "reports": {
                "type": "array",
                "description": (
                    "Objects, with a whole number or a text in hex for each question. The survey "
                    "says which; what it does not allow is refused with its envelope, and not "
                    "with the body."
                ),
            },
        },
        "required": ["survey", "round", "id", "reports"],
        "additionalProperties": False,
    },
}

DESCRIPTION = (
    "Reports come in, estimates with intervals go out. Reports are randomized on the device; this "
    "server never sees a true answer. Errors are problem documents (RFC 9457)."
)
LISTED = (
    "Surveys that can still be answered, or whose reports are still taken: the same answer for "
    "everybody. Others are found by their ids, and in the register."
)
ESTIMATES = (
    f"Estimates with intervals: the newest rounds that are asked for, at most {MAX_ROUNDS} of them "
    f"and {MAX_ROWS:,} rows. `left_out` and `rows_left_out` count what is not included."
)
ALWAYS = (500, 503)  # an error of ours; a store that cannot be read now, or too much to do
GUARDED = (401, 403)


@cache
def document_bytes() -> bytes:
    """Return the document as JSON, made once in each process."""
    return json.dumps(document()).encode()


def document() -> Json:
    _, made = msgspec.json.schema_components(TYPES, ref_template=PLACE + "{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "deniable", "version": "1", "description": DESCRIPTION},
        "paths": _paths(),
        "components": {
            "schemas": {**made, **SENT},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"problem": _content("Refused.", Problem, PROBLEM)},
        },
    }


def _paths() -> Json:
    one = [_parameter("id", "path", TEXT, "Its id, the first digits of it (6 or more), its name.")]
    results = [
        *one,
        _parameter("round", "query", COUNT, "Only this round."),
        _parameter("from", "query", COUNT, "Only this round and later ones."),
        _parameter("until", "query", COUNT, "Only this round and earlier ones."),
    ]
    asked = (*GUARDED, 404)
    return {
        "/v1/surveys": {
            "get": _reading(LISTED, SurveyList),
            "post": _publish(),
        },
        "/v1/surveys/{id}": {
            "parameters": one,
            "get": _reading("One survey.", SurveyEntry, 404),
        },
        "/v1/register": {
            "parameters": [_parameter("after", "query", COUNT, "Entries after this number.")],
            "get": _reading("The fate of every survey ever published.", Register, 400),
        },
        "/v1/surveys/{id}/close": {
            "parameters": one,
            "post": _for(
                "operator", "Close it permanently to further reports.", SurveyEntry, 409, *asked
            ),
        },
        "/v1/surveys/{id}/results": {
            "parameters": results,
            "get": _for(
                "analyst",
                ESTIMATES,
                Results,
                400,
                *asked,
            ),
        },
        "/v1/surveys/{id}/results.csv": {
            "parameters": results,
            "get": _for("analyst", "The same as CSV.", "text/csv", 400, *asked),
        },
        "/v1/surveys/{id}/counters": {
            "parameters": one,
            "get": _for(
                "analyst",
                "Counts of its reports: accepted, duplicate and refused.",
                Counters,
                *asked,
            ),
        },
        "/v1/envelopes": {"post": _send()},
        "/healthz": {"get": _reading("Alive.", Status)},
        "/readyz": {"get": _reading("Ready.", Status)},
        "/metrics": {"get": _reading("Figures for Prometheus.", "text/plain")},
        "/v1/openapi.json": {"get": _reading("This document.", JSON)},
    }


def _send() -> Json:
    return {
        "summary": "Send reports; answered once they are on disk.",
        "description": (
            f"At most {MAX_BODY_BYTES} bytes, in JSON {MAX_JSON_BYTES}. Without a token one "
            f"envelope with one report, with an app token up to {MAX_ENVELOPES} envelopes of up "
            f"to {MAX_REPORTS} reports each. An envelope is taken whole or refused whole. Sending "
            "is idempotent: the same id counts once, so whatever was not answered may be sent "
            "again."
        ),
        "security": [{}, {"token": []}],
        "requestBody": {
            "required": True,
            "content": {
                CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}},
                SEALED_TYPE: {"schema": {"type": "string", "format": "binary"}},
                JSON: {"schema": {"$ref": f"{PLACE}JsonEnvelopes"}},
            },
        },
        "responses": _responses(
            {200: "How many were accepted, duplicate or refused."},
            Receipt,
            400,
            *GUARDED,
            408,
            413,
            415,
            429,
            *ALWAYS,
        ),
    }


def _publish() -> Json:
    summary = "Publish a survey signed by a key that is enrolled."
    answers = {200: "It was published already.", 201: summary}
    operation = _for("operator", summary, SurveyEntry)
    refused = (400, *GUARDED, 409, 413, 415, *ALWAYS)
    operation["responses"] = _responses(answers, SurveyEntry, *refused)
    replace = "Also where other questions are open under the same name; else that is a 409."
    operation["parameters"] = [_parameter("replace", "query", {"type": "boolean"}, replace)]
    body = {"required": True, "content": {JSON: {"schema": _schema(SignedSurvey)}}}
    return operation | {"requestBody": body}


def _reading(summary: str, kind: Answer, *problems: int) -> Json:
    return _answered(summary, kind, *problems, *ALWAYS)


def _answered(summary: str, kind: Answer, *problems: int) -> Json:
    return {"summary": summary, "responses": _responses({200: summary}, kind, *problems)}


def _for(role: str, summary: str, kind: Answer, *problems: int) -> Json:
    described = {"description": f"For the role {role}.", "security": [{"token": []}]}
    return _reading(summary, kind, *problems) | described


def _responses(answers: Mapping[int, str], kind: Answer, *problems: int) -> Json:
    found = {str(status): _content(summary, kind) for status, summary in answers.items()}
    refused = {"$ref": "#/components/responses/problem"}
    return found | {str(status): refused for status in sorted(problems)}


def _content(summary: str, kind: Answer, media_type: str = JSON) -> Json:
    if not isinstance(kind, str):
        schema = _schema(kind)
    else:
        media_type, schema = kind, {"type": "object"} if kind == JSON else TEXT
    return {"description": summary, "content": {media_type: {"schema": schema}}}


def _schema(kind: type[Struct]) -> Json:
    return {"$ref": f"{PLACE}{kind.__name__}"}


def _parameter(name: str, place: str, schema: Json, description: str) -> Json:
    required = place == "path"
    return {
        "name": name,
        "in": place,
        "required": required,
        "schema": schema,
        "description": description,
    }
