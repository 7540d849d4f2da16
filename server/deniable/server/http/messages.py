"""What comes and goes: bodies read to their end, answers, and problem documents (RFC 9457).

A problem says what was wrong and never repeats what was sent.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal
from uuid import uuid4

import msgspec
from flask import Response, g, has_request_context, request
from msgspec import UNSET, Struct, UnsetType
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from deniable.shared.envelope import MAX_BODY_BYTES
from deniable.shared.errors import DeniableError, RequestCode

JSON = "application/json"
PROBLEM = "application/problem+json"
PROBLEMS = "/problems/"  # where each kind of problem has a page in words
RETRY_AFTER_SECONDS = 5


class Problem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a request was not answered; its type is the address of a page that explains it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str  # random: finds the request in the log, and says nothing of its sender
    code: RequestCode | UnsetType = UNSET  # for programs, where the detail is for people


class Status(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["alive", "ready"]


class HttpError(DeniableError):
    """A request that is answered with this status instead of what it asked for."""

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


def request_id() -> str:
    """One for each request to the application; outside of one, a new one."""
    made = f"urn:uuid:{uuid4()}"
    return str(g.setdefault("request_id", made)) if has_request_context() else made


def problem_of(error: HttpError) -> Response:
    return problem(error.status, error.detail, code=error.code, retry_after=error.retry_after)


def problem(
    status: int,
    detail: str,
    *,
    code: RequestCode | None = None,
    retry_after: int = RETRY_AFTER_SECONDS,
) -> Response:
    response = answer(described(status, detail, code), status, PROBLEM)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["Retry-After"] = str(retry_after)
    return response


def described(status: int, detail: str, code: RequestCode | None = None) -> Problem:
    return Problem(
        type=f"{PROBLEMS}{code or status}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request_id(),
        code=code or UNSET,
    )


def answer(document: Struct, status: int = 200, mimetype: str = JSON) -> Response:
    return Response(msgspec.json.encode(document), status, mimetype=mimetype)


def read_body() -> bytes:
    """The whole body; refused before it is read if it says that it is too long."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HttpError(415, "send the body as it is, without Content-Encoding")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        body = request.stream.read()
    except RequestEntityTooLarge:
        raise _too_large() from None
    except (ClientDisconnected, OSError):
        raise _cut_short() from None
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    if request.content_length is not None and len(body) != request.content_length:
        raise _cut_short()
    return body


def _too_large() -> HttpError:
    return HttpError(413, f"a body has at most {MAX_BODY_BYTES} bytes; split it into several")


def _cut_short() -> HttpError:
    return HttpError(400, "the body was cut short; nothing was counted")
