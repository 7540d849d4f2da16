"""Handling of requests in front of the applications: trusted proxies, and slow bodies.

A trusted proxy names the sender of a request and the requested address in headers: `Forwarded`
(RFC 7239), or `X-Forwarded-For`, `-Proto` and `-Host`. In a chain of proxies, each proxy appends a
value. Only proxies that the operator has named are trusted.

A body that arrives slowly occupies a thread of the reader, and granian cannot interrupt it, so most
threads are reserved for requests without a body. Of the views that read a body, only signing in is
open to anyone. It has its own places, so that strangers' slow bodies do not block an operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import BytesIO
from threading import BoundedSemaphore
from typing import IO, TYPE_CHECKING, Any

from deniable.server.http.messages import BUSY, SHORT_BODY, HttpError
from deniable.shared.envelope import MAX_BODY_BYTES

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication
    from granian.rsgi import Scope

SIGN_IN = "/sign-in"
SIGN_IN_BODIES, OTHER_BODIES = 4, 4  # limits; together, half of the threads
KEPT_BYTES = MAX_BODY_BYTES + 2  # enough to detect a body that is too long
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"\\]*)"|([^\s;,"]+))\s*', re.ASCII)


def sender_address(scope: Scope, proxies: Sequence[str]) -> str:
    """Return the sender's address; behind proxies, the last address that is not a proxy's."""
    address = scope.client.rpartition(":")[0].strip("[]")
    if address not in proxies:
        return address
    lines = [value for name, value in scope.headers.items() if name == "x-forwarded-for"]
    senders = [_without_port(sender.strip()) for sender in ",".join(lines).split(",")]
    others = [sender for sender in senders if sender not in proxies]
    return others[-1] if others else ""


def _without_port(sender: str) -> str:
    """Remove the port that some proxies append.

    >>> [_without_port(text) for text in ("192.0.2.1:443", "[2001:db8::1]:443", "2001:db8::1")]
    ['192.0.2.1', '2001:db8::1', '2001:db8::1']
    """
    bracketed, _, behind = sender.partition("]")
    if sender.startswith("[") and (not behind or behind.startswith(":")):
        return bracketed[1:]
    return sender.partition(":")[0] if sender.count(":") == 1 else sender


class OutsideView:
    """WSGI middleware that sets the public address of an application, and hides the sender's.

    The proxy serves the pages under `base_path`, and strips that prefix from forwarded requests.
    """

    def __init__(
        self, application: WSGIApplication, proxies: Sequence[str] = (), base_path: str = ""
    ) -> None:
        self._application, self._proxies, self._base_path = application, proxies, base_path

    def __call__(
        self,
        environ: dict[str, Any],  # Any: the WSGI type
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        sender = environ.pop("REMOTE_ADDR", "")
        environ.pop("REMOTE_PORT", None)
        environ["SCRIPT_NAME"] = self._base_path
        if sender in self._proxies:
            forwarded = forwarded_values(environ)
            if forwarded.get("proto") in ("http", "https"):
                environ["wsgi.url_scheme"] = forwarded["proto"]
            if _HOST.fullmatch(forwarded.get("host", "")):
                environ["HTTP_HOST"] = forwarded["host"]
        return self._application(environ, start_response)


def forwarded_values(environ: dict[str, Any]) -> dict[str, str]:  # Any: the WSGI type
    """Return the values of `proto` and `host` that the last proxy states."""
    if "HTTP_FORWARDED" in environ:
        last = environ["HTTP_FORWARDED"].rpartition(",")[2]
        pairs = [_PAIR.fullmatch(pair) for pair in last.split(";")]
        return {pair[1].lower(): pair[2] or pair[3] or "" for pair in pairs if pair}
    return {
        key.lower(): environ.get(f"HTTP_X_FORWARDED_{key}", "").rpartition(",")[2].strip()
        for key in ("PROTO", "HOST")
    }


class BoundedBodies:
    """WSGI middleware that limits the number of requests whose bodies are being read."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._sign_in = BoundedSemaphore(SIGN_IN_BODIES)
        self._others = BoundedSemaphore(OTHER_BODIES)

    def __call__(
        self,
        environ: dict[str, Any],  # Any: the WSGI type
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        places = self._sign_in if environ.get("PATH_INFO") == SIGN_IN else self._others
        declared = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = BoundedBody(environ["wsgi.input"], places, declared)
        return self._application(environ, start_response)


class BoundedBody:
    """Body that is read completely on first use.

    The request gets 503 if no place is free, and 400 if the body is shorter than its declared
    length: granian treats such a body as complete, and part of a form can be a valid form.
    """

    def __init__(self, stream: IO[bytes], places: BoundedSemaphore, declared: int) -> None:
        self._stream, self._places, self._declared = stream, places, declared
        self._content: BytesIO | None = None

    def read(self, size: int = -1, /) -> bytes:
        if self._content is None:
            if not self._places.acquire(blocking=False):
                raise HttpError(503, BUSY)
            try:
                content = self._stream.read(KEPT_BYTES)
            finally:
                self._places.release()
            if len(content) < min(self._declared, KEPT_BYTES):
                raise HttpError(400, SHORT_BODY)
            self._content = BytesIO(content)
        return self._content.read(size)
