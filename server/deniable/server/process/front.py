"""The front: one event loop that takes every request, before any thread has to do with it.

It reads bodies with a deadline (bodies.py), says at once that the server is alive, looks once for
all who ask whether it is ready (readiness.py), and refuses what is too much before any work is done
for it: 503 with Retry-After. A small body of reports is
answered here, by the same functions as behind it (http/envelopes.py), so long as nothing has to be
looked up in the store; everything else goes to the application in one of a few threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
from flask import Flask, Response
from werkzeug.test import create_environ

from deniable.server.http.context import Parts
from deniable.server.http.envelopes import (
    SENDER,
    Receipt,
    Sent,
    check_app_token,
    decide,
    receipt,
    uploads_of,
)
from deniable.server.http.messages import HttpError, Status, answer, described, problem_of
from deniable.server.http.operations import readiness
from deniable.server.intake.commit import Outcome
from deniable.server.intake.limits import neighbourhood
from deniable.server.intake.writer import Settled, Unavailable
from deniable.server.process.bodies import Bodies, Stream
from deniable.server.process.outside import address_of, seen_from_outside
from deniable.server.process.pace import Pace
from deniable.server.process.readiness import Readiness
from deniable.server.process.wsgi import Environ, Headers, Reply, environ_of, reply_of
from deniable.server.store import Upload
from deniable.server.surveys.catalogue import FRESH_SECONDS
from deniable.shared.envelope import MAX_BODY_BYTES
from deniable.shared.errors import DeniableError, StoreUnusable

if TYPE_CHECKING:
    from granian.rsgi import Scope

THREADS = 16
MOST_IN_THREADS = 64  # requests that have a thread or wait for one
MOST_HERE = 1_024  # requests that wait for the disk without a thread: as many as one commit takes
QUICK_BYTES = 2**14
ENVELOPES = "/v1/envelopes"
PACED = ("/healthz", "/readyz", "/metrics")  # what anyone asks for, as often as they like
MISTAKE = "the server made a mistake"
UNUSABLE = "the store cannot be read or written now; try again later"
BUSY = "the server has more to do than it can; send the same again later"

log = logging.getLogger("deniable.server")


class Exchange(Stream, Protocol):
    """What a request has beside its head: its body, and its answer."""

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...


class Front:
    """The application that the server of the protocol calls (RSGI)."""

    def __init__(
        self, app: Flask, here: Parts, proxies: Sequence[str] = (), base_path: str = ""
    ) -> None:
        self._app, self._here, self._proxies, self._base_path = app, here, proxies, base_path
        self._threads = ThreadPoolExecutor(THREADS, "request")
        self._in_threads = self._waiting = 0
        self._looking = self._waking = False
        self._settled = deque[tuple[asyncio.Future[list[Outcome]], Settled]]()
        self._paces = {path: Pace() for path in PACED}
        self._alive = self._finished(answer(Status(status="alive")), create_environ("/healthz"))
        self._ready = self._finished(answer(Status(status="ready")), create_environ("/readyz"))
        self._headers = self._headers_of(answer(Receipt(accepted=0, duplicates=0, refused=())))
        self._busy_headers = self._headers_of(problem_of(HttpError(503, BUSY)))

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._bodies = loop, Bodies(loop)
        self._readiness = Readiness(loop, partial(readiness, self._here))

    async def __call__(self, scope: Scope, protocol: Exchange) -> None:
        try:
            status, headers, body = await self._reply(scope, protocol)
        except HttpError as error:
            status, headers, body = self._refusal(error, scope)
        except StoreUnusable as error:
            log.error("%s", error)
            status, headers, body = self._refusal(HttpError(503, UNUSABLE), scope)
        except Exception:
            with self._app.request_context(environ_of(scope, b"")):  # its name, for log and answer
                log.exception("a request was not answered")
                status, headers, body = self._processed(problem_of(HttpError(500, MISTAKE)))
        protocol.response_bytes(status, headers, body)

    async def _reply(self, scope: Scope, protocol: Exchange) -> Reply:
        pace = self._paces.get(scope.path)
        if pace is not None and not await pace.turn():
            raise HttpError(503, BUSY)
        if scope.method in ("GET", "HEAD"):
            if scope.path == "/healthz":
                return self._alive
            if scope.path == "/readyz":
                if (reason := await self._readiness.reason()) is not None:
                    raise HttpError(503, reason)
                return self._ready
        declared = declared_length(scope)
        if declared > MAX_BODY_BYTES:
            return await self._behind(scope, b"")  # refused unread
        body = await self._bodies.read(protocol, declared)
        try:
            if len(body) == declared and self._is_quick(scope, body):
                return await self._quick(scope, body)
            return await self._behind(scope, body)
        finally:
            self._bodies.release(body)

    # A small body of reports, here

    def _is_quick(self, scope: Scope, body: bytes) -> bool:
        if scope.path != ENVELOPES or scope.method != "POST" or len(body) > QUICK_BYTES:
            return False
        headers = scope.headers
        if "content-encoding" in headers:
            return False
        return self._is_fresh(headers.get("authorization"))

    async def _quick(self, scope: Scope, body: bytes) -> Reply:
        if self._waiting >= MOST_HERE:  # as cheap as can be: there is more to do than can be done
            return 503, self._busy_headers, msgspec.json.encode(described(503, BUSY))
        headers = scope.headers
        kind, token = headers.get("content-type", ""), headers.get("authorization")
        sent = Sent(kind, token, body, self._sender(scope))
        decisions = decide(self._here, sent)
        self._waiting += 1
        try:
            found = await self._written(uploads_of(decisions))
        except Unavailable as error:
            raise HttpError(503, str(error)) from None
        finally:
            self._waiting -= 1
        return 200, self._headers, msgspec.json.encode(receipt(self._here, decisions, found))

    async def _written(self, uploads: Sequence[Upload]) -> list[Outcome]:
        if not uploads:
            return []
        waiter: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self._here.writer.submit(uploads, partial(self._settle, waiter))
        return await waiter

    def _settle(self, waiter: asyncio.Future[list[Outcome]], settled: Settled) -> None:
        """In the writer's thread: of all that one commit settles, the first wakes the loop."""
        self._settled.append((waiter, settled))
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False
        while self._settled:
            waiter, settled = self._settled.popleft()
            if waiter.done():
                continue  # its connection is gone
            if isinstance(settled, Unavailable):
                waiter.set_exception(settled)
            else:
                waiter.set_result(settled)

    def _is_fresh(self, authorization: str | None) -> bool:
        """What is known of surveys, and of this token if there is one: they are looked up again,
        in a thread, before anyone here would have to wait for that."""
        rest = self._here.catalogue.fresh_for
        if authorization is not None:
            rest = min(rest, self._here.app_tokens.fresh_for(authorization))
        if 0 < rest < FRESH_SECONDS / 2 and not self._looking:
            self._looking = True
            self._threads.submit(self._look, authorization)
        return rest > 0

    def _look(self, authorization: str | None) -> None:
        try:
            self._here.catalogue.refresh()
            if authorization is not None:
                check_app_token(self._here, authorization)
        except DeniableError:
            pass  # the next one that needs it goes behind, and is told
        finally:
            self._looking = False

    # Everything else, behind

    async def _behind(self, scope: Scope, body: bytes) -> Reply:
        if self._in_threads >= MOST_IN_THREADS:
            raise HttpError(503, BUSY)
        environ = environ_of(scope, body)
        environ |= seen_from_outside(scope, self._proxies)
        environ |= {"SCRIPT_NAME": self._base_path, SENDER: self._sender(scope)}
        self._in_threads += 1
        try:
            return await self._loop.run_in_executor(
                self._threads, reply_of, self._app.wsgi_app, environ
            )
        finally:
            self._in_threads -= 1

    def _sender(self, scope: Scope) -> bytes | None:
        """Where it came from, as far as limits want to know; a header is believed of a proxy that
        the operator has named, and of what proxies wrote there the last that is none of them."""
        if self._here.limits is None:
            return None
        address = address_of(scope)
        if address in self._proxies:
            lines = [value for name, value in scope.headers.items() if name == "x-forwarded-for"]
            said = [each.strip() for each in ",".join(lines).split(",")]
            others = [each for each in said if each not in self._proxies]
            address = others[-1] if others else ""
        return neighbourhood(address)

    # Answers of our own

    def _headers_of(self, response: Response) -> Headers:
        """Those of every such answer to who sends reports."""
        _, headers, _ = self._finished(response, create_environ(ENVELOPES, method="POST"))
        return [pair for pair in headers if pair[0] != "Content-Length"]

    def _refusal(self, error: HttpError, scope: Scope) -> Reply:
        return self._finished(problem_of(error), environ_of(scope, b""))

    def _finished(self, response: Response, environ: Environ) -> Reply:
        with self._app.request_context(environ):
            return self._processed(response)

    def _processed(self, response: Response) -> Reply:
        """As the application would send it: what was asked decides which pages may read it."""
        self._app.process_response(response)
        return response.status_code, list(response.headers.items()), response.get_data()


def declared_length(scope: Scope) -> int:
    """The length that it says it has; -1 if it does not, or where its parts say it."""
    headers = scope.headers
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and "transfer-encoding" not in headers else -1
