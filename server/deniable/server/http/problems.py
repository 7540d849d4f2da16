"""Errors as problem documents (RFC 9457). They never repeat what was sent."""

from __future__ import annotations

import json
from http import HTTPStatus

from flask import Response

PROBLEM = "application/problem+json"
RETRY_AFTER_SECONDS = 5


def problem(status: int, detail: str, *, code: str | None = None) -> Response:
    """A problem document; `code` is for programs, the detail for people."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    more = {"detail": detail} | ({"code": code} if code else {})
    response = Response(json.dumps(document | more), status, mimetype=PROBLEM)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response
