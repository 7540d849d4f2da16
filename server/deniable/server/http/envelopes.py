"""POST /v1/envelopes: reports come in, and are answered once they are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from flask import Blueprint, Response, request
from msgspec import Struct
from werkzeug.http import parse_options_header

from deniable.server.http.auth import authorized_role
from deniable.server.http.context import Parts, parts
from deniable.server.http.cors import open_to_pages
from deniable.server.http.messages import JSON, HttpError, answer, read_body
from deniable.server.http.sealed import decide_sealed
from deniable.server.intake.admission import Refusal, admit
from deniable.server.intake.commit import Outcome
from deniable.server.intake.limits import Limits
from deniable.server.intake.writer import Unavailable
from deniable.server.results.document import Count
from deniable.server.store import NO_SURVEY, PublishedSurvey, Upload
from deniable.shared.envelope import (
    CONTENT_TYPE,
    MAX_ENVELOPES,
    MAX_REPORTS,
    Envelope,
    NamedReports,
    parse_envelopes,
    parse_json_envelopes,
)
from deniable.shared.errors import EnvelopeCode, InvalidEnvelope, RequestCode
from deniable.shared.sealed_envelope import SEALED_TYPE, SealedEnvelope, parse_sealed

FROM_ANYONE = 1  # envelope in a body, and report in it, without an app token
BODY_PROBLEMS: dict[str, int] = {
    "too-many": 413,
    "too-long": 413,
}  # the statuses of those that are no 400
MANY = "many reports of this survey have come from near this address; send it again later"
DOUBTED = "the server's clock is in doubt; send the same body again later"
SENDER = "deniable.sender"  # where the front tells the application; no header can say it
OVER = "reports of this round are no longer taken"
NOWHERE = NO_SURVEY, "unknown"  # the sequence and name that reports for no survey are counted by
ACCEPTED, DUPLICATES = "accepted", "duplicates"
Decision = Upload | Refusal
Parsed = Envelope | NamedReports | SealedEnvelope


class RefusedEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`index` counts the body's envelopes from 0."""

    index: Count
    code: EnvelopeCode
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


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with reports, whichever way it came in: what decides about it, and nothing else."""

    content_type: str
    authorization: str | None
    body: bytes
    sender: bytes | None = None  # the neighbourhood of its address; None: not asked for


blueprint = Blueprint("envelopes", __name__)
blueprint.after_request(open_to_pages)


@blueprint.post("/v1/envelopes")
def receive() -> Response:
    body = read_body()
    authorization = request.headers.get("Authorization")
    sent = Sent(request.content_type or "", authorization, body, request.environ.get(SENDER))
    here = parts()
    decisions = decide(here, sent)
    uploads = uploads_of(decisions)
    try:
        written = here.writer.write(uploads) if uploads else ()
    except Unavailable as error:
        raise HttpError(503, str(error)) from None
    return answer(receipt(here, decisions, written))


def decide(here: Parts, sent: Sent) -> Sequence[Decision]:
    """What is to become of each envelope; nothing has happened yet."""
    most = _most_reports(here, sent.authorization)
    envelopes = _envelopes(sent, MAX_ENVELOPES if most > FROM_ANYONE else FROM_ANYONE)
    if here.writer.doubt():
        raise HttpError(503, DOUBTED)
    now = here.clock.now()
    if isinstance(envelopes[0], SealedEnvelope):
        decisions = decide_sealed(here, cast(Sequence[SealedEnvelope], envelopes), now)
    else:
        plain = cast(Sequence[Envelope | NamedReports], envelopes)
        decisions = [admit(each, here.catalogue, now, most) for each in plain]
    if here.limits and sent.authorization is None and sent.sender is not None:
        _limit(here.limits, sent.sender, decisions)
    return decisions


def _limit(limits: Limits, sender: bytes, decisions: Sequence[Decision]) -> None:
    """Only what would be counted is: one upload, of one report."""
    for each in decisions:
        if isinstance(each, Upload) and (seconds := limits.wait(sender, each.survey.id)):
            raise HttpError(429, MANY, "rate-limited", seconds)


def uploads_of(decisions: Sequence[Decision]) -> list[Upload]:
    """What has to be on disk before something is said."""
    return [each for each in decisions if isinstance(each, Upload)]


def receipt(here: Parts, decisions: Sequence[Decision], written: Sequence[Outcome]) -> Receipt:
    """The answer, once the uploads are on disk; counted for the operator too."""
    each_written = iter(written)
    handled = [
        Handled(each.survey, each.count, next(each_written), OVER)
        if isinstance(each, Upload)
        else Handled(each.survey, each.count, each.code, each.detail)
        for each in decisions
    ]
    _count(here, handled)
    return _receipt(handled)


def _most_reports(here: Parts, authorization: str | None) -> int:
    """A token that is sent must be valid: otherwise its sender would never learn that it is not."""
    if authorization is None:
        return FROM_ANYONE
    if here.app_tokens.fresh_for(authorization) <= 0:
        check_app_token(here, authorization)
    return MAX_REPORTS


def check_app_token(here: Parts, authorization: str) -> None:
    """Ask the store."""
    asked = here.clock.seconds()
    role = authorized_role(authorization, here)
    if role is None:
        raise HttpError(401, "the token is unknown here or expired; leave it out, or get a new one")
    if role != "app":
        raise HttpError(
            403, f"reports are sent with an app token or without any; this token's role is {role}"
        )
    here.app_tokens.remember(authorization, asked)


def _envelopes(sent: Sent, most: int) -> Sequence[Parsed]:
    """At least one, and all of one kind."""
    parse = PARSERS.get(sent.content_type) or _parser(sent.content_type)
    try:
        return parse(sent.body, most)
    except InvalidEnvelope as error:
        status = BODY_PROBLEMS.get(error.code, 400)
        code = cast(RequestCode, error.code)  # of a body, not of an envelope
        raise HttpError(status, f"{error.detail}; nothing was counted", code) from None


def _parser(content_type: str) -> Parser:
    """Of a type that is written otherwise, or has parameters."""
    kind, options = parse_options_header(content_type)
    if kind.lower() not in PARSERS or options.get("charset", "utf-8").lower() != "utf-8":
        raise HttpError(415, f"send {CONTENT_TYPE}, {SEALED_TYPE} or {JSON}")
    return PARSERS[kind.lower()]


Parser = Callable[[bytes, int], Sequence[Parsed]]
PARSERS: Mapping[str, Parser] = {
    CONTENT_TYPE: parse_envelopes,
    SEALED_TYPE: parse_sealed,
    JSON: parse_json_envelopes,
}


def _receipt(handled: Sequence[Handled]) -> Receipt:
    reports = Counter[str]()
    for each in handled:
        reports[each.outcome] += each.reports
    return Receipt(
        accepted=reports[ACCEPTED],
        duplicates=reports[DUPLICATES],
        refused=tuple(
            RefusedEnvelope(index=index, code=cast(EnvelopeCode, each.outcome), detail=each.detail)
            for index, each in enumerate(handled)
            if each.outcome not in (ACCEPTED, DUPLICATES)
        ),
    )


def _count(here: Parts, handled: Sequence[Handled]) -> None:
    """For the operator: what became of how many reports, by survey."""
    totals = Counter[tuple[int, str]]()
    for each in handled:
        sequence, name = (each.survey.sequence, each.survey.id) if each.survey else NOWHERE
        totals[sequence, each.outcome] += each.reports
        here.metrics.reports(name, each.outcome).inc(each.reports)
    here.writer.count(totals)
