"""Reading a request's body: never more of it than may come, and only to its end."""

from __future__ import annotations

from flask import request
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from deniable.shared.envelope import MOST_BODY_BYTES
from deniable.shared.errors import DeniableError


class BadRequest(DeniableError):
    """A request that is answered with this status instead of what it asked for."""

    def __init__(self, status: int, detail: str, code: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code


def read_body() -> bytes:
    """The whole body; refused before it is read if it says that it is too long."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BadRequest(415, "send the body as it is, without Content-Encoding")
    if (request.content_length or 0) > MOST_BODY_BYTES:
        raise _too_large()
    try:
        body = request.stream.read()
    except RequestEntityTooLarge:
        raise _too_large() from None
    except (ClientDisconnected, OSError):
        raise BadRequest(400, "the body ended before its end; nothing was counted") from None
    if len(body) > MOST_BODY_BYTES:
        raise _too_large()
    if request.content_length is not None and len(body) != request.content_length:
        raise BadRequest(400, "the body ended before its end; nothing was counted")
    return body


def _too_large() -> BadRequest:
    return BadRequest(413, f"a body has at most {MOST_BODY_BYTES} bytes; send less at once")
