"""Intake's front in this process, called as a Flask test client calls the reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, cast

from flask import Response
from flask.testing import FlaskClient
from granian.rsgi import Scope
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, TestResponse
from werkzeug.wrappers import Request

from deniable.server.http import front
from deniable.server.http.front import Front, Reply
from deniable.server.http.intake_front import ROUTES, IntakeFront, route_path
from deniable.server.pages.public_pages import PagePublisher
from tests.eventually import PATIENCE

SENDER = "tests.sender"  # key in `environ_overrides`: the address of the sender


class HeaderMap(dict[str, str]):
    """Request headers by lower-case name, as granian passes them; non-ASCII values are hidden."""

    def get(self, name: str, default: Any = None) -> Any:  # Any: as in granian
        value = super().get(name, default)
        return value if value is None or value.isascii() else default


class RequestHead:
    """Head of a request, as granian passes it (`granian.rsgi.Scope`)."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self.proto, self.http_version, self.scheme = "http", "1.1", "http"
        self.method = environ["REQUEST_METHOD"]
        self.path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        self.query_string = environ["QUERY_STRING"]
        self.server = "127.0.0.1:8000"
        self.client = f"{environ.get(SENDER, '127.0.0.1')}:50000"
        self.headers = HeaderMap(
            (name.removeprefix("HTTP_").lower().replace("_", "-"), value)
            for name, value in environ.items()
            if name.startswith("HTTP_") or (name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value)
        )


class Exchange:
    """Request with a complete body, and the front's answer to it."""

    def __init__(self, body: bytes) -> None:
        self._body, self.reply = body, cast("Reply | None", None)

    async def __call__(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    def response_bytes(self, status: int, headers: front.Headers, body: bytes) -> None:
        self.reply = status, headers, body


class Loop:
    """Event loop in its own thread, with one front."""

    def __init__(self, front: Front) -> None:
        self.front, self._loop = front, asyncio.new_event_loop()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._has_begun.wait(PATIENCE)

    def ask(self, environ: dict[str, Any]) -> Reply:
        # A socket has no end of file, so a request without a length has no body to wait for.
        length = environ.get("CONTENT_LENGTH")
        body = environ["wsgi.input"].read(int(length)) if length else b""
        head, exchange = RequestHead(environ), Exchange(body)
        asked = self.front(cast(Scope, head), exchange)
        asyncio.run_coroutine_threadsafe(_in_task(asked), self._loop).result(PATIENCE)
        assert exchange.reply is not None
        return exchange.reply

    def call(self, act: Callable[..., object], *given: object) -> None:
        """Call a function in the loop's thread."""
        self._loop.call_soon_threadsafe(act, *given)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self.front.__rsgi_init__(self._loop)
        self._has_begun.set()
        self._loop.run_forever()


async def _in_task(asked: Any) -> None:
    await asked


class BothAddresses(FlaskClient):
    """Application that sends device requests to intake and all others to the reader."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        path = str(args[0]) if args and isinstance(args[0], str) else str(kwargs.get("path", "/"))
        method = str(kwargs.get("method", "GET")).upper()
        if is_for_intake(path.partition("?")[0], method):
            return DeviceClient(self.application).open(*args, **kwargs)
        return super().open(*args, **kwargs)


class DeviceClient(FlaskClient):
    """Client that sends everything to intake."""

    class Tests(NamedTuple):
        """State attached to the application under test."""

        loop: Loop
        check: Callable[[str, str, Response], None]  # called with each answer
        publisher: PagePublisher

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        for name in ("buffered", "follow_redirects"):
            kwargs.pop(name, None)
        asked = EnvironBuilder(*args, **kwargs).get_request()
        status, headers, body = self.ask(asked)
        return TestResponse([body], f"{status} x", Headers(headers), asked)

    def answer(self, environ: dict[str, Any], start: Any) -> bytes:
        """Answer a request, as a WSGI application does."""
        status, headers, body = self.ask(Request(environ))
        start(f"{status} x", headers)
        return body

    def ask(self, asked: Request) -> Reply:
        tests: DeviceClient.Tests = self.application.extensions["tests"]
        if asked.path.startswith(("/ask/", "/public/", "/problems/", "/static/", "/shared/")):
            tests.publisher.publish()
        if asked.path == "/readyz":
            forget_readiness(tests.loop.front)
        status, headers, body = tests.loop.ask(asked.environ)
        tests.check(asked.method, route_path(asked.path), Response(body, status, headers))
        return status, headers, body


def forget_readiness(front: Front) -> None:
    """Make the next request check the store again."""
    assert isinstance(front, IntakeFront)
    front._readiness._fresh_until = 0.0


def is_for_intake(path: str, method: str) -> bool:
    route = ROUTES.get(route_path(path))
    if route is None or path.startswith(("/static/", "/problems/")):
        return False
    return path != "/v1/surveys" or method != "POST"
