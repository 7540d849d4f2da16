"""Servers that never finish, each in its own way, until they are healed."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.client.scripted import ACCEPTED, answering

Write = Callable[[bytes], object]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class SlowServer(socketserver.ThreadingTCPServer):
    """Server that answers in a slow or endless `way` until it is healed, and then normally."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, way: str, listed: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.way, self.listed, self.tls = WAYS[way], listed, tls
        self.healed, self.ended, self.asked = threading.Event(), threading.Event(), list[bytes]()
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://localhost:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: tests do so on purpose."""


class _Handler(socketserver.BaseRequestHandler):
    server: SlowServer

    def handle(self) -> None:
        if self.server.way is handshake and not self.server.healed.is_set():
            self.server.asked.append(b"")
            self.server.way(self.request.sendall, self.server.ended)
        elif self.server.tls:
            with self.server.tls.wrap_socket(self.request, server_side=True) as connection:
                self.answer(connection)
        else:
            self.answer(self.request)

    def answer(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as reader:
            line = reader.readline()
            self.server.asked.append(line)
            length = 0
            while (said := reader.readline()) not in (b"\r\n", b""):
                name, _, value = said.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            reader.read(length)
        if not self.server.healed.is_set():
            self.server.way(connection.sendall, self.server.ended)
            return
        body = self.server.listed if line.startswith(b"GET") else ACCEPTED.body
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def slowly(write: Write, ended: threading.Event, piece: bytes) -> None:
    while not ended.wait(0.01):
        write(piece)


def header(write: Write, ended: threading.Event) -> None:
    write(HEAD + b"X-Drip: ")
    slowly(write, ended, b"x")


def headers(write: Write, ended: threading.Event) -> None:
    write(HEAD)
    slowly(write, ended, b"X-Drip: x\r\n")


def body(write: Write, ended: threading.Event) -> None:
    write(HEAD + b"Content-Length: 1000000000\r\n\r\n")
    slowly(write, ended, b" ")


def chunks(write: Write, ended: threading.Event) -> None:
    write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    slowly(write, ended, b"1\r\n \r\n")


def chunk_head(write: Write, ended: threading.Event) -> None:
    write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;")
    slowly(write, ended, b"x")


def continues(write: Write, ended: threading.Event) -> None:
    slowly(write, ended, b"HTTP/1.1 100 Continue\r\n\r\n")


def flood(write: Write, ended: threading.Event) -> None:
    """Write as fast as possible, which also costs the client processor time."""
    while not ended.is_set():
        write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def silence(write: Write, ended: threading.Event) -> None:
    ended.wait()


def handshake(write: Write, ended: threading.Event) -> None:
    """Send the header of a TLS record of 16 kB, and then one byte from time to time."""
    write(b"\x16\x03\x03\x40\x00")
    slowly(write, ended, b"\x02")


def cut_short(write: Write, ended: threading.Event) -> None:
    """Close the connection before the response is complete."""
    write(HEAD + b'Content-Length: 1000\r\n\r\n{"surveys": []}')


WAYS: dict[str, Callable[[Write, threading.Event], None]] = {
    part.__name__: part
    for part in (
        header, headers, body, chunks, chunk_head, continues, flood, silence, cut_short, handshake
    )
}  # fmt: skip


@contextmanager
def slow_server(way: str, **how: Any) -> Iterator[SlowServer]:
    server = SlowServer(way, **how)
    with answering(server):
        try:
            yield server
        finally:
            server.ended.set()
