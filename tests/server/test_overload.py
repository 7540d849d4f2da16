"""Overload: the server refuses early, stays alive, and limits its memory."""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from deniable.server.store import create_store
from deniable.server.store.sqlite import sqlite_database
from deniable.server.store.sqlite.sqlite_database import BUSY_SECONDS
from deniable.shared.envelope import CONTENT_TYPE
from tests.bench.ingest import asking
from tests.bench.load import ask
from tests.bench.measure import seconds
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import envelope, published
from tests.server.test_kills import this_month, this_round
from tests.server.test_serving import answers, get
from tests.server.world import Server, serving

MAX_RSS_BYTES = 400 * 2**20
DEVICE_SECONDS = 10.0  # time that clients wait for an answer, by default
SLOW_PACE = """
import dataclasses
import deniable.server.http.intake_front as front, deniable.server.http.rate_limit as pace
pace.REQUESTS_PER_SECOND = 20.0
front.ROUTES = {
    path: dataclasses.replace(route, per_second=route.per_second and 20.0)
    for path, route in front.ROUTES.items()
}
"""
PROGRAM = "from deniable.shared.cli.command import main\n{}\nraise SystemExit(main())"


def altered(*lines: str) -> list[str]:
    """Return the command, with some limits set to small values."""
    return [sys.executable, "-c", PROGRAM.format("\n".join(lines)), "serve"]


def head(length: int, kind: str = CONTENT_TYPE, path: str = "/v1/envelopes") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@contextmanager
def connections(server: Server, number: int, send: bytes) -> Iterator[list[socket.socket]]:
    """Open this number of connections, and send the same bytes over each."""
    made = []
    try:
        for _ in range(number):
            made.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
            with suppress(OSError):  # refused before all bytes were sent
                made[-1].sendall(send)
        yield made
    finally:
        for connection in made:
            connection.close()


def status(connection: socket.socket) -> int:
    return int(connection.recv(4096).split(b" ", 2)[1])


def peak_rss(server: Server) -> int:
    (worker,) = server.workers()
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def processor_seconds(server: Server) -> float:
    (worker,) = server.workers()
    ticks = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def test_the_memory_of_bodies_is_bounded(tmp_path: Path) -> None:
    """Hundreds of JSON bodies would be large in memory; then hundreds of bodies never end."""
    many = b'{"envelopes":[{"survey":"","round":0,"id":"","reports":[' + b"{}," * 349_000
    with serving(tmp_path / "data") as server:

        def attack(_: int) -> None:
            asked = connections(server, 1, head(len(many), "application/json") + many)
            with asked as made, suppress(OSError):
                assert status(made[0]) == 413

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(attack, range(200)))
        with connections(server, 200, head(2**20) + bytes(2**20 - 1)):
            assert answers(server)
            assert peak_rss(server) < MAX_RSS_BYTES


@pytest.mark.parametrize("length", [99, 9_999])
def test_slow_bodies_occupy_no_thread_and_time_out(tmp_path: Path, length: int) -> None:
    limits = "import deniable.server.http.front as front\nfront.BODY_SECONDS = 1.0"
    with (
        serving(tmp_path / "data", command=altered(limits)) as server,
        connections(server, 600, head(length) + b"DNB1") as held,
    ):
        assert answers(server)
        assert get(server, "/v1/surveys")[0] == 200
        assert {status(connection) for connection in held} == {408}


def test_the_slowest_bodies_are_dropped_when_memory_is_short(tmp_path: Path) -> None:
    limits = "import deniable.server.http.front as front\nfront.MAX_HELD_BYTES = 2**20"
    with (
        serving(tmp_path / "data", command=altered(limits)) as server,
        connections(server, 3, head(500_000) + bytes(499_999)) as held,
    ):
        assert status(held[0]) == 503
        assert get(server, "/v1/surveys")[0] == 200
        held[2].sendall(b"x")
        assert status(held[2]) == 400


def test_a_server_with_a_locked_database_stays_alive_and_soon_reports_it(tmp_path: Path) -> None:
    """Only one of many readiness checks waits for the lock, and no other request waits."""
    data = tmp_path / "data"
    ready = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(data) as server, closing(sqlite3.connect(data / "deniable.sqlite3")) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with connections(server, 64, ready) as made:
            assert answers(server)
            assert get(server, "/v1/surveys")[0] == 200
            for connection in made:
                refused = connection.recv(4096)
                assert refused.startswith(b"HTTP/1.1 503")
                assert b"\r\nretry-after: " in refused.lower()
                assert b"application/problem+json" in refused
        assert time.monotonic() - began < BUSY_SECONDS
        other.rollback()
        eventually(lambda: get(server, "/readyz")[0] == 200, "ready again")


def test_connections_that_are_kept_open_keep_no_one_out(tmp_path: Path) -> None:
    """Senders hold more connections than the server can serve, and use each now and then."""
    few = "from deniable.server.http.intake_front import IntakeFront as Front"
    request, stopped = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", threading.Event()

    def hold(_: int) -> None:
        while not stopped.is_set():
            with suppress(OSError), connections(server, 1, request) as (connection,):
                connection.settimeout(PATIENCE)
                while not stopped.is_set() and connection.recv(4_096):
                    stopped.wait(0.5)
                    connection.sendall(request)

    with (
        serving(tmp_path / "data", command=altered(few, "Front.max_connections = 60")) as server,
        ThreadPoolExecutor(80) as pool,
    ):
        try:
            holding = [pool.submit(hold, number) for number in range(80)]
            time.sleep(2)
            for _ in range(5):
                assert answers(server)
        finally:
            stopped.set()
        assert not any(held.exception() for held in holding)


