"""Replies that the JavaScript client's transport in Node accepts, and what it refuses."""

from __future__ import annotations

import json
import os
import socketserver
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.client.certificates import certificate, tls
from tests.client.scripted import answering
from tests.eventually import PATIENCE
from tests.node import NODE

ROOT = Path(__file__).parents[2]
PROGRAM = """
    import { exchange } from "./client/javascript/src/node-transport.js";
    for (const [url, limit, milliseconds] of JSON.parse(process.argv[1])) {
      const found = await exchange(url, undefined, limit, milliseconds)
        .catch((error) => error.code ?? error.message);
      console.log(JSON.stringify(found));
    }
"""
OK = b"HTTP/1.1 200 OK\r\n"
LARGE = "the reply is too large, or is not HTTP"
SHORT = "the reply is cut short"


class Replies(socketserver.ThreadingTCPServer):
    """Server that answers /N with the N-th reply; one that ends with `...` is never finished."""

    daemon_threads = True

    def __init__(self, replies: list[bytes], context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies, self.context, self.asked = replies, context, list[bytes]()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that refuse the certificate or disconnect."""


class Handler(socketserver.BaseRequestHandler):
    server: Replies

    def handle(self) -> None:
        connection = self.request
        if self.server.context:
            connection = self.server.context.wrap_socket(connection, server_side=True)
        head = connection.recv(65_536)
        self.server.asked.append(head)
        reply = self.server.replies[int(head.split()[1].strip(b"/"))]
        connection.sendall(reply.removesuffix(b"..."))
        if reply.endswith(b"..."):
            connection.recv(1)  # until the client gives up
        connection.close()


def exchanged(
    server: Replies,
    host: str = "127.0.0.1",
    ca: Path | None = None,
    limit: int = 100,
    milliseconds: int = 10_000,
) -> list[object]:
    """Return what the client makes of each reply: its text, or the reason of the refusal."""
    scheme = "https" if server.context else "http"
    with answering(server):
        base = f"{scheme}://{host}:{server.server_address[1]}"
        asked = [(f"{base}/{n}", limit, milliseconds) for n in range(len(server.replies))]
        done = subprocess.run(
            [NODE, "--input-type=module", "--eval", PROGRAM, json.dumps(asked)],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
            env=os.environ | ({"NODE_EXTRA_CA_CERTS": str(ca)} if ca else {}),
        )  # fmt: skip
    assert done.stderr == ""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [reply if isinstance(reply, str) else reply["text"] for reply in found]


REPLIES = {
    b"Content-Length: 2\r\n\r\n{}": "{}",
    b"Content-Length: 2\r\n\r\n{}...": "{}",  # the server keeps the connection open
    b"content-length: 2\r\n\r\n{} and more": "{}",
    b"\r\nuntil the end": "until the end",
    b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n3\r\n\xe2\x82\xac\r\n0\r\n\r\n...": "{}€",
    b"Content-Length: 100\r\n\r\n" + b"x" * 100: "x" * 100,
    b"Content-Length: 101\r\n\r\n" + b"x" * 101: LARGE,
    b"Transfer-Encoding: chunked\r\n\r\n40\r\n" + b"x" * 64 + b"\r\n25\r\n...": LARGE,
    b"\r\n" + b"x" * 101: LARGE,
    b"Content-Length: -2\r\n\r\n{}": LARGE,
    b"Content-Length: 3\r\n\r\n{}": SHORT,
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n": SHORT,
    b"X: " + b"x" * 2**17: LARGE,
    b"X: y\r\n" * 2**14 + b"\r\n": LARGE,
}


def test_a_reply_is_complete_or_refused() -> None:
    server = Replies([OK + reply for reply in REPLIES])
    assert exchanged(server) == list(REPLIES.values())


def test_a_line_is_never_longer_than_64_kib() -> None:
    server = Replies([OK + b"X: " + b"x" * 2**17 + b"\r\n\r\n"])
    assert exchanged(server, limit=10**6) == [LARGE]


def test_provisional_replies_are_skipped_and_others_refused() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    replies = [early * 2 + OK + b"Content-Length: 2\r\n\r\n{}", b"SSH-2.0\r\n\r\n", b""]
    assert exchanged(Replies(replies)) == ["{}", "the reply is not HTTP", SHORT]


def test_an_exchange_ends_in_time() -> None:
    """Without its deadline, the test waits until its own timeout."""
    replies = [b"...", OK + b"...", OK + b"Content-Length: 3\r\n\r\n{}...", OK + b"\r\n..."]
    late = "no complete reply came in time"
    assert exchanged(Replies(replies), milliseconds=200) == [late] * 4


@pytest.mark.parametrize(
    ("host", "trusted", "found"),
    [
        ("localhost", True, "{}"),
        ("localhost", False, "DEPTH_ZERO_SELF_SIGNED_CERT"),
        ("127.0.0.1", True, "ERR_TLS_CERT_ALTNAME_INVALID"),
    ],
)
def test_certificates_are_verified(host: str, trusted: bool, found: str, tmp_path: Path) -> None:
    file = certificate(tmp_path)
    server = Replies([OK + b"Content-Length: 2\r\n\r\n{}"], tls(file))
    assert exchanged(server, host, file if trusted else None) == [found]
    assert len(server.asked) == (found == "{}")


def test_the_server_is_named_in_the_handshake(tmp_path: Path) -> None:
    """Without the name, a server of several hosts would show another certificate."""
    file, named = certificate(tmp_path), list[str | None]()
    context = tls(file)
    context.sni_callback = lambda _socket, name, _context: named.append(name)
    assert exchanged(Replies([OK + b"\r\n{}"], context), "localhost", file) == ["{}"]
    assert named == ["localhost"]


def test_certificates_are_verified_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_TLS_REJECT_UNAUTHORIZED", "0")
    monkeypatch.setenv("NODE_NO_WARNINGS", "1")
    server = Replies([OK + b"\r\n"], tls(certificate(tmp_path)))
    assert exchanged(server, "localhost") == ["DEPTH_ZERO_SELF_SIGNED_CERT"]
    assert not server.asked
