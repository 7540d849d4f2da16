"""OpenAPI 3.1 document of the HTTP interface, with every address and every response.

The schemas of responses are generated from the types that are sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from deniable.server.http.api import Counters, SignedSurvey
from deniable.server.http.messages import JSON, PROBLEM
from deniable.server.http.uploads import Receipt
from deniable.server.results import Results
from deniable.server.results.document import Count, SurveyId
from deniable.server.results.periods import DIVISIONS
from deniable.server.results.survey_estimates import MAX_ROUNDS, MAX_ROWS
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
from deniable.shared.sealed_envelope import BATCH_TYPE, SEALED_TYPE

Json = dict[str, Any]  # a part of a JSON document
Answer = type[Struct] | str  # type of a JSON response, or media type of a text

REPORTS = (
    "Objects with a whole number, or a text in hex, for each question, as the survey defines it. "
    "The server refuses an envelope with a value that the survey does not allow, but not the other "
    "envelopes of the body."
)
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Problem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Problem document of a refused request; `type` is the address of an explanatory page."""

    type: str
    title: str
    status: int
    detail: str
    instance: str  # random id of the request in the log, which reveals nothing about its sender
    code: RequestCode | UnsetType = UNSET  # for programs; `detail` is for people


class Status(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Health of a process."""

    status: Literal["alive", "ready"]
    warning: str | UnsetType = UNSET  # why a fail-over can lose acknowledged reports


class SurveyList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Surveys that can be answered or whose reports are accepted, in the order of publication."""

    surveys: tuple[SurveyEntry, ...]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Event in the life of a survey, without its time."""

    number: Count
    event: Event
    survey: SurveyId
    key: Hex
    head: Hex


class Register(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries in order; if there are `more`, request the entries `after` the last number."""

    entries: tuple[Entry, ...]
    more: bool
    note: str


class JsonEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    survey: Hex
    round: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    reports: Annotated[list[Any], Meta(description=REPORTS)]  # Any: the survey defines the keys


class JsonEnvelopes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Envelopes for people with curl; a question's value is its symbol."""

    envelopes: Annotated[tuple[JsonEnvelope, ...], Meta(min_length=1)]


TYPES = (
    Counters, JsonEnvelopes, Problem, Receipt, Register, Results, SignedSurvey, Status, SurveyEntry,
    SurveyList,
)  # fmt: skip
SCHEMAS = "#/components/schemas/"
TEXT = {"type": "string"}
BINARY = {"schema": {"type": "string", "format": "binary"}}
COUNT = {"type": "integer", "minimum": 0}
ROUND = {"oneOf": [COUNT, {"type": "string", "format": "date"}]}

DESCRIPTION = (
    "Reports come in, estimates with intervals go out. Devices randomize each report; this server "
    "never sees a true answer. Errors are problem documents (RFC 9457)."
)
LISTED = (
    "Surveys that can still be answered, or whose reports are still accepted; the response is the "
    "same for everyone. Other surveys can be found by id, and in the register."
)
ESTIMATES = (
    f"Estimates with intervals: the newest requested rounds, at most {MAX_ROUNDS} of them "
    f"and {MAX_ROWS:,} rows. `left_out` and `rows_left_out` count what is not included."
)
SENDING = (
    f"At most {MAX_BODY_BYTES} bytes, or {MAX_JSON_BYTES} in JSON. Without a token, one envelope "
    f"with one report; with an app token, up to {MAX_ENVELOPES} envelopes of up to {MAX_REPORTS} "
    "reports each. A report of a survey by invitation needs its code in `Deniable-Invitation`. An "
    "envelope is accepted or refused as a whole. Sending is idempotent: reports with the same id "
    "count once, so an upload without a response may be sent again."
)
PUBLISH = "Publish a survey signed by a key that is enrolled."
ALWAYS = (500, 503)  # 500: internal error; 503: unreadable store or overloaded server
GUARDED = (401, 403)


@cache
def document_bytes() -> bytes:
    """Return the document as JSON, generated once per process."""
    return json.dumps(document()).encode()


def document() -> Json:
    _, schemas = msgspec.json.schema_components(TYPES, ref_template=SCHEMAS + "{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "deniable", "version": "1", "description": DESCRIPTION},
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"problem": _content("Refused.", Problem, PROBLEM)},
        },
    }


