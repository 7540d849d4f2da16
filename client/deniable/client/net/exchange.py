"""One request and its reply or failure, over a new connection and within one deadline.

The deadline holds at the socket. Each wait (for the connection, a proxy's tunnel, the handshake, a
header, a chunk or the next byte) takes at most the time that is left. A server that sends single
bytes, or `100 Continue` without end, is cut off in time, and the size of the head is limited.

A failure is described by error codes and statuses only, never by text from a server.

Error trackers and tracers patch HTTP libraries to add ids to every request. So the request is
written here, as one block of bytes, and `http.client` only parses the reply. One block also avoids
the delay of a second small packet (Nagle's algorithm with a delayed acknowledgement).
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult

from deniable.client.diagnostics import escaped
from deniable.client.net.transport import Proxy
from deniable.shared.errors import DeniableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_HEAD_BYTES = 64 * 2**10  # maximum size of everything before the body
PIECE_BYTES = 64 * 2**10
PORTS = {"https": 443, "http": 80}

# OpenSSL's codes for a certificate that is not accepted (X509_V_ERR_...)
NOT_YET_VALID, EXPIRED, OTHER_HOST, OTHER_ADDRESS = 9, 10, 62, 64
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)

HEADERS = {
    "User-Agent": "deniable",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class TooLarge(DeniableError, ValueError):
    """Raised if a reply is larger than the limit."""


class ProxyRefused(DeniableError, OSError):
    """Raised if a proxy opens no tunnel. Keeps only the status of its reply."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered with status {status}")
        self.status = status


def connect(
    address: SplitResult,
    deadline: float,
    trusted: Callable[[], ssl.SSLContext],
    proxy: Proxy | None = None,
) -> socket.socket:
    """Connect to the address, through the proxy if any; verify the certificate of https."""
    host, port = address.hostname or "", address.port or PORTS[address.scheme]
    sock = _tunnel(proxy, host, port, deadline) if proxy else _plain(host, port, deadline)
    if address.scheme != "https":
        return sock
    with closing(sock):  # the wrapped socket takes its place
        context = trusted()
        sock.settimeout(_seconds_left(deadline))
        return context.wrap_socket(sock, server_hostname=host)


def exchange(
    sock: socket.socket,
    address: SplitResult,
    request: tuple[str, str, bytes | None, dict[str, str]],
    limit: int,
    deadline: float,
) -> tuple[HTTPResponse, bytes]:
    """Send a request (method, path, body, headers); return the response and its undecoded body.

    Raise ValueError, HTTPException or OSError if the reply is too large, too slow, cut short or not
    HTTP.
    """
    timed = _TimedSocket(sock, deadline)
    timed.sendall(_request_bytes(address, *request))
    response = HTTPResponse(cast(Any, timed), method=request[0])  # Any: its stub needs a socket
    response.begin()
    timed.left = limit + MAX_HEAD_BYTES  # chunks have heads too
    return response, _body(response, limit)


def _request_bytes(
    address: SplitResult, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> bytes:
    host = ascii_host(address.hostname or "")
    if address.port not in (None, PORTS[address.scheme]):
        host += f":{address.port}"
    length = {} if body is None else {"Content-Length": str(len(body))}
    lines = {"Host": host} | length | HEADERS | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + (body or b"")


def ascii_host(host: str) -> str:
    """Return a host as requests name it: IDNA for other scripts, brackets around IPv6."""
    plain = host if host.isascii() else host.encode("idna").decode()
    return f"[{plain}]" if ":" in plain else plain


def _body(response: HTTPResponse, limit: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLarge("the reply is too large")
    if response.length:
        raise HTTPException("the reply is cut short")
    return b"".join(pieces)


def _plain(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of the host that accepts.

    Each address has half of the time that is left, and the last address has all of it. So one that
    swallows packets does not hide the others.
    """
    last_error = OSError("the host has no address")
    name = host.encode() if host.isascii() else host  # text would load the tables of IDNA
    addresses = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        sock = socket.socket(family, kind, protocol)
        try:
            share = 1.0 if number == len(addresses) else 0.5
            sock.settimeout(share * _seconds_left(deadline))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            last_error = error
        else:
            return sock
    raise last_error


def _tunnel(proxy: Proxy, host: str, port: int, deadline: float) -> socket.socket:
    """Open a tunnel. The proxy's reply has the same limits of time and size as any other head."""
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


def tls_context(ca: str | None) -> ssl.SSLContext:
    """Trust these authorities only, by default certifi's, whatever the environment names.

    `ssl.create_default_context` would let the environment ask for the connection's keys.
    """
    if ca is None:
        import certifi

        ca = certifi.where()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.load_verify_locations(ca)
    return context


def _seconds_left(deadline: float) -> float:
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise TimeoutError("the deadline has passed")
    return rest


def failure(error: Exception, ca: str | None) -> tuple[str, str]:
    """Return the kind of a failure in one word, and a sentence about its likely cause."""
    match error:
        case ssl.SSLCertVerificationError():
            return "certificate", _certificate_failure(error, ca)
        case ssl.SSLError():
            return "tls", f"TLS failed ({escaped(error.reason or 'no reason given', 80)})"
        case socket.gaierror():
            return "dns", f"the name cannot be resolved (DNS: {error.strerror})"
        case ProxyRefused(status=407):
            return "proxy", "the proxy answered 407: it needs another name and password"
        case ProxyRefused(status=status):
            return "proxy", f"the proxy answered {status} and opened no tunnel"
        case TimeoutError():
            return "timeout", "no complete reply came in time"
        case ConnectionRefusedError():
            return "refused", "the connection was refused: no server listens there"
        case TooLarge():
            return "too-large", "the reply is too large"
        case OSError(strerror=str(reason)):
            return "network", f"the network failed: {reason}"
        case _:
            return "not-http", "the reply was cut short, or is not HTTP"


def _certificate_failure(error: ssl.SSLCertVerificationError, ca: str | None) -> str:
    if error.verify_code == EXPIRED:
        return "the server's certificate has expired, or this device's clock is ahead"
    if error.verify_code == NOT_YET_VALID:
        return "the server's certificate is not valid yet, or this device's clock is behind"
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        return "the server's certificate is for another host"
    if error.verify_code in UNKNOWN_AUTHORITY:
        trusted = "the usual authorities" if ca is None else f"the authorities in {ca}"
        return f"the server's certificate is from none of {trusted}"
    return f"the server's certificate is not accepted ({escaped(error.verify_message, 80)})"


class _TimedSocket(RawIOBase):
    """The part of a socket that http.client needs, with a limit of bytes and of time.

    The opener of the real socket closes it.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline, self.left = sock, deadline, MAX_HEAD_BYTES

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_seconds_left(self._deadline))
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> BufferedReader:
        return BufferedReader(cast(Any, self))  # Any: its stub needs a FileIO

    def close(self) -> None:
        """Do nothing: http.client calls this after the head, before the body."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._sock.settimeout(_seconds_left(self._deadline))
        count = self._sock.recv_into(buffer)
        self.left -= count
        if self.left < 0:
            raise TooLarge("the reply is too large")
        return count
