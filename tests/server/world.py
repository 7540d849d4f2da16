"""Server for the tests: a real application in this process, or real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flask import Flask, Response, request
from jinja2.bccache import Bucket, BytecodeCache

from deniable.server.app import create_app
from deniable.server.http.context import Parts, parts_of
from deniable.server.http.intake_front import IntakeFront
from deniable.server.http.tokens import new_token
from deniable.server.http.uploads import AppTokens, Intake
from deniable.server.intake.limits import Limits
from deniable.server.intake.status import Metrics
from deniable.server.intake.writer import Writer
from deniable.server.pages.public_pages import PagePublisher
from deniable.server.store import Place, PublishedSurvey, SqliteStore, create_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import Survey
from tests.command import DENIABLE
from tests.eventually import PATIENCE
from tests.server.contract import fault_of
from tests.server.devices import BothAddresses, DeviceClient, Loop, is_for_intake
from tests.server.released import release_all
from tests.server.surveys import published

NOON = datetime(2026, 12, 15, 12, tzinfo=UTC)
JSON = "application/json"
PROBLEM = "application/problem+json"


class Hands(Clock):
    """Clock that tests set; its `seconds` advance with its time."""

    def __init__(self, time: datetime = NOON) -> None:
        super().__init__(now=lambda: self.time, seconds=lambda: datetime.timestamp(self.time))
        self.time = time

    def pass_(self, **spans: float) -> None:
        self.time += timedelta(**spans)


@dataclass
class World:
    """Intake and reader with a real store and a real writer, in this process."""

    store: SqliteStore  # a PostgresStore in tests of both stores
    catalogue: Catalogue
    writer: Writer
    app: Flask  # the reader
    front: IntakeFront
    publisher: PagePublisher
    clock: Hands

    @property
    def client(self) -> Any:  # Any: JSON of its answers
        """Client that sends device requests to intake and all others to the reader."""
        return self.app.test_client()

    @property
    def devices(self) -> Any:  # Any: JSON of its answers
        """Client that sends everything to intake."""
        return DeviceClient(self.app)

    def at_one_address(self, environ: Any, start: Any) -> Iterable[bytes]:  # Any: as in WSGI
        """Serve intake and reader at one address, as a WSGI application for a browser."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if not is_for_intake(path, method):
            return self.app(environ, start)
        return [DeviceClient(self.app).answer(environ, start)]

    def publish(self, asked: Survey) -> PublishedSurvey:
        return published(self.store, asked, self.catalogue)

    def token(self, role: str, **lasts: float) -> str:
        """Return a new token of this role."""
        token = new_token()
        end = self.clock.now() + timedelta(**(lasts or {"days": 1}))
        self.store.add_token(token, role, self.clock.now(), end)
        return token

    def session(self, token: str) -> str:
        """Return the cookie of a session that begins with this token."""
        return parts_of(self.app).sessions.begin(token)

    def bearer(self, role: str, **lasts: float) -> dict[str, str]:
        """Return the header with a new token of this role."""
        return {"Authorization": f"Bearer {self.token(role, **lasts)}"}

    def send(self, *envelopes: Envelope, app: bool = False) -> Any:  # Any: a test response
        body = b"".join(envelope.pack() for envelope in envelopes)
        return self.post(body, headers=self.bearer("app") if app else {})

    def post(self, body: bytes, content_type: str = CONTENT_TYPE, **more: Any) -> Any:
        return self.client.post("/v1/envelopes", data=body, content_type=content_type, **more)

    def tallies(self, asked: PublishedSurvey) -> dict[int, tuple[int, list[int]]]:
        tallies = self.store.tallies(asked.sequence)
        return {tally.round: (tally.reports, tally.cells.tolist()) for tally in tallies}


