"""Surveys over HTTP: anyone reads, an operator publishes and closes, an analyst reads counters."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Blueprint, Response, request
from msgspec import Meta, Struct

from deniable.server.http.auth import require
from deniable.server.http.context import asked_for, parts
from deniable.server.http.cors import open_to_pages
from deniable.server.http.messages import JSON, HttpError, answer, read_body
from deniable.server.results.document import Count, SurveyId
from deniable.server.surveys.catalogue import SurveyEntry, UnknownSurvey, entry, entry_text
from deniable.server.surveys.replacement import refusal, survey_to_replace
from deniable.shared.errors import InvalidSurvey, Refused, UntrustedSurvey
from deniable.shared.survey.document import parse_document

CACHE = "public, max-age=60"  # the same for everyone, so any cache may answer
Text = Annotated[str, Meta(min_length=1)]

blueprint = Blueprint("surveys", __name__)


class SurveyList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can still be answered, or whose reports are still taken, in the order of publication."""

    surveys: tuple[SurveyEntry, ...]


class SignedSurvey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A survey to publish: the exact text, and its Ed25519 signature by the key, both in hex."""

    document: Text
    signature: Text
    key: Text


class Counters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a survey's reports; those refused by their codes."""

    survey: SurveyId
    name: str
    accepted: Count
    duplicates: Count
    refused: dict[str, Count]


@blueprint.get("/v1/surveys")
def list_surveys() -> Response:
    """Not while the clock is in doubt: who believed it might list nothing, for every device."""
    if parts().writer.doubt():
        raise HttpError(503, "the server's clock is in doubt; ask again later")
    compressed = request.accept_encodings["gzip"] > 0
    response = _public(parts().catalogue.listing(compressed=compressed))
    if compressed:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return open_to_pages(response)


@blueprint.get("/v1/surveys/<identifier>")
def show_survey(identifier: str) -> Response:
    return _public(entry_text(asked_for(identifier)).encode())


@blueprint.post("/v1/surveys")
@require("operator")
def publish_survey() -> Response:
    """The signature must be by a key that is enrolled here: the server itself holds none."""
    signed, catalogue = _signed(), parts().catalogue
    known = {published.id for published in catalogue.surveys()}
    if request.args.get("replace") != "true":
        _refuse_other_questions(signed)
    try:
        published = catalogue.publish(signed.document.encode(), signed.signature, signed.key)
    except InvalidSurvey as error:
        raise HttpError(400, str(error), "invalid-survey") from None
    except UntrustedSurvey as error:
        raise HttpError(403, str(error), "untrusted-survey") from None
    except Refused as error:
        raise HttpError(409, str(error), "list-full") from None
    return answer(entry(published), 200 if published.id in known else 201)


@blueprint.post("/v1/surveys/<identifier>/close")
@require("operator")
def close_survey(identifier: str) -> Response:
    """Closed is closed: the server takes no more reports of it, and nothing opens it again."""
    catalogue, published = parts().catalogue, asked_for(identifier)
    try:
        published = catalogue.to_close(identifier)
    except UnknownSurvey as error:
        raise HttpError(409, str(error)) from None
    return answer(entry(catalogue.close(published)))


@blueprint.get("/v1/surveys/<identifier>/counters")
@require("analyst")
def show_counters(identifier: str) -> Response:
    published = asked_for(identifier)
    counted = dict(parts().store.counters(published.sequence))
    accepted, duplicates = (counted.pop(key, 0) for key in ("accepted", "duplicates"))
    return answer(
        Counters(
            survey=published.id,
            name=published.name,
            accepted=accepted,
            duplicates=duplicates,
            refused=counted,
        )
    )


def _refuse_other_questions(signed: SignedSurvey) -> None:
    """What a deployed app is asked by name does not change unless somebody insists."""
    document = signed.document.encode()
    try:
        survey = parse_document(document)
    except InvalidSurvey:
        return  # which the publishing says
    surveys, today = parts().catalogue.surveys(), parts().clock.now().date()
    earlier = survey_to_replace(surveys, survey, document, today)
    if earlier and (reason := refusal(earlier, survey)):
        raise HttpError(409, f"{reason} Publish with ?replace=true.", "other-questions")


def _public(body: bytes) -> Response:
    response = Response(body, mimetype=JSON)
    response.headers["Cache-Control"] = CACHE
    return response


def _signed() -> SignedSurvey:
    try:
        return msgspec.json.decode(read_body(), type=SignedSurvey)
    except msgspec.ValidationError:
        fields = ", ".join(SignedSurvey.__struct_fields__)
        raise HttpError(400, f"send a JSON object with exactly the texts {fields}") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON in UTF-8") from None
