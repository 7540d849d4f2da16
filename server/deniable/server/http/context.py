"""Code that all views of the reader share: parts, access, bodies, responses and errors.

Access requires a bearer token with a role or, for pages, a session that such a token started. The
caller is looked up once per request (`caller`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import NamedTuple, ParamSpec, cast
from uuid import uuid4

import msgspec
from flask import Flask, Response, current_app, g, request
from flask.typing import ResponseReturnValue
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from werkzeug.exceptions import ClientDisconnected, HTTPException, MethodNotAllowed

from deniable.server.http.messages import (
    BUSY,
    COMPRESSED,
    JSON,
    MISTAKE,
    REQUEST_ID,
    SECURITY_HEADERS,
    SHORT_BODY,
    UNKNOWN_SURVEY,
    UNUSABLE,
    HttpError,
    problem_fields,
    problem_headers,
)
from deniable.server.http.tokens import Sessions, authorized, grants, used_token
from deniable.server.intake.status import IntakeStatus, unready_reason
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.survey_estimates import shown_counters
from deniable.server.store import NO_SURVEY, PublishedSurvey, Store
from deniable.server.store.records import ID_DIGITS
from deniable.server.surveys.catalogue import FRESH_SECONDS, Catalogue, UnknownSurvey
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import MAX_BODY_BYTES
from deniable.shared.errors import StoreUnusable

EXTENSION = "deniable"
METRICS_FRESH_SECONDS = 1.0
NOTHING_HERE = "nothing exists at this address; /v1/openapi.json lists the valid addresses"
TOO_LARGE = f"a body has at most {MAX_BODY_BYTES} bytes; split it into several"
DETAILS = {
    404: NOTHING_HERE,
    405: "this address does not support that method; /v1/openapi.json lists the valid methods",
    413: TOO_LARGE,
    500: MISTAKE,
}

log = logging.getLogger("deniable.server")


@dataclass
class Parts:
    """Parts of the application, which its views use."""

    store: Store
    catalogue: Catalogue
    intake_status: Callable[[], IntakeStatus]
    clock: Clock = field(default_factory=Clock)
    references: ReferenceValues = field(default_factory=ReferenceValues)
    device_url: str = ""  # intake's URL in examples; if empty, the page's own address
    has_public_pages: bool = False  # whether each survey has a public page
    signing_key: Path | None = None  # file of the server's own key, with which operators publish

    def __post_init__(self) -> None:
        self.metrics = ReaderMetrics(self)
        self.estimates, self.sessions = EstimateCache(), Sessions(self.clock)

    def unready_reason(self) -> str | None:
        """Return why reports cannot be accepted, or None."""
        now = self.clock.now()
        return unready_reason(self.intake_status(), self.store, self.catalogue, now)


class ReaderMetrics(Collector):
    """Prometheus metrics of intake and reader. Anyone may read them, so they change in steps."""

    def __init__(self, here: Parts) -> None:
        self._here, self._clock = here, here.clock
        self._registry, self._lock = CollectorRegistry(), Lock()
        self._registry.register(self)
        self._text, self._made = b"", float("-inf")
        self.forged = Gauge(
            "deniable_forged_rounds",
            "Rounds whose counts honest reports cannot explain, by survey and state of the round.",
            ["survey", "id", "state"],
            registry=self._registry,
        )

    def text(self) -> bytes:
        """Return all metrics, cached for at most a second."""
        with self._lock:
            if self._clock.seconds() - self._made >= METRICS_FRESH_SECONDS:
                intake = self._here.intake_status().metrics.encode()
                self._text = intake + generate_latest(self._registry)
                self._made = self._clock.seconds()
            return self._text

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the reports by outcome; once they are final, accepted ones are left out."""
        here, now = self._here, self._clock.now()
        reports = CounterMetricFamily(
            "deniable_reports",
            "Reports in steps, by survey and outcome.",
            labels=["survey", "id", "outcome"],
        )
        for outcome, count in here.store.counters(NO_SURVEY).items():
            reports.add_metric(["unknown", "", outcome], count)
        for published in here.catalogue.surveys():
            try:
                counters = shown_counters(here.store, published, now)
            except Exception:
                log.exception("the reports of survey %s could not be read", published.name)
                continue
            if published.state_at(now) == "final":
                del counters["accepted"]
            for outcome, count in counters.items():
                named = [published.name, published.id[:ID_DIGITS], outcome]
                reports.add_metric(named, count)
        yield reports


def parts() -> Parts:
    return parts_of(current_app)


