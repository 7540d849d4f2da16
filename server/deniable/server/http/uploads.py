"""POST /v1/envelopes: from the bytes of a request to a receipt for what is on disk.

Parsed, each envelope is admitted or refused (`decide`); what is admitted goes to the writer; the
receipt counts what became of each (`receipt`). A sealed envelope is opened first, by the keys that
the operator has given this process:

    unknown key         refused, unless a survey that takes reports names a key that is missing here
    cannot be opened    refused, after some 35 µs of work; what is too long is refused before
    opened              admitted as any other envelope, if its survey names the key that opened it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Meta, Struct

from deniable.server.http.messages import JSON, HttpError
from deniable.server.http.tokens import authorized_role
from deniable.server.intake.admission import Refusal, admit
from deniable.server.intake.commit import Outcome
from deniable.server.intake.limits import Limits
from deniable.server.intake.metrics import Metrics
from deniable.server.intake.status import missing_keys
from deniable.server.intake.writer import Writer
from deniable.server.store import NO_SURVEY, PublishedSurvey, Store, Upload
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
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
from deniable.shared.sealed_envelope import (
    SEALED_TYPE,
    UNREADABLE,
    SealedEnvelope,
    parse_sealed,
    unseal,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FROM_ANYONE = 1  # envelope in a body, and report in it, without an app token
INSIDE_SEALED = 1  # report in a sealed envelope: who passes it on with a token cannot see how many
TOO_LARGE = ("too-many", "too-long")  # codes of bodies that are refused with 413, the others 400
TOKEN_FRESH_SECONDS = 0.25
MAX_FRESH_TOKENS = 1_000
MISSING_KEY_SECONDS = 60
MANY = "many reports of this survey have come from near this address; send it again later"
DOUBTED = "the server's clock is in doubt; send the same body again later"
LATE = "reports of this round are no longer taken"
MISSING_KEY = "the key to open this is not here now; send the same body again later"
UNKNOWN_TOKEN = "the token is unknown here or expired; leave it out, or get a new one"  # noqa: S105 - a sentence
ACCEPTED, DUPLICATES = "accepted", "duplicates"

Count = Annotated[int, Meta(ge=0)]
Decision = Upload | Refusal
Parsed = Envelope | NamedReports | SealedEnvelope
Parser = Callable[[bytes, int], Sequence[Parsed]]
PARSERS: Mapping[str, Parser] = {
    CONTENT_TYPE: parse_envelopes,
    SEALED_TYPE: parse_sealed,
    JSON: parse_json_envelopes,
}


class RefusedEnvelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`index` counts the body's envelopes from 0."""

    index: Count
    code: EnvelopeCode
    detail: str


class Receipt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reports of a body that were counted, that had been counted before, and that were refused."""

    accepted: Count
    duplicates: Count
    refused: tuple[RefusedEnvelope, ...]


class AppTokens:
    """App tokens that were looked up in the last quarter of a second, by `Authorization` header.

    An app that sends often is not looked up each time, and a revoked token is soon refused.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def remember(self, authorization: str, asked: float) -> None:
        """Note that the store, asked at this time, knew the token as an app's."""
        if len(self._until) >= MAX_FRESH_TOKENS:
            self._until.clear()
        self._until[authorization] = asked + TOKEN_FRESH_SECONDS

    def fresh_for(self, authorization: str) -> float:
        """Return the seconds until the store must be asked; not above 0 if it must be now."""
        return self._until.get(authorization, 0.0) - self._clock.seconds()


@dataclass(frozen=True)
class Intake:
    """Everything that an upload passes on its way to the disk."""

    store: Store
    catalogue: Catalogue
    writer: Writer
    clock: Clock
    metrics: Metrics
    app_tokens: AppTokens
    limits: Limits | None = None  # None: no limit
    # Private keys that open sealed reports, by the marks of the public keys
    sealing: Mapping[bytes, X25519PrivateKey] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Sent:
    """The parts of a request that decide what becomes of its reports."""

    content_type: str
    authorization: str | None
    body: bytes
    sender: bytes | None = None  # the neighbourhood of its address; None: not asked for


@dataclass(frozen=True, slots=True)
class _Handled:
    """An envelope, and its outcome: accepted, duplicates, or the code of its refusal."""

    survey: PublishedSurvey | None
    reports: int
    outcome: str
    detail: str


def max_reports(intake: Intake, authorization: str | None) -> int:
    """Return how many reports one envelope may hold, which is also 1 if a body may hold 1 envelope.

    A token that is sent must be valid: otherwise its sender would never learn that it is not.
    """
    if authorization is None:
        return FROM_ANYONE
    if intake.app_tokens.fresh_for(authorization) <= 0:
        check_app_token(intake, authorization)
    return MAX_REPORTS


def check_app_token(intake: Intake, authorization: str) -> None:
    """Ask the store whether the header holds an app token."""
    asked = intake.clock.seconds()
    role = authorized_role(authorization, intake.store, intake.clock.now())
    if role is None:
        raise HttpError(401, UNKNOWN_TOKEN)
    if role != "app":
        raise HttpError(
            403, f"reports are sent with an app token or without any; this token's role is {role}"
        )
    intake.app_tokens.remember(authorization, asked)


