"""Errors, problem documents (RFC 9457) and headers that all HTTP responses share.

A problem states what was wrong and never repeats what was sent. This module needs only the standard
library, because the relay uses it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from uuid import uuid4

from deniable.shared.errors import DeniableError, RequestCode

JSON = "application/json"
HTML = "text/html; charset=utf-8"
PROBLEM = "application/problem+json"
PROBLEM_PAGES = "/problems/"  # each kind of problem has an explanatory page
RETRY_AFTER_SECONDS = 5
ASK_PAGES = "/ask/"
GZIP = ".gz"  # ending of the path of a compressed copy
NO_ASK_PAGE = f"{ASK_PAGES}none.html"  # path of the page that explains a missing one
PUBLIC_CACHE = "public, max-age=60"  # the same for everyone, so any cache may store it
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CROSS_ORIGIN = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
PREFLIGHT = {"Access-Control-Allow-Headers": "Content-Type", "Access-Control-Max-Age": "86400"}
INVITATION_HEADER = "Deniable-Invitation"  # not `Authorization`, so that pages can send no token
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# A respondent page: its script and style are separate files, and it talks only to its own server.
_ASK_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'none'; base-uri 'none'; connect-src 'self'"
)
ASK_POLICY = f"{_ASK_POLICY}; frame-ancestors 'none'"
# In the page itself. A copy on another host reaches its server by HTTPS, or on the same machine.
HOSTED_POLICY = f"{_ASK_POLICY} https: http://127.0.0.1:* http://localhost:*"
BUSY = "the server is overloaded; send the same request again later"
SHORT_BODY = "the body is shorter than its declared length; nothing was counted"
UNUSABLE = "the store cannot be read or written now; try again later"
UNKNOWN_SURVEY = "no survey, or more than one, has this name or id; see GET /v1/surveys"

COMPRESSED = "send the body as it is, without Content-Encoding"
MISTAKE = "internal server error, details are in the server's log; nothing was counted"

REQUEST_ID = ContextVar("request_id", default="")  # empty outside requests


class HttpError(DeniableError):
    """Refusal of a request, with an HTTP status."""

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
    """Give the current request a random id, for the log and for its problem document."""
    REQUEST_ID.set(f"urn:uuid:{uuid4()}")


def end_request() -> None:
    REQUEST_ID.set("")


def problem_fields(error: HttpError) -> dict[str, str | int]:
    fields: dict[str, str | int] = {
        "type": f"{PROBLEM_PAGES}{error.code or error.status}",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.detail,
        "instance": REQUEST_ID.get() or f"urn:uuid:{uuid4()}",
    }
    return fields | ({"code": error.code} if error.code else {})


def ready_body(failover_risk: str | None) -> bytes:
    """Return the body of /readyz for a server that can accept reports."""
    warning = {"warning": failover_risk} if failover_risk else {}
    return json.dumps({"status": "ready"} | warning, separators=(",", ":")).encode()


def problem_headers(error: HttpError) -> Mapping[str, str]:
    headers = {"Content-Type": PROBLEM}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.retry_after)
    return headers


def accepts_gzip(header: str) -> bool:
    """Return whether an `Accept-Encoding` header allows gzip.

    >>> accepts_gzip("br, GZIP;q=0.5"), accepts_gzip("gzip;q=0, *"), accepts_gzip("")
    (True, False, False)
    """
    weights = dict(re.findall(r"(gzip|\*)\s*(?:;\s*q=([01](?:\.[0-9]*)?))?", header.lower()))
    return float(weights.get("gzip", weights.get("*", "0")) or 1) > 0