def parts_of(app: Flask) -> Parts:
    return cast(Parts, app.extensions[EXTENSION])


def asked_for(text: str) -> PublishedSurvey:
    """Return the survey named in an address under /v1."""
    try:
        return parts().catalogue.find(text)
    except UnknownSurvey:
        raise HttpError(404, UNKNOWN_SURVEY) from None


def close_survey(published: PublishedSurvey) -> PublishedSurvey:
    """Close a survey permanently; return once intake refuses its reports."""
    closed = parts().catalogue.close(published, caller().name)
    wait_for_intake()
    return closed


def wait_for_intake() -> None:
    """Wait until every intake process, on any node, has reread the surveys from the store."""
    time.sleep(FRESH_SECONDS)


def answer(document: Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, mimetype=JSON)


def problem(error: HttpError) -> Response:
    content = msgspec.json.encode(problem_fields(error))
    return Response(content, error.status, headers=dict(problem_headers(error)))


def read_body() -> bytes:
    """Return the whole body; if its declared length is too great, refuse it unread."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HttpError(415, COMPRESSED)
    declared = request.content_length or 0
    try:  # `middleware` refuses a body that ends before its declared length
        body = b"" if declared > MAX_BODY_BYTES else request.stream.read()
    except (ClientDisconnected, OSError):
        raise HttpError(400, SHORT_BODY) from None
    if max(declared, len(body)) > MAX_BODY_BYTES:
        raise HttpError(413, TOO_LARGE)
    return body


def set_hooks(app: Flask) -> None:
    """Give each request an id, each response its headers, and each error its problem document."""
    app.register_error_handler(HttpError, problem)
    app.register_error_handler(StoreUnusable, _store_unusable)
    app.register_error_handler(MemoryError, _out_of_memory)
    app.register_error_handler(HTTPException, _http_error)
    app.before_request(_begin_request)
    app.teardown_request(_end_request)
    app.after_request(_secure)


def _begin_request() -> None:
    REQUEST_ID.set(f"urn:uuid:{uuid4()}")


def _end_request(_: BaseException | None) -> None:
    REQUEST_ID.set("")


def _store_unusable(error: StoreUnusable) -> Response:
    log.error("%s", error)
    return problem(HttpError(503, UNUSABLE))


def _out_of_memory(_: MemoryError) -> Response:
    log.error("a response exceeded the reader's memory limit")
    return problem(HttpError(503, BUSY))


def _http_error(error: HTTPException) -> Response:
    """Convert an error of Flask to a problem document without its text, which quotes the input."""
    status = error.code or 500
    if status < 400:  # a redirect to the canonical address
        return cast(Response, error.get_response())
    response = problem(HttpError(status, DETAILS.get(status, "the request cannot be processed")))
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(error.valid_methods)
    return response


def _secure(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response


COOKIE = "deniable_session"

P = ParamSpec("P")


class Caller(NamedTuple):
    role: str | None  # None without a valid token
    name: str = ""  # the token's name, for the audit log
    has_session: bool = False  # whether the role comes from a session's cookie


def caller() -> Caller:
    """Return the sender of this request, from its token or else its session."""
    if "caller" not in g:
        here, now = parts(), parts().clock.now()
        header = request.headers.get("Authorization", "")
        if header and (token := authorized(header, here.store, now)):
            g.caller = Caller(token.role, token.name)
        elif text := here.sessions.token(request.cookies.get(COOKIE, "")):
            token = used_token(text, here.store, now)
            role, name = (token.role, token.name) if token else (None, "")
            g.caller = Caller(role, name, has_session=True)
        else:
            g.caller = Caller(None)
    return cast(Caller, g.caller)


def reader_role() -> str | None:
    """Return the caller's role if it may read pages: operator or analyst."""
    role = caller().role
    return role if grants(role, "analyst") else None


def require(
    wanted: str,
) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Guard a view under /v1: respond with 401 without a valid token, with 403 for another role.

    A session cookie is enough for reading, so that pages can link to JSON and CSV. It is not enough
    for changes: a browser also sends the cookie with requests from other sites' pages.
    """

    def decorate(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            role, _, has_session = caller()
            changes = request.method not in ("GET", "HEAD")
            if role is None or (has_session and (changes or not grants(role, "analyst"))):
                raise HttpError(
                    401, f"send a token with the role {wanted}: Authorization: Bearer TOKEN"
                )
            if not grants(role, wanted):
                raise HttpError(
                    403, f"this requires the role {wanted}, but the token's role is {role}"
                )
            return view(*args, **kwargs)

        return guarded

    return decorate