def parse(content_type: str, body: bytes, most: int) -> Sequence[Parsed]:
    """Return the envelopes of a body: at least one, and all of one kind."""
    envelopes_at_most = MAX_ENVELOPES if most > FROM_ANYONE else FROM_ANYONE
    parser = PARSERS.get(content_type) or _parser(content_type)
    try:
        return parser(body, envelopes_at_most)
    except InvalidEnvelope as error:
        status = 413 if error.code in TOO_LARGE else 400
        code = cast(RequestCode, error.code)  # of a body, not of an envelope
        raise HttpError(status, f"{error.detail}; nothing was counted", code) from None


def decide(intake: Intake, sent: Sent) -> list[Decision]:
    """Decide what becomes of each envelope of a request; nothing has happened yet."""
    most = max_reports(intake, sent.authorization)
    return decide_some(intake, sent, parse(sent.content_type, sent.body, most), most)


def decide_some(
    intake: Intake, sent: Sent, envelopes: Sequence[Parsed], most: int
) -> list[Decision]:
    """Decide what becomes of these envelopes, which have been parsed from a request."""
    if intake.writer.doubt():
        raise HttpError(503, DOUBTED)
    now, decisions = intake.clock.now(), list[Decision]()
    for envelope in envelopes:
        if isinstance(envelope, SealedEnvelope):
            decision = _open(intake, envelope, now)
        else:
            decision = admit(envelope, intake.catalogue, now, most)
        if isinstance(decision, Upload):
            _limit(intake.limits, sent, decision)
        decisions.append(decision)
    return decisions


def receipt(intake: Intake, decisions: Sequence[Decision], written: Sequence[Outcome]) -> Receipt:
    """Return the answer, once the uploads are on disk, and count it for the operator."""
    outcomes = iter(written)
    handled = [
        _Handled(decision.survey, decision.count, next(outcomes), LATE)
        if isinstance(decision, Upload)
        else _Handled(decision.survey, decision.count, decision.code, decision.detail)
        for decision in decisions
    ]
    _count(intake, handled)
    reports = Counter[str]()
    for envelope in handled:
        reports[envelope.outcome] += envelope.reports
    return Receipt(
        accepted=reports[ACCEPTED],
        duplicates=reports[DUPLICATES],
        refused=tuple(
            RefusedEnvelope(
                index=index, code=cast(EnvelopeCode, envelope.outcome), detail=envelope.detail
            )
            for index, envelope in enumerate(handled)
            if envelope.outcome not in (ACCEPTED, DUPLICATES)
        ),
    )


def _parser(content_type: str) -> Parser:
    """Find the parser of a type that has parameters, or unusual capitals."""
    message = Message()
    message["Content-Type"] = content_type
    kind, charset = message.get_content_type(), str(message.get_param("charset", "utf-8"))
    if kind not in PARSERS or charset.lower() != "utf-8":
        raise HttpError(415, f"send {CONTENT_TYPE}, {SEALED_TYPE} or {JSON}")
    return PARSERS[kind]


def _open(intake: Intake, sealed: SealedEnvelope, now: datetime) -> Decision:
    key = intake.sealing.get(sealed.mark)
    if key is None:
        _refuse_if_key_is_missing(intake, sealed.mark, now)
        return Refusal(None, 1, "bad-payload", UNREADABLE)
    try:
        opened = unseal(sealed, key)
    except InvalidEnvelope as error:
        return Refusal(None, 1, "bad-payload", error.detail)
    return admit(opened, intake.catalogue, now, INSIDE_SEALED, sealed.mark)


def _refuse_if_key_is_missing(intake: Intake, mark: bytes, now: datetime) -> None:
    """Refuse the whole body with 503: its sender keeps it until the key is here."""
    missing: Iterable[tuple[bytes, PublishedSurvey]] = missing_keys(
        intake.catalogue, intake.sealing, now
    )
    if any(mark == missing_mark for missing_mark, _ in missing):
        raise HttpError(503, MISSING_KEY, retry_after=MISSING_KEY_SECONDS)


def _limit(limits: Limits | None, sent: Sent, upload: Upload) -> None:
    """Count an upload without a token, which has one report, for its sender's neighbourhood."""
    if limits is None or sent.authorization is not None or sent.sender is None:
        return
    if seconds := limits.wait(sent.sender, upload.survey.id):
        raise HttpError(429, MANY, "rate-limited", seconds)


def _count(intake: Intake, handled: Sequence[_Handled]) -> None:
    """Count the outcomes by survey, for the operator."""
    totals = Counter[tuple[int, str]]()
    for envelope in handled:
        survey = envelope.survey
        sequence, name = (survey.sequence, survey.id) if survey else (NO_SURVEY, "unknown")
        totals[sequence, envelope.outcome] += envelope.reports
        intake.metrics.reports(name, envelope.outcome).inc(envelope.reports)
    intake.writer.count(totals)
