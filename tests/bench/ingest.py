"""Cost of a durable upload over HTTP, compared with a bare Flask route that does not use the disk.

A second measurement gives the throughput that remains while other clients request the server's
health as fast as they can.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from deniable.server.store import Place
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from deniable.shared.survey.document import parse_toml
from tests.bench.load import Make, ask, post
from tests.bench.measure import Measurement, compare
from tests.command import deniable
from tests.server.postgres import cluster
from tests.server.world import serving
from tests.survey_texts import ALWAYS, bit, survey_text

REQUESTS, REPORTS, ASKING = 1_600, 1_000, 64
SURVEY = survey_text(bit(), round="once", **ALWAYS)


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name, bare() as other:
        data = Path(name) / "data"
        with served(data, Path(name)) as (port, survey, app):
            for connections, limit in ((8, 2.2), (64, 1.43)):
                yield beside_bare(connections, limit, port, other, upload(survey))
            yield with_token(port, other, upload(survey, REPORTS, app))
            for path in ("/healthz", "/readyz"):
                yield beside_others(port, path, upload(survey))
        with (
            cluster() as postgres,
            served(postgres.new_database(), Path(name)) as (port, survey, _),
        ):
            yield beside_bare(64, 4, port, other, upload(survey), " to PostgreSQL")


@contextmanager
def served(place: Place, folder: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the port, the survey and an app token of a server that uses this store."""
    file, key = folder / "survey.toml", folder / "key.pem"
    file.write_text(SURVEY)
    if not key.exists():
        deniable("keys", "new", str(key))
    where = ("--data", str(place)) if isinstance(place, Path) else ("--store", place.url)
    survey = deniable("survey", "publish", str(file), "--key", str(key), *where)["id"]
    app = deniable("token", "create", "--role", "app", *where)["token"]
    with serving(place) as server:
        yield server.port, survey, app


def beside_bare(
    connections: int, limit: float, port: int, other: int, make: Make, to: str = ""
) -> Measurement:
    each = REQUESTS // connections
    return compare(
        f"{connections} connections upload durable envelopes of 1{to}",
        partial(ask, port, connections, each, make),
        partial(ask, other, connections, each, partial(post, "/", bytes(65))),
        unit="µs",
        per=1e6 / REQUESTS,
        limit=limit,
        note="a request; compared with a bare Flask route in threads",
    )


def with_token(port: int, other: int, make: Make) -> Measurement:
    return compare(
        f"64 connections upload durable envelopes of {REPORTS:,}",
        partial(ask, port, 64, REQUESTS // 64, make),
        partial(ask, other, 64, REQUESTS // 64, partial(post, "/", bytes(REPORTS))),
        unit="µs",
        per=1e6 / REQUESTS,
        limit=2.5,
        note=f"a request of {REPORTS:,} reports",
    )


def beside_others(port: int, path: str, make: Make) -> Measurement:
    def disturbed() -> None:
        with asking(port, path):
            ask(port, 16, REQUESTS // 16, make)

    return compare(
        f"16 connections upload while {ASKING} ask for {path}",
        disturbed,
        partial(ask, port, 16, REQUESTS // 16, make),
        unit="µs",
        per=1e6 / REQUESTS,
        limit=1.6,
        note="a request; compared with the same without them",
    )


@contextmanager
def asking(port: int, path: str) -> Iterator[None]:
    """Send requests in a closed loop from a separate thread."""
    loop, request = asyncio.new_event_loop(), f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    async def closed_loop() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                writer.write(request)
                await reader.readuntil(b"}")
        finally:
            writer.close()

    tasks = [loop.create_task(closed_loop()) for _ in range(ASKING)]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


@contextmanager
def bare() -> Iterator[int]:
    """Yield the port of the bare route, which runs in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.bare"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    try:
        while not _answers(port):
            pass
        yield port
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _answers(port: int) -> bool:
    try:
        ask(port, 1, 1, partial(post, "/", b""))
    except OSError:
        return False
    return True


def upload(survey: str, reports: int = 1, token: str | None = None) -> Make:
    payload = bytes(reports * parse_toml(SURVEY).report_size)
    headers = [f"Content-Type: {CONTENT_TYPE}"]
    headers += [f"Authorization: Bearer {token}"] if token else []

    def make() -> bytes:
        envelope = Envelope(survey, 0, os.urandom(16), reports, payload)
        return post("/v1/envelopes", envelope.pack(), *headers)

    return make
