"""The relay's front: takes one sealed envelope in each request, and answers when it is on disk.

It looks at the shape of a body and at nothing else: not at who sends it, and not at headers but its
length and type. What comes at the same time is written together, in random order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from deniable.server.relay.holding import Full, Holding
from deniable.shared.errors import DeniableError, InvalidEnvelope
from deniable.shared.sealed_envelope import (
    HEADER,
    LENGTHS,
    SEALED_TYPE,
    SealedEnvelope,
    parse_sealed,
)

if TYPE_CHECKING:
    from granian.rsgi import Scope

ENVELOPES = "/v1/envelopes"
SECONDS = 10.0  # for a body to arrive
MOST_BODY = HEADER.size + max(LENGTHS)
MOST_ARRIVING = 64 * 2**20  # bytes of all bodies that arrive or wait for the disk
MOST_WAITING = 1_024  # envelopes that wait for the disk
BUSY_SECONDS, FULL_SECONDS = 5, 600
BUSY = "the relay has more to do than it can; send the same again later"
PROBLEM = "application/problem+json"

log = logging.getLogger("deniable.relay")


class Exchange(Protocol):
    """What a request has beside its head: the parts of its body, and its answer."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...


class Refusal(DeniableError):
    def __init__(self, status: int, detail: str, retry_after: int = 0) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after


MISTAKE = Refusal(500, "the relay made a mistake; send the same again later")


class Front:
    """The application that the server of the protocol calls (RSGI)."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._thread = ThreadPoolExecutor(1, "disk")
        self._waiting: list[tuple[SealedEnvelope, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._arriving = 0

    async def __call__(self, scope: Scope, protocol: Exchange) -> None:
        try:
            status, said = await self._reply(scope, protocol)
            protocol.response_bytes(status, [("Content-Type", "application/json")], said)
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else MISTAKE
            if refusal is MISTAKE:
                log.exception("a request was not answered")
            protocol.response_bytes(refusal.status, _headers(refusal), _problem(refusal))

    async def _reply(self, scope: Scope, protocol: Exchange) -> tuple[int, bytes]:
        if (scope.method, scope.path) == ("GET", "/healthz"):
            return 200, b'{"status":"alive"}'
        if scope.path != ENVELOPES:
            raise Refusal(404, f"there is nothing at this address but POST {ENVELOPES}")
        if scope.method != "POST":
            raise Refusal(405, "this address takes POST")
        if scope.headers.get("content-type", "") != SEALED_TYPE:
            raise Refusal(415, f"a relay passes on {SEALED_TYPE} and nothing else")
        body = bytearray()
        try:
            await self._read(scope, protocol, body)
            await self._keep(_one(bytes(body)))
        finally:
            self._arriving -= len(body)
        return 202, b'{"held":1}'

    async def _read(self, scope: Scope, protocol: Exchange, body: bytearray) -> None:
        length = scope.headers.get("content-length", "")
        if length.isdecimal() and int(length) > MOST_BODY:
            raise _too_long()
        try:
            async with asyncio.timeout(SECONDS):
                async for part in protocol:
                    body += part
                    self._arriving += len(part)
                    if len(body) > MOST_BODY:
                        raise _too_long()
                    if self._arriving > MOST_ARRIVING:
                        raise Refusal(503, BUSY, BUSY_SECONDS)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {SECONDS:g} seconds") from None

    async def _keep(self, envelope: SealedEnvelope) -> None:
        """Returns when it is on disk, with all that came meanwhile."""
        if len(self._waiting) >= MOST_WAITING:
            raise Refusal(503, BUSY, BUSY_SECONDS)
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        self._waiting.append((envelope, kept))
        if self._writing is None:
            self._writing = loop.create_task(self._write(loop))
        try:
            await kept
        except Full as error:
            raise Refusal(503, str(error), FULL_SECONDS) from None
        except OSError as error:
            log.error("the folder cannot be written: %s", error.strerror)
            raise Refusal(503, "the relay's disk cannot be written now", FULL_SECONDS) from None

    async def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                envelopes = [each for each, _ in group]
                failure: BaseException | None = None
                try:
                    await loop.run_in_executor(self._thread, self._holding.keep, envelopes)
                except (Full, OSError) as error:
                    failure = error
                for _, kept in group:
                    if not kept.done():  # its sender is gone
                        _settle(kept, failure)
        finally:
            self._writing = None


def _settle(kept: asyncio.Future[None], failure: BaseException | None) -> None:
    if failure is None:
        kept.set_result(None)
    else:
        kept.set_exception(failure)


def _one(body: bytes) -> SealedEnvelope:
    try:
        (envelope,) = parse_sealed(body, 1)
    except InvalidEnvelope as error:
        status = 413 if error.code == "too-many" else 400
        raise Refusal(status, f"{error.detail}; nothing was taken") from None
    return envelope


def _too_long() -> Refusal:
    return Refusal(413, f"a body has at most {MOST_BODY} bytes; nothing was taken")


def _headers(error: Refusal) -> list[tuple[str, str]]:
    headers = [("Content-Type", PROBLEM)]
    if error.retry_after:
        headers.append(("Retry-After", str(error.retry_after)))
    return headers


def _problem(error: Refusal) -> bytes:
    title = HTTPStatus(error.status).phrase
    said = {
        "type": "about:blank",
        "title": title,
        "status": error.status,
        "detail": error.detail,
    }
    return json.dumps(said).encode()
