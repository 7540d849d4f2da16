"""How bytes travel: one plain request at a time, that says nothing about who sends it.

No cookie, no validator, no redirect, no netrc, no proxy from the environment, a fixed User-Agent,
verified TLS, and a new connection for each request: nothing ties two requests together but their
address and time. Plain HTTP is spoken to this machine only.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from deniable.client.net.proxy import Proxy, checked_proxy
from deniable.shared.errors import DeniableError, InvalidPolicy

if TYPE_CHECKING:
    from socket import socket

MAX_LIST_BYTES = 32 * 2**20  # eight surveys of the largest size, or a thousand of 32 kB
MOST_REPLY_BYTES = 64 * 2**10  # to an envelope


class Unreachable(DeniableError):
    """No whole reply came, or none that can be used. `sent`: whether the server may have seen the
    request; `kind`: the sort of failure, in a word."""

    def __init__(self, message: str, sent: bool = False, kind: str = "network") -> None:
        super().__init__(message)
        self.sent, self.kind = sent, kind


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    retry_after: str | None = None
    content_type: str = ""
    date: str = ""


class Transport(Protocol):
    """Called from background threads only. Raises Unreachable where no reply came."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply: ...


class HttpTransport:
    """The real one; what it is made of is loaded with the first request."""

    def __init__(
        self,
        server: str,
        *,
        ca: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
    ) -> None:
        self.base = checked_address(server)
        self._address = urlsplit(self.base)
        self.ca = None if ca is None else checked_ca(ca)
        through = None if proxy is None else checked_proxy(proxy)
        self._proxy = through if through and _is_reached_by(through, self._address) else None

    def connect(self, deadline: float) -> socket:
        from deniable.client.net.exchange import connected

        return connected(self._address, deadline, self.ca, self._proxy)

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        from http.client import HTTPException

        from deniable.client.net.exchange import exchanged
        from deniable.client.net.failures import failure

        deadline, sent = time.monotonic() + timeout, False
        headers = {} if content_type is None else {"Content-Type": content_type}
        whole_path = quote(self._address.path, safe="/%:@!$&'()*+,;=~") + path
        most = MAX_LIST_BYTES if method == "GET" else MOST_REPLY_BYTES
        try:
            with closing(self.connect(deadline)) as sock:
                sent = True
                request = method, whole_path, body, headers
                response, whole = exchanged(sock, self._address, request, most, deadline)
            said = response.headers
            return Reply(
                response.status,
                whole,
                said.get("Retry-After"),
                said.get("Content-Type", ""),
                said.get("Date", ""),
            )
        except (HTTPException, OSError, ValueError) as error:
            kind, reason = failure(error, self.ca)
            raise Unreachable(f"{self.base}: {reason}", sent, kind) from None


def checked_address(server: str) -> str:
    """The server's address, in the one way to write it; refused unless it is one to send to."""
    cure = 'write the server as "https://stats.example.org"'
    try:
        parts = urlsplit(server)
        host, _ = parts.hostname or "", parts.port
    except (ValueError, TypeError, AttributeError):
        raise InvalidPolicy(f"server: {server!r} is not an address; {cure}") from None
    if parts.scheme not in ("https", "http") or not host:
        raise InvalidPolicy(f"server: {server!r} is not an https address; {cure}")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidPolicy(f"server: an address has no user name, no ? and no #; {cure}")
    if parts.scheme == "http" and not _is_loopback(host):
        raise InvalidPolicy(f"server: plain http is for this machine only, got {host!r}; {cure}")
    return parts._replace(netloc=parts.netloc.lower()).geturl().rstrip("/")


def checked_ca(file: str | os.PathLike[str]) -> str:
    """The path of a file with certificates of authorities; read here once, and for each connection
    again, so that it may be renewed."""
    import ssl

    from deniable.client.net.exchange import trusting

    path = ""
    try:
        path = str(Path(file).expanduser().absolute())
        found = trusting(path).cert_store_stats()["x509"]
    except (ssl.SSLError, TypeError, ValueError):
        found = 0
    except OSError as error:
        raise InvalidPolicy(f"ca: {file!r} cannot be read: {error.strerror}") from None
    if not found:
        raise InvalidPolicy(f"ca: {file!r} holds no certificate in PEM form; give a file that does")
    return path


def _is_reached_by(proxy: Proxy, address: SplitResult) -> bool:
    """A tunnel is for https. To a server on this machine only a proxy on this machine leads."""
    return address.scheme == "https" and (
        _is_loopback(proxy.host) or not _is_loopback(address.hostname or "")
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
