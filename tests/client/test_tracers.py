"""Tracers in the app's process: they add nothing to a request, and its bytes stay equal.

A client fetches, answers and sends in a process where the tracers of several vendors are active.
The twins are the app's own requests in that process, to which the tracers add their ids.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deniable.shared.survey.keys import public_hex
from tests.client.scripted import ACCEPTED, KEY, document, entry
from tests.eventually import PATIENCE
from tests.node import NODE
from tests.npm import npm_packages

ROOT = Path(__file__).resolve().parents[2]
LISTED = json.dumps({"surveys": [entry(document(opens="2020-01-01", closes="2099-12-31"))]})
IDS = (b"sentry-trace:", b"baggage:", b"x-datadog-trace-id:", b"elastic-apm-traceparent:")


class Recorder(socketserver.ThreadingTCPServer):
    """Server that records the bytes of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heads: list[bytes] = []
        self.body_sizes: list[int] = []

    def sent(self) -> list[bytes]:
        """Return the heads of the client's requests, without its port."""
        port = str(self.server_address[1]).encode()
        return [head.replace(port, b"PORT") for head in self.heads if b" /app " not in head]


class Handler(socketserver.StreamRequestHandler):
    server: Recorder

    def handle(self) -> None:
        head, length = b"", 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = self.rfile.read(length)
        self.server.heads.append(head)
        self.server.body_sizes.append(len(body))
        reply = LISTED.encode() if head.startswith(b"GET /v1/surveys") else ACCEPTED.body
        length_line = f"Content-Length: {len(reply)}\r\nConnection: close\r\n\r\n".encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + length_line)
        self.wfile.write(reply)


def recorded(traced: str, *program: str, more: tuple[str, ...] = ()) -> Recorder:
    """Run a program with TRACED, URL, KEY and more, and return what it sent."""
    with Recorder() as recorder:
        thread = threading.Thread(target=recorder.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{recorder.server_address[1]}"
        command = [*program, traced, url, public_hex(KEY), *more]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PATIENCE
        )
        recorder.shutdown()
        thread.join()
    assert done.returncode == 0, done.stdout + done.stderr
    return recorder


def test_tracers_of_four_vendors_change_no_byte_of_a_request() -> None:
    program = sys.executable, "-m", "tests.client.traced_client"
    untraced, traced = recorded("untraced", *program), recorded("traced", *program)
    assert [head.split()[0] for head in untraced.sent()] == [b"GET", b"POST"]
    assert traced.sent() == untraced.sent()
    assert traced.body_sizes == untraced.body_sizes
    own = b"".join(head for head in traced.heads if b" /app " in head).lower()
    assert [name for name in IDS if name not in own] == []


IN_NODE = {
    "sentry": (b"sentry-trace:", b"baggage:"),
    "datadog": (b"x-datadog-trace-id:", b"traceparent:"),
    "opentelemetry": (b"traceparent:",),
}


@pytest.fixture(scope="module")
def untraced_node(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return in_node("untraced", tmp_path_factory.mktemp("untraced"))


def in_node(tracer: str, folder: Path) -> Recorder:
    program = ROOT / "tests/client/traced_client.mjs"
    return recorded(tracer, NODE, str(program), more=(str(npm_packages()), str(folder)))


@pytest.mark.parametrize("tracer", IN_NODE)
def test_a_tracer_in_node_changes_no_byte_of_a_request(
    tracer: str, untraced_node: Recorder, tmp_path: Path
) -> None:
    """Both own requests of the app, by fetch and by node:http, carry each id."""
    traced = in_node(tracer, tmp_path)
    assert [head.split()[0] for head in untraced_node.sent()] == [b"GET", b"POST"]
    assert traced.sent() == untraced_node.sent()
    assert traced.body_sizes == untraced_node.body_sizes
    own = [head.lower() for head in traced.heads if b" /app " in head]
    assert [[name in head for name in IN_NODE[tracer]] for head in own] == [
        [True] * len(IN_NODE[tracer])
    ] * 2
