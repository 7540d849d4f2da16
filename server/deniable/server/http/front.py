"""Front of a server for devices: one event loop that reads bodies and answers requests.

Intake and the relay each have a front. It limits the time and the length of a body and the memory
of all bodies together, and turns every error into a problem document. If most of the connections
that the process can serve are in use, each response closes its connection: idle ones would keep
everyone else out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from deniable.server.http.messages import (
    COMPRESSED,
    JSON,
    MISTAKE,
    SECURITY_HEADERS,
    SHORT_BODY,
    UNUSABLE,
    HttpError,
    begin_request,
    end_request,
    problem_fields,
    problem_headers,
)
from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from granian.rsgi import Scope

BODY_SECONDS = 10.0
SWEEP_SECONDS = 0.5
SPARE_FILES = 128  # open files that are not connections
CROWDED_SHARE = 0.8  # of the connections that the process can serve
SMALL_BODY_BYTES = 4_096  # below this length, the connection itself takes more memory
MAX_HELD_BYTES = 64 * 2**20  # total of all bodies that are arriving or being processed
SLOW = "the body did not arrive within {:g} seconds; nothing was counted"
CROWDED = "too many bodies are arriving; nothing was counted; send the same body again later"
READ_METHODS = ("GET", "HEAD")

Headers = list[tuple[str, str]]
Reply = tuple[int, Headers, bytes]

log = logging.getLogger("deniable.server")


class Exchange(Protocol):
    """Body of a request, awaited as a whole or iterated in parts, and its response."""

    def __call__(self) -> Awaitable[bytes]: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...


class Front(ABC):
    """RSGI application, which granian calls for each request."""

    max_connections: ClassVar[int]

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._crowded = False

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._bodies = Bodies(loop, self._max_body_bytes)
        self._count_connections()

    def _count_connections(self) -> None:
        self._crowded = open_files() > CROWDED_SHARE * affordable(self.max_connections)
        self._loop.call_later(SWEEP_SECONDS, self._count_connections)

    async def __call__(self, scope: Scope, protocol: Exchange) -> None:
        try:
            status, headers, body = await self.reply(scope, protocol)
        except HttpError as error:
            status, headers, body = self._refusal(error, scope)
        except StoreUnusable as error:
            log.error("%s", error)
            status, headers, body = self._refusal(HttpError(503, UNUSABLE), scope)
        except Exception:  # noqa: BLE001 - every request gets a response
            begin_request()
            try:
                log.exception("a request failed")
                status, headers, body = self._refusal(HttpError(500, MISTAKE), scope)
            finally:
                end_request()
        if self._crowded:
            headers = [*headers, ("Connection", "close")]
        protocol.response_bytes(status, headers, body)

    @abstractmethod
    async def reply(self, scope: Scope, protocol: Exchange) -> Reply: ...

    def refusal_headers(self, error: HttpError, scope: Scope) -> Mapping[str, str]:  # noqa: ARG002 - for subclasses
        """Return additional headers for a problem document of this request."""
        return {}

    @asynccontextmanager
    async def body_of(self, scope: Scope, protocol: Exchange) -> AsyncIterator[bytes]:
        """Read the whole body; its memory counts as used until the block ends."""
        declared = declared_length(scope)
        if scope.headers.get("content-encoding", "identity").lower() != "identity":
            raise HttpError(415, COMPRESSED)
        if declared > self._max_body_bytes:
            raise self._too_long()
        body = await self._bodies.read(protocol, declared)
        try:
            if len(body) > self._max_body_bytes:
                raise self._too_long()
            if declared not in (-1, len(body)):
                raise HttpError(400, SHORT_BODY)
            yield body
        finally:
            self._bodies.release(body)

    def _too_long(self) -> HttpError:
        most = self._max_body_bytes
        return HttpError(413, f"a body has at most {most} bytes; split it into several")

    def _refusal(self, error: HttpError, scope: Scope) -> Reply:
        more = {**problem_headers(error), **self.refusal_headers(error, scope)}
        return error.status, header_list(more), json.dumps(problem_fields(error)).encode()


def header_list(more: Mapping[str, str], content_type: str = JSON) -> Headers:
    """Return the headers of a response: the defaults, updated with `more`."""
    usual = {**SECURITY_HEADERS, "Content-Type": content_type, "Cache-Control": "no-store"}
    return list({**usual, **more}.items())


def affordable(connections: int) -> int:
    """Return as many of these connections as the limit on open files allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    return connections if unlimited else min(connections, max(1, soft - SPARE_FILES))


def open_files() -> int:
    """Return the number of this process's open files and connections, or 0 where it is unknown."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0


def declared_length(scope: Scope) -> int:
    """Return the declared length, or -1 if there is none or the body is chunked."""
    headers = scope.headers
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and "transfer-encoding" not in headers else -1


@dataclass(eq=False, slots=True)
class _Arrival:
    task: asyncio.Task[object]
    begun: float
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: HttpError | None = None

    def end(self, reason: HttpError) -> None:
        self.ended = reason
        self.task.cancel()


class Bodies:
    """Bodies arriving at one event loop, with limits on time, length and total memory.

    A body that takes too long is dropped. If all bodies together take too much memory, the front
    drops the body that has been arriving longest, so deliberately slow senders are dropped first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_body_bytes: int) -> None:
        self._loop, self._max_body_bytes = loop, max_body_bytes
        self._arriving: dict[_Arrival, None] = {}  # oldest first
        self._held = 0
        loop.call_later(SWEEP_SECONDS, self._sweep)

    async def read(self, exchange: Exchange, declared: int) -> bytes:
        """Return the body, which counts as held until it is released.

        `declared` is -1 if no length is declared. If the body is too long, so is the returned part.
        """
        task = asyncio.current_task()
        assert task is not None
        arrival = _Arrival(task, self._loop.time())
        self._arriving[arrival] = None
        try:
            if 0 <= declared <= SMALL_BODY_BYTES:
                try:
                    self._take(arrival, await exchange())
                except RuntimeError:  # the connection has closed
                    raise HttpError(400, SHORT_BODY) from None
            else:
                async for part in exchange:
                    self._take(arrival, part)
                    if arrival.size > self._max_body_bytes:
                        break
        except BaseException as error:
            self._held -= arrival.size
            if arrival.ended is None or not isinstance(error, asyncio.CancelledError):
                raise
            arrival.task.uncancel()
            raise arrival.ended from None
        finally:
            del self._arriving[arrival]
        return arrival.parts[0] if len(arrival.parts) == 1 else b"".join(arrival.parts)

    def release(self, body: bytes) -> None:
        self._held -= len(body)

    def _take(self, arrival: _Arrival, part: bytes) -> None:
        arrival.parts.append(part)
        arrival.size += len(part)
        self._held += len(part)
        if self._held > MAX_HELD_BYTES:
            oldest = next(arriving for arriving in self._arriving if arriving.ended is None)
            if oldest is arrival:
                raise HttpError(503, CROWDED)
            oldest.end(HttpError(503, CROWDED))

    def _sweep(self) -> None:
        late = self._loop.time() - BODY_SECONDS
        for arrival in self._arriving:
            if arrival.begun > late:
                break
            if arrival.ended is None:
                arrival.end(HttpError(408, SLOW.format(BODY_SECONDS)))
        self._loop.call_later(SWEEP_SECONDS, self._sweep)
