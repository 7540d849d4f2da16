"""Everything that the views of the reader share: parts, access, bodies and answers.

Access takes a bearer token with a role; for pages, a session that began with one. The caller is
looked up once in each request (`caller`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import NamedTuple, ParamSpec, cast

import msgspec
from flask import Flask, Response, current_app, g, request
from flask.typing import ResponseReturnValue
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
from deniable.server.http.tokens import Sessions, authorized_role, grants, role_of
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


COOKIE = "deniable_session"

P = ParamSpec("P")


class Caller(NamedTuple):
    role: str | None  # None: no valid token
    has_session: bool = False  # the role is that of a session, whose cookie a browser sends along


def caller() -> Caller:
    """Return who has sent this request: by its token, else by its session."""
    if "caller" not in g:
        g.caller = _look_up()
    return cast(Caller, g.caller)


def reader_role() -> str | None:
    """Return the caller's role, if it may read pages: operator or analyst."""
    role = caller().role
    return role if grants(role, "analyst") else None


def require(
    wanted: str,
) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Guard a view under /v1: answer 401 without a valid token, 403 with one of another role.

    Reading with a session's cookie is allowed, so that pages can link to JSON and CSV. Changing is
    not: a browser sends a cookie along with a request that any page has made.
    """

    def decorate(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            role, has_session = caller()
            changes = request.method not in ("GET", "HEAD")
            if role is None or (has_session and (changes or not grants(role, "analyst"))):
                raise HttpError(
                    401, f"send a token with the role {wanted}: Authorization: Bearer TOKEN"
                )
            if not grants(role, wanted):
                raise HttpError(
                    403, f"this takes the role {wanted}, and the token's role is {role}"
                )
            return view(*args, **kwargs)

        return guarded

    return decorate


def _look_up() -> Caller:
    here = parts()
    now = here.clock.now()
    header = request.headers.get("Authorization", "")
    if header and (role := authorized_role(header, here.store, now)):
        return Caller(role)
    if token := here.sessions.token(request.cookies.get(COOKIE, "")):
        return Caller(role_of(token, here.store, now), has_session=True)
    return Caller(None)
