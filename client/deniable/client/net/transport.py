"""The transport: one plain request at a time, which does not identify its sender.

It uses no cookie, no validator, no redirect, no netrc and no proxy from the environment. It sends a
fixed User-Agent over verified TLS, and opens a new connection for each request. So only address and
time can link two requests. `AppTransport`, for backends, adds a token and keeps its connection.
Plain HTTP is for this machine only.

A proxy only opens a tunnel (CONNECT), and cannot see the requests in it.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, quote, unquote, urlsplit

from deniable.client.environment import is_loopback
from deniable.shared.errors import DeniableError, InvalidPolicy

if TYPE_CHECKING:
    from socket import socket
    from ssl import SSLContext

_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}")
MAX_LIST_BYTES = 32 * 2**20  # eight surveys of the largest size, or a thousand of 32 kB
MAX_REPLY_BYTES = 64 * 2**10  # reply to an envelope
MAX_BATCH_REPLY_BYTES = 2**20  # the server names each of 4,096 refused envelopes
PROXY_FIX = (
    'write the proxy as "http://proxy.example:3128", or with a name as "http://user:password@…"'
)


class Unreachable(DeniableError):
    """Raised if no complete and usable reply came.

    `sent` is true if the server may have seen the request; `kind` names the failure in one word.
    """

    def __init__(self, message: str, sent: bool = False, kind: str = "network") -> None:
        super().__init__(message)
        self.sent, self.kind = sent, kind


class Reply(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None = None
    content_type: str = ""
    date: str = ""


class Transport(Protocol):
    """Sender of requests from background threads. Raises Unreachable if no reply comes."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply: ...


