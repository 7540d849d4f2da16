"""The real client with a server in memory, a clock that a test moves, and noise that it may seed.

The server follows the same protocol as the real one; a test compares the two. It signs surveys with
a new key, which no app trusts.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.client.client import NO_LABELS, Client
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.policy import Policy
from deniable.shared.envelope import Envelope, decode_labels, decode_reports, parse_envelopes
from deniable.shared.errors import InvalidEnvelope, WrongUse
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import (
    Survey,
    parse_document,
    parse_toml,
    render_document,
    survey_id,
)
from deniable.shared.survey.keys import public_hex, sign
from deniable.shared.survey.participation import LIFETIME

Source = str | os.PathLike[str] | bytes  # a file, or its content: TOML or a published document
Trouble = Literal["", "unreachable", "busy"]
MAX_ENVELOPES = 1  # limit per body, because clients have no token
TEST_VARIABLES = ("PYTEST_CURRENT_TEST", "DENIABLE_TESTING")  # pytest sets the first variable


class SentReport(NamedTuple):
    """Report that reached the server: symbols by question, each of which may be a lie."""

    survey: str
    round: int
    symbols: Mapping[str, int]
    labels: Mapping[str, str | None]  # sent in clear


class Clock:
    """Clock that stands still until a test moves it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """Move by days=1, hours=2 and so on."""
        self.now += timedelta(**by)


class FakeServer:
    """Server in memory. Set `trouble` to make it unreachable, or to make it answer with 503."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.trouble: Trouble = ""
        self.requests: list[tuple[str, str]] = []  # method and path, in order
        self.sent: list[SentReport] = []
        self.posted: list[bytes] = []  # every body, including retries
        self._now = now
        self._key = Ed25519PrivateKey.generate()
        self._listed: dict[str, tuple[Survey, dict[str, str]]] = {}
        self._taken: set[tuple[str, int, bytes]] = set()

    @property
    def key(self) -> str:
        """Public key for verifying the server's surveys."""
        return public_hex(self._key)

    def publish(self, source: Source) -> Survey:
        """Publish a survey from TOML or JSON. Unlike the real server, make no optimal table."""
        text = source if isinstance(source, bytes) else Path(source).read_bytes()
        survey = parse_document(text) if text[:1] == b"{" else parse_toml(text.decode())
        document = render_document(survey)
        id_ = survey_id(document)
        entry = {"id": id_, "document": document.decode(), "signature": sign(document, self._key)}
        self._listed[id_] = survey, {**entry, "key": self.key, "state": "open"}
        return survey

    @property
    def surveys(self) -> list[Survey]:
        return [survey for survey, _ in self._listed.values()]

    def close(self, name: str) -> None:
        for survey, entry in self._listed.values():
            if survey.name == name:
                entry["state"] = "closed"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str | None,  # noqa: ARG002 # clients use only one
        timeout: float,  # noqa: ARG002 # the reply takes no time
    ) -> Reply:
        self.requests.append((method, path))
        if method == "POST":
            self.posted.append(body or b"")
        if self.trouble == "unreachable":
            raise Unreachable("no server is there")
        if self.trouble == "busy":
            return Reply(503, b"", "600")
        if method == "GET":
            listed = [entry for _, entry in self._listed.values()]
            return Reply(200, json.dumps({"surveys": listed}).encode())
        try:
            envelopes = parse_envelopes(body or b"", MAX_ENVELOPES)
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
        """Count an envelope; return False for a duplicate."""
        if envelope.survey not in self._listed:
            raise InvalidEnvelope("unknown-survey", "no survey with this id is published here")
        survey, entry = self._listed[envelope.survey]
        if entry["state"] != "open":
            raise InvalidEnvelope("closed", "the survey is closed")
        _check_round(survey, envelope.round, self._now())
        if envelope.count > 1:
            raise InvalidEnvelope("too-many", "one report in an envelope without an app token")
        (symbols,) = decode_reports(survey, envelope)
        key = (envelope.survey, envelope.round, envelope.id)
        if key in self._taken:
            return False
        self._taken.add(key)
        pairs = zip(survey.questions, symbols, strict=True)
        asked = {question.name: symbol for question, symbol in pairs if symbol is not None}
        labels = decode_labels(survey, envelope.payload)
        self.sent.append(SentReport(survey.name, envelope.round, asked, labels))
        return True


def _check_round(survey: Survey, number: int, now: datetime) -> None:
    first, last = survey.first_round, survey.last_round
    if number < first or (number <= last and now >= survey.taken_until(number)):
        raise InvalidEnvelope("late", f"reports of round {number} are no longer accepted")
    if number > last or now < survey.taken_from(number):
        raise InvalidEnvelope("early", f"round {number} has not begun")


class FakeClient(Client):
    """Client for surveys given as files or as bytes.

    `policy` is the app's own; its keys and pinned surveys are replaced. Without `draws_rounds`, no
    round is `not-drawn`, until `max_epsilon` is spent once and for all. `seed` makes the noise
    repeatable. No other transport can be given, so seeded reports never leave this process. The
    clock stands at noon of the first survey's first day. As in the app, nothing is sent before
    `consent(True)`.
    """

    def __init__(
        self,
        *surveys: Source,
        policy: Policy | None = None,
        seed: int | None = None,
        labels: Mapping[str, str] = NO_LABELS,
        draws_rounds: bool = False,
    ):
        _refuse_outside_tests()
        self.clock = Clock(datetime(1970, 1, 1, tzinfo=UTC))
        self.server = FakeServer(self.clock)
        opens = [self.server.publish(survey).opens for survey in surveys]
        if opens:
            self.clock.now = datetime.combine(opens[0], time(12), UTC)
        self._folder = TemporaryDirectory(prefix="deniable-", ignore_cleanup_errors=True)
        keys = [self.server.key]
        policy = replace(policy or Policy(keys=keys), keys=keys, surveys=None)
        super().__init__(
            "https://deniable.invalid",
            policy=policy if draws_rounds else _of_every_round(policy),
            state=self._folder.name,
            now=self.clock,
            draw=kernel_draw if seed is None else random.Random(seed).getrandbits,  # noqa: S311
            transport=self.server,
            send_within=0.0,
            allow_ci=True,  # where an app's tests run
            labels=labels,
        )

    @property
    def reports(self) -> list[SentReport]:
        """Flush, and return the reports that reached the server."""
        self.flush()
        return list(self.server.sent)

    def end_round(self) -> None:
        """Move the clock to when this round is over and all of its reports have left."""
        today = self.clock.now.date()
        rounds = [(s, s.round_to_answer(today)) for s in self.server.surveys]
        ends = [survey.leaves_until(number) for survey, number in rounds if number is not None]
        self.clock.now = max(ends, default=self.clock.now)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def _of_every_round(policy: Policy) -> Policy:
    """Return a policy that refuses the same rounds and draws none."""
    largest = min(policy.round_cap, policy.survey_cap)
    return replace(
        policy,
        per=LIFETIME,
        max_epsilon_per_round=decimal_text(largest),
        max_epsilon_per_survey=policy.max_epsilon,
    )


def _refuse_outside_tests(environment: Mapping[str, str] = os.environ) -> None:
    if not any(environment.get(name) for name in TEST_VARIABLES):
        raise WrongUse(
            "deniable.client.testing is for tests: run it under pytest, or set DENIABLE_TESTING=1"
        )
