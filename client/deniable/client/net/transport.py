"""How bytes travel: one plain request at a time, that says nothing about who sends it.

No cookie, no validator, no redirect, no netrc, no proxy from the environment, a fixed User-Agent,
verified TLS, and a new connection for each request: nothing ties two requests together but their
address and time. Plain HTTP is spoken to this machine only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from deniable.shared.errors import DeniableError, InvalidPolicy

if TYPE_CHECKING:
    import requests

MOST_REPLY_BYTES = 4 * 2**20
PIECE = 1024  # small, so that a server that drips is noticed


class Unreachable(DeniableError):
    """No whole reply came from the server."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    retry_after: str | None = None


class Transport(Protocol):
    """Called from background threads only. Raises Unreachable where no reply came."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply: ...


class HttpTransport:
    """The real one, over `requests`, which is loaded with the first request."""

    def __init__(self, server: str) -> None:
        self.base = checked_address(server)

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        from http.client import HTTPException

        import requests
        from urllib3.exceptions import HTTPError

        deadline = time.monotonic() + timeout
        try:
            with _session() as session:
                headers = {} if content_type is None else {"Content-Type": content_type}
                with session.request(
                    method,
                    self.base + path,
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    stream=True,
                ) as response:
                    whole = _read(response, deadline)
                    return Reply(response.status_code, whole, response.headers.get("Retry-After"))
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError) as error:
            raise Unreachable(f"{self.base} gave no reply: {type(error).__name__}") from None


def checked_address(server: str) -> str:
    """The server's address without a slash at its end; refused unless it is one to send to."""
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
    return server.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _session() -> requests.Session:
    import requests
    from requests.cookies import RequestsCookieJar

    session = requests.Session()
    session.trust_env = False  # no netrc, no proxy, no other certificate store
    session.cookies = RequestsCookieJar()
    session.headers.clear()
    session.headers.update(
        {
            "User-Agent": "deniable",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
    )
    return session


def _read(response: requests.Response, deadline: float) -> bytes:
    """The whole body, undecoded, if it is small and comes in time."""
    pieces, size = [], 0
    while piece := response.raw.read(PIECE, decode_content=False):
        size += len(piece)
        if size > MOST_REPLY_BYTES or time.monotonic() > deadline:
            raise ValueError("the reply is too large or too slow")
        pieces.append(piece)
    return b"".join(pieces)
