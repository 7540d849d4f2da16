"""The reader's interface for programs, under /v1, and its health and metrics.

An operator publishes and closes surveys, an analyst reads results and counters; anyone may read
health, metrics and the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from flask import Blueprint, Response, request
from msgspec import Meta, Struct

from deniable.server.http.context import (
    answer,
    asked_for,
    caller,
    close_survey,
    parts,
    read_body,
    require,
    wait_for_intake,
)
from deniable.server.http.messages import JSON, HttpError, ready_body
from deniable.server.http.result_metrics import ResultMetrics
from deniable.server.intake.status import METRICS_TYPE
from deniable.server.results import (
    Results,
    Round,
    csv_chunks,
    json_chunks,
    select_rounds,
    stored_estimates,
)
from deniable.server.results.document import Count, SurveyId
from deniable.server.results.periods import DIVISIONS, parse_round
from deniable.server.results.survey_estimates import MAX_ROWS, shown_counters
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.catalogue import UnknownSurvey, entry
from deniable.server.surveys.replacement import refusal, survey_to_replace
from deniable.shared.errors import InvalidSurvey, Refused, UntrustedSurvey, WrongUse
from deniable.shared.survey.document import Survey, parse_document

CSV = "text/csv"
Text = Annotated[str, Meta(min_length=1)]

blueprint = Blueprint("api", __name__)


class SignedSurvey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Survey to publish: its exact text, an Ed25519 signature of it, and the public key."""

    document: Text
    signature: Text
    key: Text


class Counters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of a survey's reports that were accepted, duplicate, or refused, by code."""

    survey: SurveyId
    name: str
    accepted: Count
    duplicates: Count
    refused: dict[str, Count]


# Surveys


@blueprint.post("/v1/surveys")
@require("operator")
def publish_survey() -> Response:
    """Publish a survey signed by an enrolled key; the server itself holds no signing key.

    Every intake process, on any node, lists the survey before the response.
    """
    known = {published.id for published in parts().catalogue.surveys()}
    published = publish_signed(_signed(), replace=request.args.get("replace") == "true")
    return answer(entry(published), 200 if published.id in known else 201)


def publish_signed(signed: SignedSurvey, *, replace: bool) -> PublishedSurvey:
    """Publish a signed survey for the caller; return once every intake process lists it."""
    catalogue, document = parts().catalogue, signed.document.encode()
    if not replace:
        _refuse_other_questions(document)
    try:
        published = catalogue.publish(document, signed.signature, signed.key, caller().name)
    except InvalidSurvey as error:
        raise HttpError(400, str(error), "invalid-survey") from None
    except UntrustedSurvey as error:
        raise HttpError(403, str(error), "untrusted-survey") from None
    except Refused as error:
        raise HttpError(409, str(error), "list-full") from None
    wait_for_intake()
    return published


@blueprint.post("/v1/surveys/<identifier>/close")
@require("operator")
def close(identifier: str) -> Response:
    """Close a survey permanently: it accepts no further reports and cannot be reopened."""
    asked_for(identifier)
    try:
        published = parts().catalogue.to_close(identifier)
    except UnknownSurvey as error:
        raise HttpError(409, str(error)) from None
    return answer(entry(close_survey(published)))


@blueprint.get("/v1/surveys/<identifier>/counters")
@require("analyst")
def show_counters(identifier: str) -> Response:
    published = asked_for(identifier)
    counted = dict(shown_counters(parts().store, published, parts().clock.now()))
    counters = Counters(
        survey=published.id,
        name=published.name,
        accepted=counted.pop("accepted", 0),
        duplicates=counted.pop("duplicates", 0),
        refused=counted,
    )
    return answer(counters)


def _signed() -> SignedSurvey:
    try:
        return msgspec.json.decode(read_body(), type=SignedSurvey)
    except msgspec.ValidationError:
        fields = ", ".join(SignedSurvey.__struct_fields__)
        raise HttpError(400, f"send a JSON object with exactly the text fields {fields}") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON in UTF-8") from None


def _refuse_other_questions(document: bytes) -> None:
    """Refuse to change the questions of a survey in use."""
    try:
        survey = parse_document(document)
    except InvalidSurvey:
        return  # `publish` reports the mistake in it
    surveys, today = parts().catalogue.surveys(), parts().clock.now().date()
    earlier = survey_to_replace(surveys, survey, document, today)
    if earlier and (reason := refusal(earlier, survey)):
        raise HttpError(409, f"{reason} Publish with ?replace=true.", "other-questions")


# Results


@blueprint.get("/v1/surveys/<identifier>/results")
@require("analyst")
def results(identifier: str) -> Response:
    return Response(json_chunks(*requested_results(identifier)), mimetype=JSON)


@blueprint.get("/v1/surveys/<identifier>/results.csv")
@require("analyst")
def results_csv(identifier: str) -> Response:
    header, rounds = requested_results(identifier)
    disposition = {"Content-Disposition": f'attachment; filename="{header.name}-results.csv"'}
    return Response(csv_chunks(header, rounds), mimetype=CSV, headers=disposition)


def requested_results(identifier: str) -> tuple[Results, Iterator[Round]]:
    """Return the results without their rounds, and the rounds that the request asks for."""
    here, language = parts(), request.args.get("language", "")
    published = asked_for(identifier).in_language(language)
    now, asked_by = here.clock.now(), request.args.get("by")
    by = next((division for division in DIVISIONS if division == asked_by), None)
    number, first, last = (_number(published.survey, name) for name in ("round", "from", "until"))
    if number is not None:
        first = last = number
    if by != asked_by:
        raise HttpError(400, f"by must be one of {', '.join(DIVISIONS)}")
    selection = select_rounds(published.survey, now, first, last)
    estimates = stored_estimates(
        here.store, published, now, selection, here.estimates, MAX_ROWS, by
    )
    try:
        if number is not None:
            estimates.check_round(number)
    except Refused as error:
        raise HttpError(404, str(error)) from None
    return estimates.header, estimates.rounds()


def _number(survey: Survey, name: str) -> int | None:
    """Return the round in a query parameter, if present: its number or one of its days."""
    text = request.args.get(name)
    try:
        return None if text is None else parse_round(survey, text)
    except WrongUse:
        raise HttpError(
            400, f"{name} must be a whole number or a day, like ?{name}=683 or ?{name}=2026-12-01"
        ) from None


# Operations


@blueprint.get("/healthz")
def alive() -> Response:
    return Response(b'{"status":"alive"}', mimetype=JSON)


@blueprint.get("/readyz")
def ready() -> Response:
    """Return whether the store can be read; intake reports its own readiness."""
    store = parts().store
    store.surveys_mark()  # an exception becomes the response
    return Response(ready_body(store.failover_risk()), mimetype=JSON)


@blueprint.get("/metrics")
def metrics() -> Response:
    return Response(parts().metrics.text(), content_type=METRICS_TYPE)


@blueprint.get("/metrics/results")
@require("analyst")
def result_metrics() -> Response:
    return Response(ResultMetrics(parts()).text(), content_type=METRICS_TYPE)


@blueprint.get("/v1/openapi.json")
def openapi() -> Response:
    from deniable.server.http.openapi import document_bytes

    return Response(document_bytes(), mimetype=JSON)
