"""Tracers in the app's process: they add nothing to a request, and its bytes stay equal.

A client fetches, answers and sends in a process where the tracers of four vendors are active. The
twins are the app's own requests in that process, to which the tracers add their ids.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

from deniable.shared.survey.keys import public_hex
from tests.client.scripted import ACCEPTED, KEY, document, entry
from tests.eventually import PATIENCE

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


def recorded(traced: str) -> Recorder:
    with Recorder() as recorder:
        thread = threading.Thread(target=recorder.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{recorder.server_address[1]}"
        command = [sys.executable, "-m", "tests.client.traced_client", traced, url, public_hex(KEY)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PATIENCE
        )
        recorder.shutdown()
        thread.join()
    assert done.returncode == 0, done.stdout + done.stderr
    return recorder


def test_tracers_of_four_vendors_change_no_byte_of_a_request() -> None:
    untraced, traced = recorded("untraced"), recorded("traced")
    assert [head.split()[0] for head in untraced.sent()] == [b"GET", b"POST"]
    assert traced.sent() == untraced.sent()
    assert traced.body_sizes == untraced.body_sizes
    own = b"".join(head for head in traced.heads if b" /app " in head).lower()
    assert [name for name in IDS if name not in own] == []
