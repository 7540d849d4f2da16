"""Front of the relay: takes one sealed envelope in each request, and answers when it is on disk.

It looks at the shape of a body and at nothing else: not at who sends it, and at no header but its
length and type. What comes at the same time is written together, in random order.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from deniable.server.http.front import Exchange, Front, Reply, header_list
from deniable.server.http.messages import HttpError
from deniable.server.relay.held_batches import Full, Holding
from deniable.shared.errors import InvalidEnvelope
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
MAX_BODY_BYTES = HEADER.size + max(LENGTHS)
MAX_WAITING = 1_024  # envelopes that wait for the disk
FULL_SECONDS = 600
BUSY = "the relay has more to do than it can; send the same again later"

log = logging.getLogger("deniable.relay")


class RelayFront(Front):
    """Everything that is asked of a relay."""

    def __init__(self, holding: Holding) -> None:
        super().__init__(MAX_BODY_BYTES)
        self._holding = holding
        self._thread = ThreadPoolExecutor(1, "disk")
        self._waiting: list[tuple[SealedEnvelope, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def reply(self, scope: Scope, protocol: Exchange) -> Reply:
        if (scope.method, scope.path) == ("GET", "/healthz"):
            return 200, header_list({}), b'{"status":"alive"}'
        if scope.path != ENVELOPES:
            raise HttpError(404, f"there is nothing at this address but POST {ENVELOPES}")
        if scope.method != "POST":
            raise HttpError(405, "this address takes POST")
        if scope.headers.get("content-type", "") != SEALED_TYPE:
            raise HttpError(415, f"a relay passes on {SEALED_TYPE} and nothing else")
        async with self.body_of(scope, protocol) as body:
            await self._keep(_only_envelope(body))
        return 202, header_list({}), b'{"held":1}'

    async def _keep(self, envelope: SealedEnvelope) -> None:
        """Write an envelope to disk, with all that came meanwhile."""
        if len(self._waiting) >= MAX_WAITING:
            raise HttpError(503, BUSY)
        kept: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((envelope, kept))
        if self._writing is None:
            self._writing = self._loop.create_task(self._write())
        try:
            await kept
        except Full as error:
            raise HttpError(503, str(error), retry_after=FULL_SECONDS) from None
        except OSError as error:
            log.error("the folder cannot be written: %s", error.strerror)
            reason = "the relay's disk cannot be written now"
            raise HttpError(503, reason, retry_after=FULL_SECONDS) from None

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                envelopes = [envelope for envelope, _ in group]
                failure: BaseException | None = None
                try:
                    await self._loop.run_in_executor(self._thread, self._holding.keep, envelopes)
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


def _only_envelope(body: bytes) -> SealedEnvelope:
    try:
        (envelope,) = parse_sealed(body, 1)
    except InvalidEnvelope as error:
        status = 413 if error.code == "too-many" else 400
        raise HttpError(status, f"{error.detail}; nothing was taken") from None
    return envelope
