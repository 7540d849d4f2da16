"""Front of intake: all addresses for devices and the public.

The loop admits a small upload directly and passes it to the writer; a large upload gets a limited
share of the loop's time (`rate_limit`). Responses to reads are bytes from memory, or pages that the
reader has published into the store. A separate thread queries the store, so that the loop never
waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs

import msgspec

from deniable.server.http.front import READ_METHODS, Exchange, Front, Reply, header_list
from deniable.server.http.messages import (
    ASK_PAGES,
    ASK_POLICY,
    BUSY,
    CROSS_ORIGIN,
    GZIP,
    HTML,
    INVITATION_HEADER,
    JSON,
    NO_ASK_PAGE,
    PAGE_POLICY,
    PREFLIGHT,
    PROBLEM_PAGES,
    PUBLIC_CACHE,
    UNKNOWN_SURVEY,
    HttpError,
    accepts_gzip,
    ready_body,
)
from deniable.server.http.middleware import sender_address
from deniable.server.http.rate_limit import LISTS_PER_SECOND, Pace, WorkShare
from deniable.server.http.tokens import invitation_in
from deniable.server.http.uploads import (
    UNKNOWN_TOKEN,
    Decision,
    Intake,
    Parsed,
    Sent,
    check_app_token,
    count_wrong_code,
    decide,
    note_drop,
    parse,
    receipt,
)
from deniable.server.intake.admission import Refusal
from deniable.server.intake.commit import Outcome
from deniable.server.intake.limits import neighbourhood
from deniable.server.intake.status import IntakeStatus, unready_reason
from deniable.server.intake.writer import Settled, Unavailable
from deniable.server.store import PublicPage, PublishedSurvey, Upload
from deniable.server.surveys.catalogue import FRESH_SECONDS, UnknownSurvey
from deniable.server.surveys.shared_results import NO_SHARED_PAGE, SHARED_PAGES
from deniable.shared.envelope import MAX_BODY_BYTES

if TYPE_CHECKING:
    from granian.rsgi import Scope

WITH_CODES = {"Access-Control-Allow-Headers": f"Content-Type, {INVITATION_HEADER}"}
MAX_UPLOADS_WAITING = 1_024  # limit on uploads that wait for the disk: as many as one commit takes
MAX_QUERIES_WAITING = 64
CHEAP_BODY_BYTES = 4_096
CHEAP_JSON_BYTES = 512  # parsing JSON takes many times longer
ENVELOPES_AT_A_TIME = 64  # envelopes of a large upload that are processed between two rests
READINESS_FRESH_SECONDS = 1.0
READINESS_PATIENCE_SECONDS = 1.0
MAX_REGISTER_ENTRIES = 1_000  # entries per response
MAX_NUMBER_DIGITS = 9
REGISTER_NOTE = (
    "Each head is a hash of all entries up to it. A single head proves nothing: the operator can "
    "show different registers to different people. Keep copies of heads elsewhere and compare them."
)
SLOW_STORE = "the store cannot be written now; another process may be writing, or the disk is slow"
NOTHING_HERE = "nothing exists here; devices use this address, people use a different one"
WRONG_METHOD = "this address does not support that method; see the Allow header"

T = TypeVar("T")


class IntakeFront(Front):
    max_connections = 2_048  # further connections wait to be accepted

    def __init__(
        self, intake: Intake, proxies: Sequence[str] = (), *, public_pages: bool = False
    ) -> None:
        super().__init__(MAX_BODY_BYTES)
        self.intake, self._proxies, self._public_pages = intake, proxies, public_pages
        self._queries = ThreadPoolExecutor(1, "queries")
        self._queries_waiting = 0
        self._register: list[bytes] = []  # entries as JSON; the register only grows
        self._settled = deque[tuple[asyncio.Future[list[Outcome]], Settled]]()
        self._waiting, self._waking = 0, False
        self._refreshing: asyncio.Future[None] | None = None
        self._paces = {path: Pace(per_second=route.per_second) for path, route in ROUTES.items()}
        self._refusal_pace, self._token_pace, self._unknown_pace = Pace(), Pace(), Pace()
        self._receipt_headers = header_list(CROSS_ORIGIN)
        self._failover_risk: str | None = None

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__rsgi_init__(loop)
        self._costly = WorkShare()
        self._readiness = Readiness(loop, self._unready_reason)

    async def reply(self, scope: Scope, protocol: Exchange) -> Reply:
        path = route_path(scope.path)
        route = ROUTES.get(path)
        if route is None or scope.method not in route.all_methods:
            if not await self._refusal_pace.has_turn():
                raise HttpError(503, BUSY)
            if route is None:
                raise HttpError(404, NOTHING_HERE)
            raise HttpError(405, WRONG_METHOD)
        if route.per_second is not None and not await self._paces[path].has_turn():
            raise HttpError(503, BUSY)
        if scope.method == "OPTIONS":
            more = CROSS_ORIGIN | PREFLIGHT | WITH_CODES if route.refuses_across_origins else {}
            return 200, header_list({"Allow": ", ".join(route.all_methods), **more}), b""
        return await route.answer(self, scope, protocol)

    def refusal_headers(self, error: HttpError, scope: Scope) -> Mapping[str, str]:
        route = ROUTES.get(route_path(scope.path))
        if error.status == 405 and route is not None:
            return {"Allow": ", ".join(route.all_methods)}
        if route is not None and route.refuses_across_origins and scope.method in route.methods:
            return CROSS_ORIGIN
        return {}

    def status(self, now: float) -> IntakeStatus:
        writer, metrics = self.intake.writer, self.intake.metrics
        return IntakeStatus(
            written=now,
            running=writer.running,
            clock_fault=writer.clock_fault(),
            waiting=writer.waiting,
            sealing_keys=[*self.intake.sealing],
            metrics=metrics.text(),
        )

    # Uploads

    async def take_upload(self, scope: Scope, protocol: Exchange) -> Reply:
        async with self.body_of(scope, protocol) as body:
            if self._waiting >= MAX_UPLOADS_WAITING:
                raise HttpError(503, BUSY)
            limited, authorization = self.intake.limits is not None, _authorization(scope)
            invitation = invitation_in(scope.headers.get(INVITATION_HEADER.lower()))
            sent = Sent(
                scope.headers.get("content-type") or "",
                None if invitation else authorization,  # a code is good for one report
                body,
                neighbourhood(sender_address(scope, self._proxies)) if limited else None,
                invitation,
            )
            await self._look_up(sent.authorization)
            cheap = is_cheap(sent)
            if cheap:
                self._costly.cheap_requests += 1
                parsed = parse(self.intake, sent)
                if not parsed:
                    await self._query(partial(note_drop, self.intake, sent))
                decisions = await self._decide(sent, parsed)
            else:
                decisions = await self._decide_in_parts(sent)
            reserved = self.intake.app_tokens.reserve(sent.authorization, decisions)
            self._waiting += 1
            self._costly.cheap_waiting += cheap
            try:
                written = await self._written(decisions)
            except Unavailable as error:
                self.intake.app_tokens.give_back(reserved, decisions)
                raise HttpError(503, str(error)) from None
            finally:
                self._waiting -= 1
                self._costly.cheap_waiting -= cheap
            self.intake.app_tokens.give_back(reserved, decisions, written)
            count_wrong_code(self.intake, sent, decisions, written)
            answer = receipt(self.intake, decisions, written)
            return 200, self._receipt_headers, msgspec.json.encode(answer)

    async def _decide_in_parts(self, sent: Sent) -> list[Decision]:
        """Admit or refuse the envelopes of a large upload, a few at a time."""
        if self._costly.is_full:
            raise HttpError(503, BUSY)
        async with self._costly:
            await self._look_up(sent.authorization)
            parsed, decisions = parse(self.intake, sent), list[Decision]()
            for start in range(0, len(parsed), ENVELOPES_AT_A_TIME):
                if start:
                    await self._costly.rest()
                    await self._look_up(sent.authorization)
                part = parsed[start : start + ENVELOPES_AT_A_TIME]
                decisions += await self._decide(sent, part)
            return decisions

    async def _decide(self, sent: Sent, parsed: Sequence[Parsed]) -> list[Decision]:
        """Admit or refuse envelopes; read the surveys again before one counts as unknown.

        Another node may have published it a moment ago, and devices take this refusal as final.
        """
        decisions = decide(self.intake, sent, parsed)
        if any(map(is_unknown, decisions)):
            if not await self._unknown_pace.has_turn():
                raise HttpError(503, BUSY)
            await self._refresh_again()
            for index, decision in enumerate(decisions):
                if is_unknown(decision):
                    (decisions[index],) = decide(self.intake, sent, parsed[index : index + 1])
        return decisions

    async def _written(self, decisions: Sequence[Decision]) -> list[Outcome]:
        uploads = [decision for decision in decisions if isinstance(decision, Upload)]
        if not uploads:
            return []
        waiter: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self.intake.writer.submit(uploads, partial(self._settle, waiter))
        return await waiter

    def _settle(self, waiter: asyncio.Future[list[Outcome]], settled: Settled) -> None:
        """Wake the loop once per commit; the writer's thread calls this for each upload."""
        self._settled.append((waiter, settled))
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False
        while self._settled:
            waiter, settled = self._settled.popleft()
            if waiter.done():
                continue  # the connection has closed
            if isinstance(settled, Unavailable):
                waiter.set_exception(settled)
            else:
                waiter.set_result(settled)

    # Queries of the store

    async def _look_up(self, authorization: str | None = None) -> None:
        """Make sure that the surveys and the token, if any, were looked up recently."""
        remaining = self.intake.catalogue.fresh_for
        if remaining < FRESH_SECONDS / 2:
            refreshing = self._refresh()
            if remaining <= 0:
                await asyncio.shield(refreshing)
        if authorization is not None and self.intake.app_tokens.fresh_for(authorization) <= 0:
            if not await self._token_pace.has_turn():
                raise HttpError(503, BUSY)
            await self._query(partial(check_app_token, self.intake, authorization))

    async def _query(self, query: Callable[[], T]) -> T:
        """Run a query of the store in its thread, for which only some requests may wait."""
        if self._queries_waiting >= MAX_QUERIES_WAITING:
            raise HttpError(503, BUSY)
        self._queries_waiting += 1
        try:
            return await self._loop.run_in_executor(self._queries, query)
        finally:
            self._queries_waiting -= 1

    def _refresh(self) -> asyncio.Future[None]:
        """Read the surveys from the store, once for all requests that wait for them."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._loop.run_in_executor(self._queries, self._refresh_now)
            # An error that no caller awaits is dropped: the next caller gets its own.
            self._refreshing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._refreshing

    async def _refresh_again(self) -> None:
        """Wait for a refresh that begins after this call; many callers share one."""
        if self._refreshing is not None and not self._refreshing.done():
            await asyncio.wait([self._refreshing])
        await asyncio.shield(self._refresh())

    def _refresh_now(self) -> None:
        self.intake.catalogue.refresh()
        self.intake.app_tokens.read_labels()
        # Compress the list here, so that the first request does not have to.
        self.intake.catalogue.listing(compressed=True)

    # Public reads

    async def list_surveys(self, scope: Scope, _: Exchange) -> Reply:
        """List the surveys, unless the clock is not trusted: a wrong date could hide them."""
        await self._look_up()
        if self.intake.writer.clock_fault():
            raise HttpError(503, "the server's clock is not trusted; try again later")
        compressed = accepts_gzip(scope.headers.get("accept-encoding") or "")
        more = {"Cache-Control": PUBLIC_CACHE, **CROSS_ORIGIN, "Vary": "Accept-Encoding"}
        if compressed:
            more["Content-Encoding"] = "gzip"
        return 200, header_list(more), self.intake.catalogue.listing(compressed=compressed)

    async def show_survey(self, scope: Scope, _: Exchange) -> Reply:
        published = await self._find(name_in(scope.path), UNKNOWN_SURVEY)
        entry = self.intake.catalogue.entry_text(published).encode()
        return 200, header_list({"Cache-Control": PUBLIC_CACHE}), entry

    async def show_register(self, scope: Scope, _: Exchange) -> Reply:
        after = parse_qs(scope.query_string, keep_blank_values=True).get("after", ["0"])[0]
        if not (after.isascii() and after.isdigit() and len(after) <= MAX_NUMBER_DIGITS):
            raise HttpError(400, "after must be a whole number, like ?after=1000")
        await self._look_up()
        if len(self._register) < self.intake.catalogue.mark:
            await self._query(self._extend_register)
        first = int(after)
        entries = self._register[first : first + MAX_REGISTER_ENTRIES]
        more = len(self._register) > first + len(entries)
        rest = json.dumps({"more": more, "note": REGISTER_NOTE})
        body = b'{"entries": [' + b", ".join(entries) + b"], " + rest[1:].encode()
        return 200, header_list({}), body

    def _extend_register(self) -> None:
        new = self.intake.store.register(len(self._register))
        self._register += [json.dumps(vars(entry)).encode() for entry in new]

    async def show_page(self, scope: Scope, _: Exchange) -> Reply:
        """Serve the page that the reader has published at exactly this path."""
        return await self._page(scope.path, HttpError(404, NOTHING_HERE))

    async def show_public_page(self, scope: Scope, _: Exchange) -> Reply:
        """Serve a survey's public page, by its name, its id or a prefix of its id."""
        name, dot, ending = name_in(scope.path).partition(".")
        published = await self._find(name, NOTHING_HERE) if self._public_pages else None
        page = (dot + ending).removesuffix(".json")
        if published is None or page not in published.page_endings:
            raise HttpError(404, NOTHING_HERE)
        # A survey has no page only if it was published a moment ago.
        return await self._page(f"/public/{published.id}{dot}{ending}", HttpError(503, BUSY))

    async def show_ask_page(self, scope: Scope, _: Exchange) -> Reply:
        """Serve a file of the respondent pages, or the page of a survey by its name or id.

        Pages of other origins may load the files.
        """
        name, status = name_in(scope.path), 200
        if "." not in name:
            with suppress(HttpError):
                name = (await self._find(name, NOTHING_HERE)).id
        paths = [ASK_PAGES + name]
        if "." in name and accepts_gzip(scope.headers.get("accept-encoding") or ""):
            paths.insert(0, ASK_PAGES + name + GZIP)
        path, page = await self._first_page(paths)
        if page is None:
            status, (path, page) = 404, await self._first_page([NO_ASK_PAGE])
        if page is None:
            raise HttpError(503, BUSY)
        more = {"Cache-Control": PUBLIC_CACHE, "Vary": "Accept-Encoding"}
        if path.endswith(GZIP):
            more["Content-Encoding"] = "gzip"
        if page.content_type == HTML:
            more |= {"Content-Security-Policy": ASK_POLICY, "X-Robots-Tag": "noindex"}
        else:
            more |= {**CROSS_ORIGIN, "Cross-Origin-Resource-Policy": "cross-origin"}
        return status, header_list(more, page.content_type), page.body

    async def _first_page(self, paths: Sequence[str]) -> tuple[str, PublicPage | None]:
        """Return the first of these paths at which a page is published, and the page."""
        path, page = "", None
        for path in paths:
            if page := await self._query(partial(self.intake.store.public_page, path)):
                break
        return path, page

    async def show_shared_page(self, scope: Scope, _: Exchange) -> Reply:
        """Serve the page of a share; no cache keeps it, so that it can be revoked."""
        today, store = self.intake.clock.now().date(), self.intake.store
        page, status = await self._query(partial(store.shared_page, scope.path, today)), 200
        if page is None:
            missing = await self._query(partial(store.public_page, NO_SHARED_PAGE))
            if missing is None:
                raise HttpError(404, NOTHING_HERE)
            page, status = missing.body, 404
        more = {"Content-Security-Policy": PAGE_POLICY, "X-Robots-Tag": "noindex"}
        return status, header_list(more, HTML), page

    async def _find(self, text: str, problem: str) -> PublishedSurvey:
        await self._look_up()
        try:
            return self.intake.catalogue.find(text)
        except UnknownSurvey:
            raise HttpError(404, problem) from None

    async def _page(self, path: str, missing: HttpError) -> Reply:
        page = await self._query(partial(self.intake.store.public_page, path))
        if page is None:
            raise missing
        more = {"Cache-Control": PUBLIC_CACHE}
        if page.content_type.startswith("text/html"):
            more["Content-Security-Policy"] = PAGE_POLICY
        return 200, header_list(more, page.content_type), page.body

    # Health

    async def show_alive(self, *_: object) -> Reply:
        return 200, header_list({}), b'{"status":"alive"}'

    async def show_ready(self, *_: object) -> Reply:
        if (reason := await self._readiness.reason()) is not None:
            raise HttpError(503, reason)
        return 200, header_list({}), ready_body(self._failover_risk)

    def _unready_reason(self) -> str | None:
        intake, status, now = self.intake, self.status(0.0), self.intake.clock.now()
        reason = unready_reason(status, intake.store, intake.catalogue, now)
        if reason is None:
            self._failover_risk = intake.store.failover_risk()
        return reason


