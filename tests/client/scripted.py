"""Real HTTP server that follows a test's script and records every byte it receives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.client import Client, Policy
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.state.database import SqliteState
from deniable.shared.envelope import parse_envelopes
from deniable.shared.survey.document import parse_toml, render_document, survey_id
from deniable.shared.survey.keys import public_hex, sign

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
TODAY = datetime(2026, 12, 10, 12, tzinfo=UTC)

SURVEY = """
[survey]
name = "{name}"
title = "How is the app doing?"
purpose = "Find crashes."
owner = "Example Ltd, privacy@example.org"
opens = {opens}
closes = {closes}
round = "{period}"
grace_days = 14
"""
QUESTIONS = """
[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "0.5"

[[question]]
name = "minutes"
kind = "number"
over = "first"
low = 0
high = 120
grid = 64
mechanism = "local-laplace"
epsilon = "0.5"

[[question]]
name = "browser"
kind = "choice"
over = "first"
options = ["firefox", "chrome", "safari"]
epsilon = "0.5"
"""
BIT = """
[[question]]
name = "{name}"
kind = "bit"
over = "first"
epsilon = "{epsilon}"
"""
ANSWERS: dict[str, object] = {"crashed": True, "minutes": 34, "browser": "firefox"}


def lifetime_policy(
    keys: Collection[str] = (public_hex(KEY),), max_epsilon: str = "6", **limits: Any
) -> Policy:
    """Return a policy that never renews its caps, so that it draws no rounds and answers all."""
    limits = {"max_epsilon_per_survey": max_epsilon, **limits}
    return Policy(keys=keys, max_epsilon=max_epsilon, per="lifetime", **limits)


def document(
    name: str = "app-health",
    opens: str = "2026-12-01",
    closes: str = "2027-02-28",
    period: str = "month",
    questions: str = QUESTIONS,
    *,
    asks_one: bool = False,
    repeat_rounds: int = 1,
    sealed_to: str | None = None,
) -> bytes:
    head = SURVEY.format(name=name, opens=opens, closes=closes, period=period)
    ask = "ask = 1\n" if asks_one else ""
    repeat = f'repeat = "latched"\nrepeat_rounds = {repeat_rounds}\n' if repeat_rounds > 1 else ""
    seal = f'sealed_to = "{sealed_to}"\n' if sealed_to else ""
    return render_document(parse_toml(head + ask + repeat + seal + questions))


def bit(name: str, epsilon: str) -> str:
    return BIT.format(name=name, epsilon=epsilon)


def entry(published: bytes, key: Ed25519PrivateKey = KEY, state: str = "open") -> dict[str, str]:
    return {
        "id": survey_id(published),
        "document": published.decode(),
        "signature": sign(published, key),
        "key": public_hex(key),
        "state": state,
    }


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Answer:
    """Reply of the server: a status, headers and a body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None  # delays the reply until it is set
    drip: bool = False  # an endless body, a few bytes at a time


PROBLEM = "application/problem+json"


def problem(status: int, body: bytes | None = None, kind: str = PROBLEM) -> Answer:
    """Return a problem document like the server's own, or similar to it."""
    said = json.dumps({"type": "about:blank", "status": status}).encode()
    return Answer(status, said if body is None else body, {"Content-Type": kind})


LATER = Answer(503, headers={"Retry-After": "600"})  # longer than any flush of a test waits
ACCEPTED = Answer(body=b'{"accepted": 1, "duplicates": 0, "refused": []}')


class Script:
    """Server under a test's control: surveys to list, replies to envelopes, requests received."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.surveys: list[dict[str, Any]] = []
        self.list_reply: Answer | None = None
        self.replies: list[Answer] = []  # used in order, then `always`
        self.always = ACCEPTED
        self.url = ""
        self.ended = threading.Event()  # releases every held reply

    def publish(self, published: bytes, **how: Any) -> str:
        self.surveys.append(entry(published, **how))
        return survey_id(published)

    def reply(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.method == "GET":
            return self.list_reply or Answer(body=json.dumps({"surveys": self.surveys}).encode())
        return self.replies.pop(0) if self.replies else self.always

    def wait_for(self, hold: threading.Event) -> None:
        while not (hold.wait(0.01) or self.ended.is_set()):
            pass

    @property
    def posts(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST"]

    @property
    def gets(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET"]

    def envelopes(self) -> list[Any]:
        return [envelope for post in self.posts for envelope in parse_envelopes(post.body)]


class Nobody:
    """Network without any server."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        raise Unreachable("nobody there")


class Listing:
    """Server with one survey that accepts no envelope and records requests."""

    def __init__(self, published: bytes) -> None:
        self.listed = json.dumps({"surveys": [entry(published)]}).encode()
        self.asked: list[tuple[str, str, int]] = []

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        self.asked.append((method, path, len(body or b"")))
        if method == "POST":
            raise Unreachable("nobody there")
        return Reply(200, self.listed)


def sqlite_of(client: Client) -> SqliteState:
    assert isinstance(client._state, SqliteState)
    return client._state


class Clock:
    def __init__(self) -> None:
        self.now = TODAY

    def __call__(self) -> datetime:
        return self.now


class Ticks:
    """Monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0  # like a machine that has just started

    def __call__(self) -> float:
        return self.seconds


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: tests do so on purpose."""


def handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.play()

        def do_POST(self) -> None:
            self.play()

        def play(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the client's process ended in mid-send; no server accepts half a body
            seen = Request(self.command, self.path, self.headers.items(), body)
            answer = script.reply(seen)
            if answer.hold is not None:
                script.wait_for(answer.hold)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(10**9 if answer.drip else len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            while answer.drip and not script.ended.is_set():
                self.wfile.write(b" " * 64)
                time.sleep(0.01)

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def serving() -> Iterator[Script]:
    script = Script()
    with answering(QuietServer(("127.0.0.1", 0), handler(script))) as script.url:
        try:
            yield script
        finally:
            script.ended.set()


@contextmanager
def answering(server: TCPServer) -> Iterator[str]:
    """Yield a server's address while it answers."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