def test_reports_are_refused_in_time_while_a_lock_is_held(tmp_path: Path) -> None:
    """Each of many reports gets 503 while a stopped command writes, and is accepted afterwards."""
    data = tmp_path / "data"
    with create_store(data) as store:
        asked = published(store, this_month())
    lines = f"import {sqlite_database.__name__} as database", "database.BUSY_SECONDS = 0.5"
    bodies = [envelope(asked, n, round_number=this_round(asked)).pack() for n in range(16)]

    def answer(body: bytes) -> int:
        with connections(server, 1, head(len(body)) + body) as (connection,):
            return status(connection)

    with (
        serving(data, command=altered(*lines)) as server,
        ThreadPoolExecutor(16) as pool,
        closing(sqlite3.connect(data / "deniable.sqlite3", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert list(pool.map(answer, bodies)) == [503] * 16
        assert time.monotonic() - began < DEVICE_SECONDS / 2
        other.rollback()
        assert list(pool.map(answer, bodies)) == [200] * 16


def test_two_groups_wait_for_a_lock_for_less_time_than_devices_wait() -> None:
    """A report may arrive while the group before it waits."""
    assert 2 * BUSY_SECONDS < DEVICE_SECONDS


@pytest.mark.parametrize(("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")])
def test_a_head_request_gets_no_body(tmp_path: Path, path: str, status: str) -> None:
    request = "{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with serving(tmp_path / "data") as server:
        found = {}
        for method in ("GET", "HEAD"):
            with connections(server, 1, request.format(method, path).encode()) as (one,):
                found[method] = b"".join(iter(partial(one.recv, 4_096), b""))
    assert found["GET"].endswith(f'{{"status":"{status}"}}'.encode())
    assert found["HEAD"].startswith(b"HTTP/1.1 200")
    assert found["HEAD"].endswith(b"\r\n\r\n")


def test_a_server_without_free_file_handles_waits_instead_of_spinning(tmp_path: Path) -> None:
    limits = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    with serving(tmp_path / "data", command=altered(limits)) as server:
        with connections(server, 300, b"GET /healthz HT"):
            time.sleep(0.3)
            before = processor_seconds(server)
            time.sleep(1.0)
            assert processor_seconds(server) - before < 0.3
        assert answers(server)


def test_uploads_waiting_for_the_disk_are_bounded(tmp_path: Path) -> None:
    limits = "import deniable.server.http.intake_front as front\nfront.MAX_UPLOADS_WAITING = 4"
    with create_store(tmp_path) as store:
        asked = published(store, this_month())
    bodies = [envelope(asked, n, round_number=this_round(asked)).pack() for n in range(40)]
    with (
        serving(tmp_path, command=altered(limits)) as server,
        closing(sqlite3.connect(tmp_path / "deniable.sqlite3")) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        found: list[int] = []

        def send(body: bytes) -> None:
            with connections(server, 1, head(len(body)) + body) as made:
                found.append(status(made[0]))

        with ThreadPoolExecutor(len(bodies)) as pool:
            sent = [pool.submit(send, body) for body in bodies]
            try:
                eventually(lambda: found.count(503) >= len(bodies) - 8, "all but a few are refused")
                assert set(found) == {503}
            finally:
                other.rollback()
            for process in sent:
                process.result(PATIENCE)
        assert 0 < found.count(200) <= 8


@pytest.mark.parametrize("path", ["/healthz", "/nothing"])
def test_health_checks_are_rate_limited(tmp_path: Path, path: str) -> None:
    """Without a limit, 16 connections in a closed loop would get thousands of responses.

    Unknown paths are limited too.
    """
    limits = SLOW_PACE
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    def loop(connection: socket.socket) -> int:
        answered = 0
        while time.monotonic() < begun + 1.0:
            connection.sendall(request)
            answered += not connection.recv(65_536).startswith(b"HTTP/1.1 503")
        return answered

    with (
        serving(tmp_path / "data", command=altered(limits)) as server,
        connections(server, 16, b"") as made,
        ThreadPoolExecutor(16) as pool,
    ):
        begun = time.monotonic()
        answered = sum(pool.map(loop, made))
        # One request passes without a wait, and a timer may fire slightly early.
        assert answered <= 20 + 20 * (time.monotonic() - begun) + 2


def test_too_many_health_checks_do_not_block_readiness_checks(
    tmp_path: Path,
) -> None:
    limits = SLOW_PACE
    with (
        serving(tmp_path / "data", command=altered(limits)) as server,
        connections(server, 100, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    ):
        begun = time.monotonic()
        assert get(server, "/readyz")[0] == 200
        assert time.monotonic() - begun < 0.9, "waited for health checks"


def test_readiness_checks_do_not_slow_intake(tmp_path: Path) -> None:
    """A check takes the writer's lock.

    With one check per request, intake would be ten times slower.
    """
    with create_store(tmp_path) as store:
        asked = published(store, this_month())
    numbers = count()

    def upload() -> bytes:
        body = envelope(asked, next(numbers), round_number=this_round(asked)).pack()
        return head(len(body)) + body

    with serving(tmp_path) as server:
        send = partial(ask, server.port, 16, 25, upload)
        alone = min(seconds(send) for _ in range(3))
        with asking(server.port, "/readyz"):
            together = min(seconds(send) for _ in range(3))
    assert together < 4 * alone