class HttpTransport:
    """HTTP over TLS. Its libraries are loaded with the first request."""

    _token: str | None = None
    _max_reply_bytes = MAX_REPLY_BYTES

    def __init__(
        self, server: str, *, ca: str | os.PathLike[str] | None = None, proxy: str | None = None
    ) -> None:
        self.base = checked_address(server)
        self._address = urlsplit(self.base)
        self.ca = None if ca is None else checked_ca(ca)
        self._trusted: tuple[object, SSLContext] | None = None
        tunnel = None if proxy is None else checked_proxy(proxy)
        self._proxy = tunnel if tunnel and _uses_tunnel(tunnel, self._address) else None

    def connect(self, deadline: float) -> socket:
        from deniable.client.net.exchange import connect

        return connect(self._address, deadline, self._tls_context, self._proxy)

    def _tls_context(self) -> SSLContext:
        """Return the trusted authorities. Reading them takes longer than the rest of a request.

        They are read again when the file changes. The context resumes no TLS session, so it links
        no two requests.
        """
        from deniable.client.net.exchange import tls_context

        stat = None if self.ca is None else Path(self.ca).stat()
        version = stat and (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if self._trusted is None or self._trusted[0] != version:
            self._trusted = version, tls_context(self.ca)
        return self._trusted[1]

    def _socket(self, deadline: float) -> socket:
        return self.connect(deadline)

    def _leave(self, sock: socket, ended: bool) -> None:  # noqa: ARG002 - each request has its own
        sock.close()

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        from http.client import HTTPException

        from deniable.client.net.exchange import exchange, failure

        deadline, sent = time.monotonic() + timeout, False
        headers = {} if content_type is None else {"Content-Type": content_type}
        whole_path = quote(self._address.path, safe="/%:@!$&'()*+,;=~") + path
        limit = MAX_LIST_BYTES if method == "GET" else self._max_reply_bytes
        request, ended = (method, whole_path, body, headers | _app_headers(self._token)), True
        try:
            sock = self._socket(deadline)
            sent = True
            try:
                response, whole = exchange(sock, self._address, request, limit, deadline)
                ended = response.will_close
            finally:
                self._leave(sock, ended)
            head = response.headers
            kind, date = head.get("Content-Type", ""), head.get("Date", "")
            return Reply(response.status, whole, head.get("Retry-After"), kind, date)
        except (HTTPException, OSError, ValueError) as error:
            kind, reason = failure(error, self.ca)
            raise Unreachable(f"{self.base}: {reason}", sent, kind) from None


class AppTransport(HttpTransport):
    """HTTP of a backend with an app token. Requests share a connection until one fails."""

    _max_reply_bytes = MAX_BATCH_REPLY_BYTES

    def __init__(
        self,
        server: str,
        token: str,
        *,
        ca: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
    ) -> None:
        super().__init__(server, ca=ca, proxy=proxy)
        if not _TOKEN.fullmatch(str(token)):
            raise InvalidPolicy("token: pass what `deniable token create --role app` has printed")
        self._token = token
        self._kept: socket | None = None
        self._owner = os.getpid()  # a forked child must not write to its parent's connection

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        """Send a request. Retry once if the server has closed the idle connection."""
        reused, arguments = self._kept is not None, (method, path, body, content_type, timeout)
        try:
            return super().request(*arguments)
        except Unreachable as error:
            if not reused or error.kind == "timeout":
                raise
        try:
            return super().request(*arguments)
        except Unreachable as error:
            raise Unreachable(str(error), True, error.kind) from None

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _socket(self, deadline: float) -> socket:
        kept, self._kept = self._kept, None
        if kept and self._owner == os.getpid():
            return kept
        self._owner = os.getpid()
        return self.connect(deadline)

    def _leave(self, sock: socket, ended: bool) -> None:
        if ended:
            sock.close()
        else:
            self._kept = sock


def _app_headers(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    return {"Authorization": f"Bearer {token}", "Connection": "keep-alive"}


def checked_address(server: str) -> str:
    """Return the server's address in its normal form; refuse one that cannot be used."""
    fix = 'write the server as "https://stats.example.org"'
    try:
        parts = urlsplit(server)
        host, _ = parts.hostname or "", parts.port
    except (ValueError, TypeError, AttributeError):
        raise InvalidPolicy(f"server: {server!r} is not an address; {fix}") from None
    if parts.scheme not in ("https", "http") or not host:
        raise InvalidPolicy(f"server: {server!r} is not an https address; {fix}")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidPolicy(f"server: an address has no user name, no ? and no #; {fix}")
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidPolicy(f"server: plain http is for this machine only; got {host!r}; {fix}")
    return parts._replace(netloc=parts.netloc.lower()).geturl().rstrip("/")


def checked_ca(file: str | os.PathLike[str]) -> str:
    """Return the path of a file with certificates, once it is known to hold some."""
    import ssl

    from deniable.client.net.exchange import tls_context

    path = ""
    try:
        path = str(Path(file).expanduser().absolute())
        count = tls_context(path).cert_store_stats()["x509"]
    except (ssl.SSLError, TypeError, ValueError):
        count = 0
    except OSError as error:
        raise InvalidPolicy(f"ca: {file!r} cannot be read: {error.strerror}") from None
    if not count:
        raise InvalidPolicy(f"ca: {file!r} holds no certificate in PEM form; name a file that does")
    return path


class Proxy(NamedTuple):
    """HTTP proxy, with its password."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host!r}, {self.port})"

    def request(self, host: str, port: int) -> bytes:
        """Return the request for a tunnel to a host, whose name the proxy looks up."""
        from deniable.client.net.exchange import ascii_host

        target = f"{ascii_host(host)}:{port}"
        name = f"Proxy-Authorization: Basic {self.authorization}\r\n" if self.authorization else ""
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: deniable\r\n{name}\r\n"
        return head.encode("ascii")


def checked_proxy(address: object) -> Proxy:
    """Read a proxy's address. No message repeats it, because it may contain a password."""
    from base64 import b64encode

    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, port, user = parts.hostname or "", parts.port, parts.username
    except ValueError:
        raise InvalidPolicy(f"proxy: that is not an address; {PROXY_FIX}") from None
    if parts.scheme != "http" or not host:
        raise InvalidPolicy(f"proxy: only http proxies with CONNECT are supported; {PROXY_FIX}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidPolicy(f"proxy: an address has no path, no ? and no #; {PROXY_FIX}")
    name = None if user is None else f"{unquote(user)}:{unquote(parts.password or '')}"
    basic = "" if name is None else b64encode(name.encode()).decode()
    return Proxy(host, 80 if port is None else port, basic)


def _uses_tunnel(proxy: Proxy, address: SplitResult) -> bool:
    """Return whether to use the tunnel: only for https, and not from a remote proxy to loopback."""
    return address.scheme == "https" and (
        is_loopback(proxy.host) or not is_loopback(address.hostname or "")
    )
