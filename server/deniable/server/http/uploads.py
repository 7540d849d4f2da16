"""POST /v1/envelopes: from the bytes of a request to a receipt for the reports on disk.

`parse` reads the envelopes of a body, and `decide` admits or refuses each. Admitted envelopes go to
the writer, and `receipt` counts the outcomes. A sealed envelope is first opened with the keys that
the operator has given this process:

    cannot be opened    refused after some 35 µs of work for each key; 503 if its mark is that of a
                        survey whose key is missing here
    opened              admitted like any other envelope if its survey names the key that opened it,
                        and its mark is that of the survey and round

An app token may stand for a class of installs, such as those from one shop: then its reports may
name one value of one label, and reports without such a token may name no value of that label. A
token may also have an hourly limit. So a leaked token can forge only reports of its own class, up
to its limit.

A relay sends its batches in bodies that it signs. Each report counts in the crowd of its batch, and
a statement about dropped envelopes is stored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.message import Message
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Meta, Struct

from deniable.server.http.messages import BUSY, JSON, HttpError
from deniable.server.http.tokens import authorized
from deniable.server.intake.admission import Refusal, admit
from deniable.server.intake.commit import Outcome
from deniable.server.intake.limits import Limits
from deniable.server.intake.status import Metrics, unreadable_surveys
from deniable.server.intake.writer import Writer
from deniable.server.store import NO_SURVEY, Store, StoreReader, Token, Upload
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
from deniable.shared.errors import EnvelopeCode, InvalidEnvelope, RequestCode, quantity
from deniable.shared.sealed_envelope import (
    BATCH_TYPE,
    SEALED_TYPE,
    UNREADABLE,
    Batch,
    SealedEnvelope,
    mark_of,
    marks_of,
    parse_batch,
    parse_sealed,
    unseal,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FROM_ANYONE = 1  # limit without an app token: one envelope per body, one report per envelope
INSIDE_SEALED = 1  # limit on reports in a sealed envelope, whose number a relay cannot see
TOO_LARGE = ("too-many", "too-long")  # codes of bodies refused with 413; all others get 400
TOKEN_FRESH_SECONDS = 0.25
MAX_FRESH_TOKENS = 1_000
TOKEN_SECONDS = 3_600.0  # after which the counts of all tokens begin again
MISSING_KEY_SECONDS = 60
MANY = "too many reports of this survey came from addresses near this one; send it again later"
OVER_LIMIT = "this app token has sent as many reports of this survey as it may in an hour"
BODY_OVER_LIMIT = "this app token may send {} of one survey in an hour; send fewer in a body"
OTHER_CLASS = "reports that name a value of the label {!r} need an app token bound to that value"
DOUBTED = "the server's clock is not trusted; send the same body again later"
REFUSED_AT_COMMIT: Mapping[str, str] = {  # the detail of each such outcome
    "late": "reports of this round are no longer accepted",
    "invitation-unknown": "this is not an invitation code for this survey",
    "invitation-spent": "another report was counted with this invitation code",
}
WRONG_CODES = frozenset[Outcome](("invitation-unknown", "invitation-spent"))
OTHER_MARK = "the mark of the envelope is not that of its survey and round"
MISSING_KEY = "the server lacks the key to open this; send the same body again later"
UNKNOWN_TOKEN = "the token is unknown or has expired; leave it out, or get a new one"  # noqa: S105 - a sentence
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
    """One refused envelope in a request body; `index` counts from 0."""

    index: Count
    code: EnvelopeCode
    detail: str


class Receipt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outcomes of a body's reports: accepted, duplicate or refused."""

    accepted: Count
    duplicates: Count
    refused: tuple[RefusedEnvelope, ...]


