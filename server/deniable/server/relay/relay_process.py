"""`deniable relay`: the process that accepts sealed reports and forwards them in batches.

Its front accepts one sealed envelope per request, and responds once the envelope is on disk. The
envelope's mark and length must be those of a survey that accepts reports. The sender's network is
kept in memory until the envelope's batch leaves. Envelopes that arrive at the same time are written
together, in random order. The front also serves the aggregator's list of surveys.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING

from deniable.server.disk import PRIVATE_FOLDER
from deniable.server.http.front import READ_METHODS, Exchange, Front, Reply, header_list
from deniable.server.http.messages import (
    CROSS_ORIGIN,
    PREFLIGHT,
    PUBLIC_CACHE,
    HttpError,
    accepts_gzip,
)
from deniable.server.http.middleware import sender_address
from deniable.server.http.rate_limit import LISTS_PER_SECOND, Pace
from deniable.server.intake.limits import neighbourhood
from deniable.server.process.addresses import Address, claim, take_lock
from deniable.server.process.logs import logging_config
from deniable.server.process.supervisor import Role, run_granian, supervise, watch_parent
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.server.relay.held_batches import Arrival, Full, Holding
from deniable.server.relay.survey_list import Fetched, SurveyList
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


ENVELOPES, SURVEYS = "/v1/envelopes", "/v1/surveys"
MAX_BODY_BYTES = HEADER.size + max(LENGTHS)
MAX_WAITING = 1_024  # envelopes waiting for the disk
FULL_SECONDS = 600
UNKNOWN_SECONDS = 60
UNKNOWN_MARK = "no survey that this relay knows accepts these reports now; send the same body later"
WRONG_LENGTH = "reports of this survey have another length; nothing was accepted"
UNKNOWN_TOKEN = "the relay does not know this token; leave it out"  # noqa: S105 - a sentence
NO_LIST = "the relay has no list of surveys now; try again later"
BUSY = "the relay is overloaded; send the same body again later"
UNWRITABLE = "the relay cannot write to its disk now"

log = logging.getLogger("deniable.relay")


class RelayFront(Front):
    max_connections = 900  # less than the usual limit on open files

    def __init__(
        self,
        holding: Holding,
        surveys: SurveyList,
        proxies: Sequence[str] = (),
        app_tokens: Collection[str] = (),
    ) -> None:
        super().__init__(MAX_BODY_BYTES)
        self._holding, self._surveys, self._proxies = holding, surveys, proxies
        self._app_tokens = [f"Bearer {token}".encode() for token in app_tokens]
        self._thread, self._fetcher = ThreadPoolExecutor(1, "disk"), ThreadPoolExecutor(1, "list")
        self._fetching: asyncio.Future[Fetched | None] | None = None
        self._pace = Pace(per_second=LISTS_PER_SECOND)
        self._waiting: list[tuple[Arrival, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def reply(self, scope: Scope, protocol: Exchange) -> Reply:
        if (scope.method, scope.path) == ("GET", "/healthz"):
            return 200, header_list({}), b'{"status":"alive"}'
        if scope.path == SURVEYS and scope.method in READ_METHODS:
            return await self._list(scope)
        if scope.path != ENVELOPES:
            raise HttpError(404, f"this server accepts POST {ENVELOPES} and GET {SURVEYS}")
        if scope.method == "OPTIONS":
            return 200, header_list(CROSS_ORIGIN | PREFLIGHT), b""
        if scope.method != "POST":
            raise HttpError(405, "this address accepts only POST")
        if scope.headers.get("content-type", "") != SEALED_TYPE:
            raise HttpError(415, f"a relay forwards only {SEALED_TYPE}")
        sender = self._sender(scope)
        async with self.body_of(scope, protocol) as body:
            try:
                (envelope,) = parse_sealed(body, 1)
            except InvalidEnvelope as error:
                status = 413 if error.code == "too-many" else 400
                raise HttpError(status, f"{error.detail}; nothing was accepted") from None
            await self._check(envelope)
            await self._keep(Arrival(envelope, sender))
        return 202, header_list(CROSS_ORIGIN), b'{"held":1}'

    def refusal_headers(self, error: HttpError, scope: Scope) -> Mapping[str, str]:  # noqa: ARG002 - as in `Front`
        return CROSS_ORIGIN if scope.path in (ENVELOPES, SURVEYS) else {}

    def _sender(self, scope: Scope) -> bytes | None:
        """Return the sender's neighbourhood; None for an app that sends for many people."""
        if "authorization" not in scope.headers:
            return neighbourhood(sender_address(scope, self._proxies))
        given = (scope.headers.get("authorization") or "").encode()
        if not any(compare_digest(given, known) for known in self._app_tokens):
            raise HttpError(401, UNKNOWN_TOKEN)
        return None

    async def _check(self, envelope: SealedEnvelope) -> None:
        """Refuse an envelope that no survey expects. The list may be new, so fetch it if needed."""
        found = self._surveys.round_of(envelope.mark)
        if found is None:
            await self._fetched()
            found = self._surveys.round_of(envelope.mark)
        if found is None:
            raise HttpError(503, UNKNOWN_MARK, retry_after=UNKNOWN_SECONDS)
        if len(envelope.sealed) != found.length:
            raise HttpError(400, WRONG_LENGTH)

    async def _fetched(self) -> Fetched | None:
        """Return the aggregator's list, which one thread fetches for all requests that wait."""
        if (fresh := self._surveys.fresh) is not None:
            return fresh
        if self._fetching is None or self._fetching.done():
            self._fetching = self._loop.run_in_executor(self._fetcher, self._surveys.get)
        return await asyncio.shield(self._fetching)

    async def _list(self, scope: Scope) -> Reply:
        """Serve the aggregator's list."""
        if not await self._pace.has_turn():
            raise HttpError(503, BUSY)
        listed = await self._fetched()
        if listed is None:
            raise HttpError(503, NO_LIST)
        more = {"Cache-Control": PUBLIC_CACHE, **CROSS_ORIGIN, "Vary": "Accept-Encoding"}
        if accepts_gzip(scope.headers.get("accept-encoding") or ""):
            return 200, header_list({**more, "Content-Encoding": "gzip"}), listed.compressed
        return 200, header_list(more), listed.plain

    async def _keep(self, arrival: Arrival) -> None:
        """Write an envelope to disk, together with all others that have arrived meanwhile."""
        if len(self._waiting) >= MAX_WAITING:
            raise HttpError(503, BUSY)
        kept: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((arrival, kept))
        if self._writing is None:
            self._writing = self._loop.create_task(self._write())
        try:
            await kept
        except Full as error:
            raise HttpError(503, str(error), retry_after=FULL_SECONDS) from None
        except OSError as error:
            log.error("the folder cannot be written: %s", error.strerror)
            raise HttpError(503, UNWRITABLE, retry_after=FULL_SECONDS) from None

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                arrivals = [arrival for arrival, _ in group]
                problems = await self._loop.run_in_executor(
                    self._thread, self._holding.keep, arrivals
                )
                for (_, kept), problem in zip(group, problems, strict=True):
                    if kept.done():
                        continue  # the sender has disconnected
                    if problem is None:
                        kept.set_result(None)
                    else:
                        kept.set_exception(problem)
        finally:
            self._writing = None


def relay(settings: Settings, host: str, port: int, ready: Callable[[Address], None]) -> None:
    """Run the relay until a signal arrives. Raise Refused if the port or the folder is in use."""
    settings.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.close(take_lock(settings.folder))
    with claim(host, port) as address:
        front = partial(load, settings)
        logs = logging_config("relay", as_json=settings.log_json)
        serve = partial(
            run_granian,
            address,
            front,
            logs,
            head_bytes=2**13,
            connections=RelayFront.max_connections,
        )
        supervise([Role("relay", address, serve)], partial(ready, address))


def load(settings: Settings, parent: int) -> RelayFront:
    """Return the application; called in the worker, before anything is open."""
    try:
        take_lock(settings.folder)
        holding = Holding(settings.folder, settings.max_bytes, settings.per_network)
    except (DeniableError, OSError) as error:
        print(f"deniable relay: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    surveys = SurveyList(settings.server)
    forwarder = Forwarder(holding, surveys, settings)
    forwarder.start()
    watch_parent(parent, forwarder.has_ended)
    return RelayFront(holding, surveys, settings.proxies, settings.app_tokens)
