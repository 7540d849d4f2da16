"""Limit on how many bodies the reader waits for at once.

A body that arrives slowly holds a thread, and granian gives no means to end it: so most threads are
kept for requests without a body. Of the views that read one, anyone can reach only the one that
signs in; it has places of its own, so that slow bodies of strangers keep no operator from acting.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Protocol

from deniable.server.http.messages import BUSY, HttpError
from deniable.shared.envelope import MAX_BODY_BYTES

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

SIGN_IN = "/sign-in"
SIGN_IN_BODIES, OTHER_BODIES = 4, 4  # at once; together half of the reader's threads
KEPT_BYTES = MAX_BODY_BYTES + 2  # enough to see that a body is too long


class Stream(Protocol):
    """Body of a request, as WSGI has it."""

    def read(self, size: int = -1, /) -> bytes: ...


class BoundedBodies:
    """WSGI application that bounds how many requests of another one read their bodies."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._sign_in = BoundedSemaphore(SIGN_IN_BODIES)
        self._others = BoundedSemaphore(OTHER_BODIES)

    def __call__(
        self,
        environ: dict[str, Any],  # Any: as WSGI has it
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        places = self._sign_in if environ.get("PATH_INFO") == SIGN_IN else self._others
        environ["wsgi.input"] = BoundedBody(environ["wsgi.input"], places)
        return self._application(environ, start_response)


class BoundedBody:
    """Body that is read as a whole when it is first asked for; 503 where no place is free."""

    def __init__(self, stream: Stream, places: BoundedSemaphore) -> None:
        self._stream, self._places = stream, places
        self._content: BytesIO | None = None

    def read(self, size: int = -1, /) -> bytes:
        if self._content is None:
            if not self._places.acquire(blocking=False):
                raise HttpError(503, BUSY)
            try:
                self._content = BytesIO(self._stream.read(KEPT_BYTES))
            finally:
                self._places.release()
        return self._content.read(size)
