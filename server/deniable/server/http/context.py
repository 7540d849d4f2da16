"""What every view of the reader shares: its parts, bodies and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import cast

import msgspec
from flask import Flask, Response, current_app, request
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from deniable.server.http.messages import (
    JSON,
    UNKNOWN_SURVEY,
    HttpError,
    problem_fields,
    problem_headers,
)
from deniable.server.http.tokens import Sessions
from deniable.server.intake.status import IntakeStatus, unready_reason
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.forgery import ForgeryMonitor
from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue, UnknownSurvey
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import MAX_BODY_BYTES

EXTENSION = "deniable"
METRICS_FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Parts:
    store: Store
    catalogue: Catalogue
    clock: Clock
    metrics: ReaderMetrics
    forgery: ForgeryMonitor
    sessions: Sessions
    intake_status: Callable[[], IntakeStatus]
    known: ReferenceValues = field(default_factory=ReferenceValues)
    estimates: EstimateCache = field(default_factory=EstimateCache)
    device_url: str = ""  # where devices reach intake, for examples; else the page's own address
    public_pages: bool = False  # whether each survey has a page for anyone

    def unready_reason(self) -> str | None:
        """Return why reports cannot be taken, or None."""
        now = self.clock.now()
        return unready_reason(self.intake_status(), self.store, self.catalogue, now)


class ReaderMetrics:
    """Intake's figures and the reader's own, for Prometheus."""

    def __init__(self, intake_status: Callable[[], IntakeStatus], clock: Clock) -> None:
        self._intake_status, self._clock = intake_status, clock
        self._registry, self._lock = CollectorRegistry(), Lock()
        self._text, self._made = b"", float("-inf")
        self.forged = Gauge(
            "deniable_forged_rounds",
            "Rounds whose counts honest reports cannot give, by survey and whether more are taken.",
            ["survey", "state"],
            registry=self._registry,
        )

    def text(self) -> bytes:
        """Return all figures, at most a second old: they are made once for all who ask."""
        with self._lock:
            if self._clock.seconds() - self._made >= METRICS_FRESH_SECONDS:
                intake = self._intake_status().metrics.encode()
                self._text = intake + generate_latest(self._registry)
                self._made = self._clock.seconds()
            return self._text


def parts() -> Parts:
    """Return the parts of the application that handles this request."""
    return parts_of(current_app)


def parts_of(app: Flask) -> Parts:
    return cast(Parts, app.extensions[EXTENSION])


def asked_for(text: str) -> PublishedSurvey:
    """Return the survey that an address under /v1 names."""
    try:
        return parts().catalogue.find(text)
    except UnknownSurvey:
        raise HttpError(404, UNKNOWN_SURVEY) from None


def answer(document: Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, mimetype=JSON)


def problem(error: HttpError) -> Response:
    content = msgspec.json.encode(problem_fields(error))
    return Response(content, error.status, headers=dict(problem_headers(error)))


def read_body() -> bytes:
    """Return the whole body; one that declares too great a length is refused unread."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HttpError(415, "send the body as it is, without Content-Encoding")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large()
    try:
        body = request.stream.read()
    except RequestEntityTooLarge:
        raise too_large() from None
    except (ClientDisconnected, OSError):
        raise _cut_short() from None
    if len(body) > MAX_BODY_BYTES:
        raise too_large()
    if request.content_length is not None and len(body) != request.content_length:
        raise _cut_short()
    return body


def too_large() -> HttpError:
    return HttpError(413, f"a body has at most {MAX_BODY_BYTES} bytes; split it into several")


def _cut_short() -> HttpError:
    return HttpError(400, "the body was cut short; nothing was counted")
