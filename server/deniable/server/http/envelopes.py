"""POST /v1/envelopes: reports come in, and are answered once they are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flask import Blueprint, jsonify, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import bearer_role
from deniable.server.http.bodies import BadRequest, read_body
from deniable.server.http.context import parts
from deniable.server.intake.admission import Refusal, judge
from deniable.server.intake.commit import Verdict
from deniable.server.intake.writer import Unavailable
from deniable.server.store import Upload
from deniable.shared.envelope import (
    CONTENT_TYPE,
    MOST_REPORTS,
    Envelope,
    NamedReports,
    parse_envelopes,
    parse_json_envelopes,
)
from deniable.shared.errors import InvalidEnvelope

JSON = "application/json"
MOST_ENVELOPES = 4_096  # in one body
FROM_ANYONE = 1  # report in an envelope, without an app token
OVER = "reports of this round are no longer taken"
NO_SURVEY = 0, "unknown"  # the sequence and name under which reports for no survey are counted
ACCEPTED, DUPLICATES = "accepted", "duplicates"
NAMES: Mapping[Verdict, str] = {"accepted": ACCEPTED, "duplicate": DUPLICATES, "late": "late"}

Outcome = tuple[Upload | Refusal, str]  # what was judged, and what became of it

blueprint = Blueprint("ingest", __name__)


@blueprint.post("/v1/envelopes")
def receive() -> ResponseReturnValue:
    most = _most_reports()
    envelopes = _envelopes()
    here = parts()
    now = here.now()
    judged = [judge(envelope, here.catalogue, now, most) for envelope in envelopes]
    uploads = [each for each in judged if isinstance(each, Upload)]
    try:
        verdicts = iter(here.writer.write(uploads) if uploads else [])
    except Unavailable as error:
        raise BadRequest(503, str(error)) from None
    outcomes = [
        (each, NAMES[next(verdicts)] if isinstance(each, Upload) else each.code) for each in judged
    ]
    _count(outcomes)
    return jsonify(_answer(outcomes))


def _most_reports() -> int:
    """A token that is sent must be one that counts: else its sender would never learn."""
    if "Authorization" not in request.headers:
        return FROM_ANYONE
    role = bearer_role()
    if role is None:
        raise BadRequest(401, "the token is not known here, or has ended; leave it out or renew it")
    if role != "app":
        raise BadRequest(
            403, f"reports are sent with an app token or none; this one's role is {role}"
        )
    return MOST_REPORTS


def _envelopes() -> Sequence[Envelope | NamedReports]:
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype not in (CONTENT_TYPE, JSON) or charset != "utf-8":
        raise BadRequest(415, f"send {CONTENT_TYPE} or {JSON}")
    body = read_body()
    try:
        parse = parse_json_envelopes if request.mimetype == JSON else parse_envelopes
        envelopes: Sequence[Envelope | NamedReports] = parse(body)
    except InvalidEnvelope as error:
        raise BadRequest(400, f"{error.detail}; nothing was counted", error.code) from None
    if len(envelopes) > MOST_ENVELOPES:
        raise BadRequest(
            413, f"a body holds at most {MOST_ENVELOPES} envelopes; nothing was counted"
        )
    return envelopes


def _answer(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    refused = [
        {"index": index, "code": code, "detail": each.detail if isinstance(each, Refusal) else OVER}
        for index, (each, code) in enumerate(outcomes)
        if code not in (ACCEPTED, DUPLICATES)
    ]
    reports = Counter[str]()
    for each, code in outcomes:
        reports[code] += each.count
    return {ACCEPTED: reports[ACCEPTED], DUPLICATES: reports[DUPLICATES], "refused": refused}


def _count(outcomes: Sequence[Outcome]) -> None:
    """For the operator: how many reports ended how, by survey."""
    here = parts()
    totals = Counter[tuple[int, str]]()
    for each, code in outcomes:
        sequence, identifier = (each.survey.sequence, each.survey.id) if each.survey else NO_SURVEY
        totals[sequence, code] += each.count
        here.metrics.reports.labels(identifier, code).inc(each.count)
    here.writer.count(totals)
