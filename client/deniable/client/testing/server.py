"""A server in memory, that speaks the protocol as the real one does; a test holds the two together.

It signs what it lists with a key of its own, made anew for each server, that no app trusts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.client.net.transport import Reply, Unreachable
from deniable.shared.envelope import Envelope, decode_reports, parse_envelopes
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.document import (
    Survey,
    parse_document,
    parse_toml,
    render_document,
    survey_id,
)
from deniable.shared.survey.keys import public_hex, sign

Source = str | PathLike[str] | bytes  # a file, or its content: TOML or a published document
Trouble = Literal["", "unreachable", "busy"]
FROM_ANYONE = 1  # envelope in a body: no client has a token


@dataclass(frozen=True)
class SentReport:
    """What reached the server, and nothing else did: symbols by question. They may be lies."""

    survey: str
    round: int
    symbols: Mapping[str, int]


class FakeServer:
    """`trouble` is what goes wrong with every request: nobody is there, or it answers 503."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.trouble: Trouble = ""
        self.requests: list[tuple[str, str]] = []  # method and path of each, in order
        self.sent: list[SentReport] = []
        self._now = now
        self._key = Ed25519PrivateKey.generate()
        self._listed: dict[str, tuple[Survey, dict[str, str]]] = {}
        self._taken: set[tuple[str, int, bytes]] = set()

    @property
    def key(self) -> str:
        """The public key that signs its surveys."""
        return public_hex(self._key)

    def publish(self, source: Source) -> Survey:
        """A survey as people write it, or a published document. A number that names no mechanism
        gets the best that has a formula: an optimal table is made by `deniable survey publish`."""
        text = source if isinstance(source, bytes) else Path(source).read_bytes()
        survey = parse_document(text) if text[:1] == b"{" else parse_toml(text.decode())
        document = render_document(survey)
        id_ = survey_id(document)
        entry = {"id": id_, "document": document.decode(), "signature": sign(document, self._key)}
        self._listed[id_] = survey, {**entry, "key": self.key, "state": "open"}
        return survey

    def close(self, name: str) -> None:
        """As the operator closes a survey."""
        for survey, entry in self._listed.values():
            if survey.name == name:
                entry["state"] = "closed"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str | None,  # noqa: ARG002 # a client has one only
        timeout: float,  # noqa: ARG002 # it replies at once
    ) -> Reply:
        self.requests.append((method, path))
        if self.trouble == "unreachable":
            raise Unreachable("nobody there")
        if self.trouble == "busy":
            return Reply(503, b"", "600")
        if method == "GET":
            listed = [entry for _, entry in self._listed.values()]
            return Reply(200, json.dumps({"surveys": listed}).encode())
        try:
            envelopes = parse_envelopes(body or b"", FROM_ANYONE)
        except InvalidEnvelope as error:
            status = 413 if error.code == "too-many" else 400
            problem = json.dumps({"type": "about:blank", "status": status}).encode()
            return Reply(status, problem, None, "application/problem+json")
        return self._receipt(envelopes)

    def _receipt(self, envelopes: list[Envelope]) -> Reply:
        accepted, refused = 0, []
        for index, envelope in enumerate(envelopes):
            try:
                accepted += self._take(envelope)
            except InvalidEnvelope as error:
                refused.append({"index": index, "code": error.code, "detail": error.detail})
        duplicates = len(envelopes) - accepted - len(refused)
        table = {"accepted": accepted, "duplicates": duplicates, "refused": refused}
        return Reply(200, json.dumps(table).encode())

    def _take(self, envelope: Envelope) -> bool:
        """Whether it is counted, and not there already."""
        if envelope.survey not in self._listed:
            raise InvalidEnvelope("unknown-survey", "no survey with this id is published here")
        survey, entry = self._listed[envelope.survey]
        if entry["state"] != "open":
            raise InvalidEnvelope("closed", "the survey is closed")
        _check_round(survey, envelope.round, self._now())
        if envelope.count > 1:
            raise InvalidEnvelope("too-many", "one report in an envelope without an app token")
        (symbols,) = decode_reports(survey, envelope)
        known = (envelope.survey, envelope.round, envelope.id)
        if known in self._taken:
            return False
        self._taken.add(known)
        names = [question.name for question in survey.questions]
        pairs = zip(names, symbols, strict=True)
        named = {name: symbol for name, symbol in pairs if symbol is not None}  # what was asked
        self.sent.append(SentReport(survey.name, envelope.round, named))
        return True


def _check_round(survey: Survey, number: int, now: datetime) -> None:
    first, last = survey.first_round, survey.last_round
    if number < first or (number <= last and now >= survey.taken_until(number)):
        raise InvalidEnvelope("late", f"reports of round {number} are no longer taken")
    if number > last or now < survey.taken_from(number):
        raise InvalidEnvelope("early", f"round {number} has not begun")
