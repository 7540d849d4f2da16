"""Errors, problem documents (RFC 9457) and headers that every HTTP answer of ours shares.

A problem says what was wrong and never repeats what was sent. Standard library only: the relay uses
this too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from uuid import uuid4

from deniable.shared.errors import DeniableError, RequestCode

JSON = "application/json"
PROBLEM = "application/problem+json"
PROBLEM_PAGES = "/problems/"  # each kind of problem has a page that explains it
RETRY_AFTER_SECONDS = 5
PUBLIC_CACHE = "public, max-age=60"  # the same for everyone, so any cache may answer
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
BUSY = "the server has more to do than it can; send the same again later"
UNUSABLE = "the store cannot be read or written now; try again later"
UNKNOWN_SURVEY = "no survey has this name or id, or several ids begin with it; see GET /v1/surveys"

REQUEST_ID = ContextVar("request_id", default="")


class HttpError(DeniableError):
    """A request that gets this status instead of what it asked for."""

    def __init__(
        self,
        status: int,
        detail: str,
        code: RequestCode | None = None,
        retry_after: int = RETRY_AFTER_SECONDS,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code
        self.retry_after = retry_after


def begin_request() -> None:
    """Give the current request a new random id."""
    REQUEST_ID.set(f"urn:uuid:{uuid4()}")


def end_request() -> None:
    REQUEST_ID.set("")


def request_id() -> str:
    """Random id of the current request, which finds it in the log; empty outside of requests."""
    return REQUEST_ID.get()


def problem_fields(error: HttpError) -> dict[str, str | int]:
    """The problem document of an error."""
    fields: dict[str, str | int] = {
        "type": f"{PROBLEM_PAGES}{error.code or error.status}",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.detail,
        "instance": request_id() or f"urn:uuid:{uuid4()}",
    }
    return fields | ({"code": error.code} if error.code else {})


def problem_headers(error: HttpError) -> Mapping[str, str]:
    headers = {"Content-Type": PROBLEM}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.retry_after)
    return headers