class AppTokens:
    """Cache of app tokens, by `Authorization` header, for a quarter of a second.

    Frequent requests need few lookups, and a revoked token is refused soon. The reports of each
    token are counted in memory for an hour, and only to apply its limit.
    """

    def __init__(self, clock: Clock, store: StoreReader) -> None:
        self._clock, self._store, self._until = clock, store, 0.0
        self._counts = Counter[tuple[str, str]]()  # reports by token and survey, in this hour
        self._fresh: dict[str, tuple[Token, float]] = {}
        self.read_labels()

    def remember(self, authorization: str, token: Token, asked: float) -> None:
        if len(self._fresh) >= MAX_FRESH_TOKENS:
            self._fresh.clear()
        self._fresh[authorization] = token, asked + TOKEN_FRESH_SECONDS

    def fresh_for(self, authorization: str) -> float:
        """Return the seconds until the entry expires; 0 or less if it has expired."""
        _, until = self._fresh.get(authorization, (None, 0.0))
        return until - self._clock.seconds()

    def find(self, authorization: str | None) -> Token | None:
        """Return the token that was just looked up; None without one, or if others displaced it."""
        token, _ = self._fresh.get(authorization or "", (None, 0.0))
        return token

    def read_labels(self) -> None:
        """Read the labels whose values need a token, even if none is valid any more."""
        names = {token.class_of_installs[0] for token in self._store.tokens()}
        self.bound_labels = frozenset(names - {""})

    def reserve(
        self, authorization: str | None, decisions: Sequence[Decision]
    ) -> tuple[Token, float] | None:
        """Count a body's admitted reports, or refuse the body if its token has sent too many.

        If the token has a limit, return the token and the end of the hour.
        """
        token = self.find(authorization)
        if token is None and authorization is not None:
            raise HttpError(503, BUSY)  # the next try looks it up again
        if token is None or not token.limit:
            return None
        if self._clock.seconds() >= self._until:
            self._counts.clear()
            self._until = self._clock.seconds() + TOKEN_SECONDS
        totals = Counter[str]()
        for decision in decisions:
            if isinstance(decision, Upload):
                totals[decision.survey.id] += decision.count
        if max(totals.values(), default=0) > token.limit:
            most = quantity(token.limit, "report")
            raise HttpError(413, BODY_OVER_LIMIT.format(most), "too-many")
        if any(self._counts[token.id, survey] + n > token.limit for survey, n in totals.items()):
            seconds = math.ceil(self._until - self._clock.seconds())
            raise HttpError(429, OVER_LIMIT, "rate-limited", seconds)
        for survey, reports in totals.items():
            self._counts[token.id, survey] += reports
        return token, self._until

    def give_back(
        self,
        reserved: tuple[Token, float] | None,
        decisions: Sequence[Decision],
        written: Sequence[Outcome] = (),
    ) -> None:
        """Count only the reports that were accepted."""
        if reserved is None or reserved[1] != self._until:  # or the next hour has begun
            return
        uploads = (decision for decision in decisions if isinstance(decision, Upload))
        for upload, outcome in zip_longest(uploads, written):
            if outcome != ACCEPTED:
                self._counts[reserved[0].id, upload.survey.id] -= upload.count


@dataclass(frozen=True)
class Intake:
    store: Store
    catalogue: Catalogue
    writer: Writer
    clock: Clock
    metrics: Metrics
    app_tokens: AppTokens
    limits: Limits | None = None  # None if there is no limit
    # Private keys that open sealed reports, by their public halves
    sealing: Mapping[str, X25519PrivateKey] = field(default_factory=dict, repr=False)
    relays: Collection[str] = ()  # public keys of relays whose batches count as shuffled


@dataclass(frozen=True, slots=True)
class Sent:
    """Parts of a request that determine the outcome of its reports."""

    content_type: str
    authorization: str | None
    body: bytes
    sender: bytes | None = None  # network neighbourhood of the sender; None if it is not needed
    invitation: bytes = b""  # hash of the invitation code, which then is no app token


def check_app_token(intake: Intake, authorization: str) -> None:
    """Query the store for the app token in the header; refuse an invalid token.

    If an invalid token were ignored, its sender would never notice.
    """
    asked = intake.clock.seconds()
    token = authorized(authorization, intake.store, intake.clock.now())
    if token is None:
        raise HttpError(401, UNKNOWN_TOKEN)
    if token.role != "app":
        raise HttpError(
            403,
            f"send reports with an app token or without a token; this token's role is {token.role}",
        )
    intake.app_tokens.remember(authorization, token, asked)


def parse(intake: Intake, sent: Sent) -> Sequence[Parsed]:
    """Return the envelopes of a body, all of the same kind: at least one, except from a relay."""
    envelopes_at_most = FROM_ANYONE if sent.authorization is None else MAX_ENVELOPES
    try:
        if sent.content_type == BATCH_TYPE:
            batch, packed = parse_batch(sent.body, intake.relays)
            return _of_batch(batch, packed, min(envelopes_at_most, batch.size))
        parser = PARSERS.get(sent.content_type) or _parser(sent.content_type)
        return parser(sent.body, envelopes_at_most)
    except InvalidEnvelope as error:
        status = 413 if error.code in TOO_LARGE else 400
        code = cast(RequestCode, error.code)  # a code for bodies, not for envelopes
        raise HttpError(status, f"{error.detail}; nothing was counted", code) from None


def _of_batch(batch: Batch, packed: bytes, most: int) -> list[SealedEnvelope]:
    envelopes = parse_sealed(packed, most) if packed else []
    return [envelope._replace(batch=batch.number) for envelope in envelopes]


def note_drop(intake: Intake, sent: Sent) -> None:
    """Store how many envelopes a relay has dropped, once for each batch."""
    batch, _ = parse_batch(sent.body, intake.relays)
    if not batch.dropped:
        return
    for published in intake.catalogue.surveys():
        survey, public = published.survey, published.survey.sealed_to
        for number in range(survey.first_round, survey.last_round + 1) if public else ():
            if public and mark_of(public, published.id, number) == batch.mark:
                counted = published.sequence, number, batch.number
                intake.store.count_dropped(*counted, batch.dropped)
                return


