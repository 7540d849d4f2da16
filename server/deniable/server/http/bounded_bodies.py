"""Limits on request bodies that the reader waits for: their number and completeness.

A body that arrives slowly holds a thread, and granian cannot interrupt it, so most threads are
reserved for requests without a body. Of the views that read a body, only the sign-in view is open
to anyone; it has separate places, so that strangers' slow bodies do not block an operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from threading import BoundedSemaphore
from typing import IO, TYPE_CHECKING, Any

from deniable.server.http.messages import BUSY, SHORT_BODY, HttpError
from deniable.shared.envelope import MAX_BODY_BYTES

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

SIGN_IN = "/sign-in"
SIGN_IN_BODIES, OTHER_BODIES = 4, 4  # read at the same time; in total half of the reader's threads
KEPT_BYTES = MAX_BODY_BYTES + 2  # enough to detect a body that is too long


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

    It is refused with 503 if no place is free, and with 400 if it ends before its declared length:
    granian treats such a body as complete, and part of a form can be a valid form.
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
