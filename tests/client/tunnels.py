"""Real HTTP proxy on loopback that makes tunnels, or behaves as a test wants."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.client.scripted import answering
from tests.client.slow_server import WAYS

MADE = b"HTTP/1.1 200 Connection established\r\n\r\n"


class TunnelProxy(socketserver.ThreadingTCPServer):
    """Proxy whose tunnels all lead to `port` on loopback, whatever host was requested.

    `way` makes it drip instead; `reply` is its answer to CONNECT.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, reply: bytes = MADE, way: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.reply, self.way = port, reply, way
        self.heads, self.ended = list[bytes](), threading.Event()
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.address}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: tests do so on purpose."""


class _Handler(socketserver.BaseRequestHandler):
    server: TunnelProxy

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := self.request.recv(1)):
                return
            head += byte
        self.server.heads.append(head)
        if self.server.way:
            WAYS[self.server.way](self.request.sendall, self.server.ended)
            return
        self.request.sendall(self.server.reply)
        if self.server.reply.startswith(MADE[:12]):
            with closing(socket.create_connection(("127.0.0.1", self.server.port))) as there:
                back = threading.Thread(target=_carry, args=(there, self.request), daemon=True)
                back.start()
                _carry(self.request, there)
                back.join()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


@contextmanager
def tunnelling(port: int, **how: Any) -> Iterator[TunnelProxy]:
    proxy = TunnelProxy(port, **how)
    with answering(proxy):
        try:
            yield proxy
        finally:
            proxy.ended.set()
