"""POST /v1/envelopes: reports come in, and are answered once they are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from flask import Blueprint, Response, request
from msgspec import Struct

from deniable.server.http.auth import bearer_role
from deniable.server.http.context import parts
from deniable.server.http.messages import JSON, HttpError, answer, read_body
from deniable.server.intake.admission import Refusal, admit
from deniable.server.intake.writer import Unavailable
from deniable.server.results.document import Count
from deniable.server.store import NO_SURVEY, PublishedSurvey, Upload
from deniable.shared.envelope import (
    CONTENT_TYPE,
    MOST_ENVELOPES,
    MOST_REPORTS,
    Envelope,
    NamedReports,
    parse_envelopes,
    parse_json_envelopes,
)
from deniable.shared.errors import InvalidEnvelope

FROM_ANYONE = 1  # envelope in a body, and report in it, without an app token
BODY_PROBLEMS = {"too-many": 413, "too-long": 413}  # the statuses of those that are no 400
OVER = "reports of this round are no longer taken"
NOWHERE = NO_SURVEY, "unknown"  # the sequence and name that reports for no survey are counted by
ACCEPTED, DUPLICATES = "accepted", "duplicates"
Code = Literal["unknown-survey", "closed", "early", "late", "bad-payload", "too-many"]


class RefusedEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`index` counts the body's envelopes from 0."""

    index: Count
    code: Code
    detail: str


class Receipt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a body: reports that were counted, and that had been already."""

    accepted: Count
    duplicates: Count
    refused: tuple[RefusedEnvelope, ...]


@dataclass(frozen=True, slots=True)
class Handled:
    """An envelope, and what became of it: accepted, duplicates, or the code of its refusal."""

    survey: PublishedSurvey | None
    reports: int
    outcome: str
    detail: str


blueprint = Blueprint("envelopes", __name__)


@blueprint.post("/v1/envelopes")
def receive() -> Response:
    most = _most_reports()
    envelopes = _envelopes(MOST_ENVELOPES if most > FROM_ANYONE else FROM_ANYONE)
    here = parts()
    now = here.clock.now()
    handled = list(_handle([admit(each, here.catalogue, now, most) for each in envelopes]))
    _count(handled)
    return answer(_receipt(handled))


def _handle(decisions: Sequence[Upload | Refusal]) -> Iterator[Handled]:
    """Write what was admitted, and only then say of each what became of it."""
    uploads = [each for each in decisions if isinstance(each, Upload)]
    try:
        outcomes = iter(parts().writer.write(uploads) if uploads else ())
    except Unavailable as error:
        raise HttpError(503, str(error)) from None
    for each in decisions:
        if isinstance(each, Upload):
            yield Handled(each.survey, each.count, next(outcomes), OVER)
        else:
            yield Handled(each.survey, each.count, each.code, each.detail)


def _most_reports() -> int:
    """A token that is sent must be valid: otherwise its sender would never learn that it is not."""
    if "Authorization" not in request.headers:
        return FROM_ANYONE
    role = bearer_role()
    if role is None:
        raise HttpError(401, "the token is unknown here or expired; leave it out, or get a new one")
    if role != "app":
        raise HttpError(
            403, f"reports are sent with an app token or without any; this token's role is {role}"
        )
    return MOST_REPORTS


def _envelopes(most: int) -> Sequence[Envelope | NamedReports]:
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype not in (CONTENT_TYPE, JSON) or charset != "utf-8":
        raise HttpError(415, f"send {CONTENT_TYPE} or {JSON}")
    body = read_body()
    try:
        parse = parse_json_envelopes if request.mimetype == JSON else parse_envelopes
        return parse(body, most)
    except InvalidEnvelope as error:
        status = BODY_PROBLEMS.get(error.code, 400)
        raise HttpError(status, f"{error.detail}; nothing was counted", error.code) from None


def _receipt(handled: Sequence[Handled]) -> Receipt:
    reports = Counter[str]()
    for each in handled:
        reports[each.outcome] += each.reports
    return Receipt(
        accepted=reports[ACCEPTED],
        duplicates=reports[DUPLICATES],
        refused=tuple(
            RefusedEnvelope(index=index, code=cast(Code, each.outcome), detail=each.detail)
            for index, each in enumerate(handled)
            if each.outcome not in (ACCEPTED, DUPLICATES)
        ),
    )


def _count(handled: Sequence[Handled]) -> None:
    """For the operator: what became of how many reports, by survey."""
    here, totals = parts(), Counter[tuple[int, str]]()
    for each in handled:
        sequence, name = (each.survey.sequence, each.survey.id) if each.survey else NOWHERE
        totals[sequence, each.outcome] += each.reports
        here.metrics.reports.labels(name, each.outcome).inc(each.reports)
    here.writer.count(totals)