def decide(intake: Intake, sent: Sent, envelopes: Sequence[Parsed]) -> list[Decision]:
    """Admit or refuse envelopes of a request whose token has been checked; write nothing."""
    if intake.writer.clock_fault():
        raise HttpError(503, DOUBTED)
    most = FROM_ANYONE if sent.authorization is None else MAX_REPORTS
    now, decisions = intake.clock.now(), list[Decision]()
    for envelope in envelopes:
        if isinstance(envelope, SealedEnvelope):
            decision = _open(intake, envelope, now)
        else:
            invitation = sent.invitation
            decision = admit(envelope, intake.catalogue, now, most, invitation=invitation)
        if isinstance(decision, Upload):
            _limit(intake.limits, sent, decision)
            decision = _other_class(intake.app_tokens, sent, decision) or decision
        decisions.append(decision)
    return decisions


def count_wrong_code(
    intake: Intake, sent: Sent, decisions: Sequence[Decision], written: Sequence[Outcome]
) -> None:
    """Count an upload with an unknown or spent invitation against its sender's limit."""
    if intake.limits is None or sent.sender is None or not WRONG_CODES.intersection(written):
        return
    for decision in decisions:
        if isinstance(decision, Upload) and decision.invitation:
            intake.limits.wait(sent.sender, decision.survey.id)


def receipt(intake: Intake, decisions: Sequence[Decision], written: Sequence[Outcome]) -> Receipt:
    """Return the receipt once the uploads are on disk, and count the outcomes."""
    outcomes, refused = iter(written), list[RefusedEnvelope]()
    reports, totals = Counter[str](), Counter[tuple[int, str]]()
    for index, decision in enumerate(decisions):
        if isinstance(decision, Upload):
            outcome: str = next(outcomes)
            detail = REFUSED_AT_COMMIT.get(outcome)
        else:
            outcome, detail = decision.code, decision.detail
        if detail is not None:
            code = cast(EnvelopeCode, outcome)
            refused.append(RefusedEnvelope(index=index, code=code, detail=detail))
        survey = decision.survey
        sequence = survey.sequence if survey else NO_SURVEY
        reports[outcome] += decision.count
        totals[sequence, outcome] += decision.count
    intake.writer.count(totals)
    return Receipt(
        accepted=reports[ACCEPTED], duplicates=reports[DUPLICATES], refused=tuple(refused)
    )


def _parser(content_type: str) -> Parser:
    """Return the parser for a media type, ignoring parameters and case."""
    message = Message()
    message["Content-Type"] = content_type
    kind, charset = message.get_content_type(), str(message.get_param("charset", "utf-8"))
    if kind not in PARSERS or charset.lower() != "utf-8":
        raise HttpError(415, f"send {CONTENT_TYPE}, {SEALED_TYPE} or {JSON}")
    return PARSERS[kind]


def _open(intake: Intake, sealed: SealedEnvelope, now: datetime) -> Decision:
    """Decide about a sealed envelope.

    If its key is missing here, the whole body is refused with 503, so that the sender keeps it.
    """
    for public, key in intake.sealing.items():
        try:
            opened = unseal(sealed, key)
        except InvalidEnvelope:
            continue
        if mark_of(public, opened.survey, opened.round) != sealed.mark:
            return Refusal(None, 1, "bad-payload", OTHER_MARK)
        decision = admit(opened, intake.catalogue, now, INSIDE_SEALED, public)
        return replace(decision, batch=sealed.batch) if isinstance(decision, Upload) else decision
    for published in unreadable_surveys(intake.catalogue, intake.sealing, now):
        if sealed.mark in marks_of(published.id, published.survey, now):
            raise HttpError(503, MISSING_KEY, retry_after=MISSING_KEY_SECONDS)
    return Refusal(None, 1, "bad-payload", UNREADABLE)


def _other_class(tokens: AppTokens, sent: Sent, upload: Upload) -> Refusal | None:
    """Refuse reports that name a value of a bound label without the token of that value."""
    survey, token, start = upload.survey.survey, tokens.find(sent.authorization), 0
    for label in survey.labels if tokens.bound_labels else ():
        if label.name in tokens.bound_labels and not label.is_drawn:
            bound, value = token.class_of_installs if token else ("", "")
            allowed = {label.encode(None), label.encode(value if bound == label.name else None)}
            starts = range(start, len(upload.payload), survey.report_size)
            if any(upload.payload[at : at + label.size] not in allowed for at in starts):
                detail = OTHER_CLASS.format(label.name)
                return Refusal(upload.survey, upload.count, "bad-payload", detail)
        start += label.size
    return None


def _limit(limits: Limits | None, sent: Sent, upload: Upload) -> None:
    """Count an upload without a token, which has one report, against its sender's limit.

    With an invitation, only check the limit: a class may share an address, and only wrong codes
    count (`count_wrong_code`).
    """
    if limits is None or sent.authorization is not None or sent.sender is None:
        return
    if seconds := limits.wait(sent.sender, upload.survey.id, reports=0 if upload.invitation else 1):
        raise HttpError(429, MANY, "rate-limited", seconds)