class Templates(BytecodeCache):
    """Compiled templates, shared by all worlds of a process: compiling one takes 10 to 40 ms."""

    def __init__(self) -> None:
        self.codes: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.codes:
            bucket.bytecode_from_string(self.codes[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.codes[bucket.key] = bucket.bytecode_to_string()


COMPILED = Templates()


@contextmanager
def world(
    place: Place,
    now: datetime = NOON,
    sealing: Mapping[str, X25519PrivateKey] | None = None,
    *,
    public_pages: bool = False,
    relays: Collection[str] = (),
    limits: Callable[[Clock], Limits] | None = None,
    steps: bool = False,
) -> Iterator[World]:
    """Start intake and reader. Without `steps`, each request shows all reports of open rounds."""
    clock = Hands(now)
    with create_store(place) as store:
        catalogue = Catalogue(store, clock)
        writer = Writer(store, catalogue, clock)
        writer.start()
        intake = Intake(
            store=store,
            catalogue=catalogue,
            writer=writer,
            clock=clock,
            metrics=Metrics(writer),
            app_tokens=AppTokens(clock, store),
            limits=limits(clock) if limits else None,
            sealing=sealing or {},
            relays=relays,
        )
        front = IntakeFront(intake, public_pages=public_pages)
        parts = Parts(
            store, catalogue, lambda: front.status(0.0), clock, has_public_pages=public_pages
        )
        app = create_app(parts)
        app.jinja_env.bytecode_cache = COMPILED
        faults, loop, publisher = set[str | None](), Loop(front), PagePublisher(app)

        def hold_against_the_document(method: str, path: str, response: Response) -> None:
            faults.add(fault_of(method, path, response))

        @app.before_request
        def release() -> None:
            with suppress(StoreUnusable):
                if not steps:
                    release_all(store)

        @app.after_request
        def check(response: Response) -> Response:
            rule = request.url_rule
            hold_against_the_document(request.method, rule.rule if rule else "", response)
            return response

        app.test_client_class = BothAddresses
        app.extensions["tests"] = DeviceClient.Tests(loop, hold_against_the_document, publisher)
        try:
            yield World(cast(SqliteStore, store), catalogue, writer, app, front, publisher, clock)
        finally:
            loop.close()
            writer.stop()
        assert faults <= {None}, faults


# Real processes


@dataclass
class Server:
    """Process group of `deniable serve`."""

    process: subprocess.Popen[str]
    url: str  # for devices
    dashboard: str  # for people
    token: str | None

    @property
    def port(self) -> int:
        """Port of intake."""
        return int(self.url.rpartition(":")[2])

    @property
    def dashboard_port(self) -> int:
        return int(self.dashboard.rpartition(":")[2])

    def url_of(self, path: str) -> str:
        """Return the full address of a path, at the process that serves it."""
        return (self.url if is_for_intake(path, "GET") else self.dashboard) + path

    def workers(self, role: str = "(intake|relay)") -> list[int]:
        """Return the pids of a role's workers, the children of the process with the role's name."""
        listed = subprocess.run(
            ["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True
        ).stdout.splitlines()
        rows = [line.split(maxsplit=2) for line in listed]
        named = {
            int(pid): int(parent)
            for pid, parent, name in rows
            if re.fullmatch(f"deniable-{role}", name.strip())
        }
        return [pid for pid, parent in named.items() if named.get(parent) == self.process.pid]

    def kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def stop(self) -> tuple[int, str]:
        """Stop the server; return its exit code and its error output."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def start(
    place: Place, *, port: int = 0, command: list[str] | None = None, more: Sequence[str] = ()
) -> Server:
    where = ["--data", str(place)] if isinstance(place, Path) else ["--store", place.url]
    ports = ["--port", str(port), "--dashboard-port", "0"]
    base = [*(command or [*DENIABLE, "serve"]), *where, *ports, "--json"]
    return begun([*base, *more])


def begun(command: Sequence[str]) -> Server:
    """Start the command, and return the server once it reports that it is ready."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate(timeout=PATIENCE)
        raise AssertionError(f"the server did not start: {errors}")
    ready = json.loads(line)
    return Server(process, ready["url"], ready.get("dashboard", ready["url"]), ready.get("token"))


@contextmanager
def serving(
    place: Place, *, port: int = 0, command: list[str] | None = None, more: Sequence[str] = ()
) -> Iterator[Server]:
    server = start(place, port=port, command=command, more=more)
    try:
        yield server
    finally:
        server.kill_group()