Answer = Callable[[IntakeFront, "Scope", Exchange], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """Address of intake, with its methods and its rate limit, if any."""

    answer: Answer
    per_second: float | None = 200.0
    methods: tuple[str, ...] = READ_METHODS
    refuses_across_origins: bool = False  # pages of other origins may also read refusals

    @property
    def all_methods(self) -> tuple[str, ...]:
        return (*self.methods, "OPTIONS")


ROUTES: Mapping[str, Route] = {
    "/v1/envelopes": Route(IntakeFront.take_upload, None, ("POST",), refuses_across_origins=True),
    "/v1/surveys": Route(IntakeFront.list_surveys, LISTS_PER_SECOND),
    "/v1/surveys/{id}": Route(IntakeFront.show_survey),
    "/v1/register": Route(IntakeFront.show_register),
    "/public/{id}": Route(IntakeFront.show_public_page),
    f"{ASK_PAGES}{{survey}}": Route(IntakeFront.show_ask_page),
    f"{SHARED_PAGES}{{secret}}": Route(IntakeFront.show_shared_page),
    f"{PROBLEM_PAGES}{{kind}}": Route(IntakeFront.show_page),
    "/static/{file}": Route(IntakeFront.show_page),
    "/healthz": Route(IntakeFront.show_alive),
    "/readyz": Route(IntakeFront.show_ready),
}
_PATTERNS = {path.rpartition("/")[0]: path for path in ROUTES if path.endswith("}")}


def route_path(path: str) -> str:
    """Return the key in ROUTES for a path, or the path itself if there is none."""
    return path if path in ROUTES else _PATTERNS.get(path.rpartition("/")[0], path)


def name_in(path: str) -> str:
    return path.rpartition("/")[2]


def is_cheap(sent: Sent) -> bool:
    """Return whether an upload takes negligible time to check."""
    binary = len(sent.body) <= CHEAP_BODY_BYTES and not sent.content_type.startswith(JSON)
    return binary or len(sent.body) <= CHEAP_JSON_BYTES


def is_unknown(decision: Decision) -> bool:
    return isinstance(decision, Refusal) and decision.code == "unknown-survey"


def _authorization(scope: Scope) -> str | None:
    value: str | None = scope.headers.get("authorization")
    if value is None and "authorization" in scope.headers:  # its bytes are not text
        raise HttpError(401, UNKNOWN_TOKEN)
    return value


class Readiness:
    """Readiness of the store, checked at most once a second for all requests.

    A check takes the writer's lock, so one check per request would let probes delay reports. After
    a second without a result, the response states that the store is slow.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], str | None]) -> None:
        self._loop, self._look = loop, look
        self._thread = ThreadPoolExecutor(1, "readiness")
        self._looking: asyncio.Future[str | None] | None = None
        self._fresh_until = 0.0

    async def reason(self) -> str | None:
        """Return why reports cannot be accepted, or None."""
        looking = self._looking
        if looking is None or (looking.done() and self._loop.time() >= self._fresh_until):
            looking = self._looking = self._loop.run_in_executor(self._thread, self._look_once)
        done, _ = await asyncio.wait([looking], timeout=READINESS_PATIENCE_SECONDS)
        return looking.result() if done else SLOW_STORE

    def _look_once(self) -> str | None:
        reason = self._look()
        self._fresh_until = self._loop.time() + READINESS_FRESH_SECONDS
        return reason
