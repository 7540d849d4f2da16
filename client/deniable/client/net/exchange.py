"""One request and its reply over a connection of its own, all of it before one deadline.

The deadline holds at the socket: each wait, for the connection, a proxy's tunnel, the handshake, a
header, a chunk or the next byte, lasts no longer than what is left of it. A server that drips, or
says `100 Continue` without an end, is cut off in time, and what it says before the body is bounded.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult

from deniable.client.net.proxy import Proxy, ProxyRefused
from deniable.shared.errors import DeniableError

if TYPE_CHECKING:
    import ssl

    from _typeshed import WriteableBuffer

MOST_HEAD_BYTES = 64 * 2**10  # of everything that comes before the body
PIECE = 64 * 2**10

HEADERS = {
    "User-Agent": "deniable",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class TooLarge(DeniableError, ValueError):
    """A reply larger than the client reads."""


def connected(
    address: SplitResult, deadline: float, ca: str | None = None, proxy: Proxy | None = None
) -> socket.socket:
    """A connection to the address, through the proxy if there is one; for https, one whose
    certificate is verified."""
    tls = address.scheme == "https"
    host, port = address.hostname or "", address.port or (443 if tls else 80)
    sock = _tunnel(proxy, host, port, deadline) if proxy else _plain(host, port, deadline)
    if not tls:
        return sock
    with closing(sock):  # the wrapped one takes its place
        context = trusting(ca)
        sock.settimeout(_rest(deadline))
        return context.wrap_socket(sock, server_hostname=host)


def exchanged(
    sock: socket.socket,
    address: SplitResult,
    request: tuple[str, str, bytes | None, dict[str, str]],
    most: int,
    deadline: float,
) -> tuple[HTTPResponse, bytes]:
    """The response to a request, as (method, path, body, headers), and its whole body, undecoded.

    ValueError, HTTPException or OSError if it is too large, too slow, cut short or not HTTP.
    """
    timed = _TimedSocket(sock, deadline)
    port = 443 if address.scheme == "https" else 80
    connection = HTTPConnection(address.hostname or "", address.port or port)
    connection.sock, connection.default_port = timed, port  # which the Host header leaves out
    method, path, body, headers = request
    connection.request(method, path, body, HEADERS | headers)
    response = connection.getresponse()
    timed.incoming.left = most + MOST_HEAD_BYTES  # chunks have heads too
    return response, _body(response, most)


def _body(response: HTTPResponse, most: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise TooLarge("the reply is too large")
    if response.length:
        raise HTTPException("the reply is cut short")
    return b"".join(pieces)


def _plain(host: str, port: int, deadline: float) -> socket.socket:
    """To the first of the host's addresses that takes it, in what is left of the time for all."""
    failure = OSError("the host has no address")
    for family, kind, protocol, _, where in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_rest(deadline))
            sock.connect(where)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


def _tunnel(proxy: Proxy, host: str, port: int, deadline: float) -> socket.socket:
    """What the proxy says before the tunnel is bounded in time and size like any head."""
    sock = _plain(proxy.host, proxy.port, deadline)
    try:
        timed = _TimedSocket(sock, deadline)
        timed.sendall(proxy.request(host, port))
        with closing(HTTPResponse(cast(Any, timed), method="CONNECT")) as reply:  # Any: as below
            reply.begin()
        if not 200 <= reply.status < 300:
            raise ProxyRefused(reply.status)
    except BaseException:
        sock.close()
        raise
    return sock


def trusting(ca: str | None) -> ssl.SSLContext:
    """Certificates of these authorities only, by default the usual ones, whatever the environment
    names; it may not ask for the connection's keys either, as it could of
    `ssl.create_default_context`."""
    import ssl

    if ca is None:
        import certifi

        ca = certifi.where()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.load_verify_locations(ca)
    return context


def _rest(deadline: float) -> float:
    """Seconds that are left, as a timeout for the next wait."""
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise TimeoutError("the deadline has passed")
    return rest


class _TimedSocket:
    """What http.client needs of a socket. Closing it is left to whoever opened the real one."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self.incoming = _Incoming(sock, deadline)

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_rest(self._deadline))
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> BufferedReader:
        return BufferedReader(cast(Any, self.incoming))  # Any: its stub wants a FileIO

    def close(self) -> None:
        """Called once the head is read, while the body is still to come."""


class _Incoming(RawIOBase):
    """The bytes that the server sends: so many at most, and none after the deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline, self.left = sock, deadline, MOST_HEAD_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._sock.settimeout(_rest(self._deadline))
        count = self._sock.recv_into(buffer)
        self.left -= count
        if self.left < 0:
            raise TooLarge("the reply is too large")
        return count