def _paths() -> Json:
    survey = "/v1/surveys/{id}"
    after = _parameter("after", "query", COUNT, "Entries after this number.")
    rounds = (
        _parameter("round", "query", ROUND, "Only this round."),
        _parameter("from", "query", ROUND, "Only this round and later ones."),
        _parameter("until", "query", ROUND, "Only this round and earlier ones."),
        _parameter("by", "query", {"enum": DIVISIONS}, "Also return pooled results by period."),
        _parameter("language", "query", TEXT, "Language of the survey's own texts, like de."),
    )
    operations = {
        "GET /v1/surveys": _operation(LISTED, SurveyList),
        "POST /v1/surveys": _publish(),
        f"GET {survey}": _operation("One survey.", SurveyEntry, 404),
        "GET /v1/register": _operation("The history of all surveys.", Register, 400, query=[after]),
        f"POST {survey}/close": _operation(
            "Close it permanently to further reports.", SurveyEntry, 404, 409, role="operator"
        ),
        f"GET {survey}/results": _operation(
            ESTIMATES, Results, 400, 404, role="analyst", query=rounds
        ),
        f"GET {survey}/results.csv": _operation(
            "The same as CSV.", "text/csv", 400, 404, role="analyst", query=rounds
        ),
        f"GET {survey}/counters": _operation(
            "Number of its reports by outcome: accepted, duplicate, refused.",
            Counters, 404, role="analyst",
        ),
        "POST /v1/envelopes": _send(),
        "GET /healthz": _operation("Alive.", Status),
        "GET /readyz": _operation("Ready.", Status),
        "GET /metrics": _operation("Metrics for Prometheus.", "text/plain"),
        "GET /metrics/results": _operation(
            "Newest estimates with their intervals, for Prometheus.", "text/plain", role="analyst"
        ),
        "GET /v1/openapi.json": _operation("This document.", JSON),
    }  # fmt: skip
    named = "The survey's id, a prefix of the id of at least 6 digits, or the survey's name."
    paths: dict[str, Json] = {}
    for address, operation in operations.items():
        method, path = address.split(" ")
        paths.setdefault(path, {})[method.lower()] = operation
        if "{id}" in path:
            paths[path]["parameters"] = [_parameter("id", "path", TEXT, named)]
    return paths


def _send() -> Json:
    types = dict.fromkeys((CONTENT_TYPE, SEALED_TYPE, BATCH_TYPE), BINARY)
    types |= {JSON: _reference("JsonEnvelopes")}
    answers = {200: "Numbers of accepted, duplicate and refused reports."}
    return {
        "summary": "Send reports; answered once they are on disk.",
        "description": SENDING,
        "security": [{}, {"token": []}],
        "requestBody": {"required": True, "content": types},
        "responses": _responses(answers, Receipt, 400, *GUARDED, 408, 413, 415, 429),
    }


def _publish() -> Json:
    answers = {200: "The survey was already published.", 201: PUBLISH}
    replace = "Publish even if other questions are open under the same name (otherwise 409)."
    return _operation(PUBLISH, SurveyEntry, role="operator") | {
        "responses": _responses(answers, SurveyEntry, 400, *GUARDED, 409, 413, 415),
        "parameters": [_parameter("replace", "query", {"type": "boolean"}, replace)],
        "requestBody": {"required": True, "content": {JSON: _reference("SignedSurvey")}},
    }


def _operation(
    summary: str, kind: Answer, *problems: int, role: str | None = None, query: Sequence[Json] = ()
) -> Json:
    """Describe an operation; with a role, it may also refuse the token."""
    guarded = GUARDED if role else ()
    operation: Json = {
        "summary": summary,
        "responses": _responses({200: summary}, kind, *guarded, *problems),
    }
    if query:
        operation["parameters"] = query
    if role:
        operation |= {"description": f"Requires the role {role}.", "security": [{"token": []}]}
    return operation


def _responses(answers: Mapping[int, str], kind: Answer, *problems: int) -> Json:
    responses = {str(status): _content(summary, kind) for status, summary in answers.items()}
    refused = {"$ref": "#/components/responses/problem"}
    return responses | {str(status): refused for status in sorted((*problems, *ALWAYS))}


def _content(summary: str, kind: Answer, media_type: str = JSON) -> Json:
    if isinstance(kind, str):
        schema: Json = {"schema": {"type": "object"} if kind == JSON else TEXT}
        return {"description": summary, "content": {kind: schema}}
    return {"description": summary, "content": {media_type: _reference(kind.__name__)}}


def _reference(name: str) -> Json:
    return {"schema": {"$ref": f"{SCHEMAS}{name}"}}


def _parameter(name: str, place: str, schema: Json, description: str) -> Json:
    required = place == "path"
    return {"name": name, "in": place, "required": required, "schema": schema,
            "description": description}  # fmt: skip
