"""A way through an HTTP proxy, which is asked for a tunnel (CONNECT) and sees no request in it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from deniable.shared.errors import DeniableError, InvalidPolicy

CURE = 'write the proxy as "http://proxy.example:3128", or with a name as "http://user:password@…"'


class ProxyRefused(DeniableError, OSError):
    """A proxy that opens no tunnel. Only the status of its reply is kept."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy said {status}")
        self.status = status


@dataclass(frozen=True)
class Proxy:
    host: str
    port: int
    authorization: str = field(default="", repr=False)  # the password is in it

    def request(self, host: str, port: int) -> bytes:
        """What asks for a tunnel to that host, whose name the proxy looks up."""
        named = host.encode("idna").decode() if not host.isascii() else host
        where = f"[{named}]:{port}" if ":" in named else f"{named}:{port}"
        name = f"Proxy-Authorization: Basic {self.authorization}\r\n" if self.authorization else ""
        head = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\nUser-Agent: deniable\r\n{name}\r\n"
        return head.encode("ascii")


def checked_proxy(address: object) -> Proxy:
    """Refused unless it is one; the message never repeats it, for a password may stand in it."""
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidPolicy(f"proxy: that is not an address; {CURE}") from None
    if parts.scheme != "http" or not host:
        raise InvalidPolicy(f"proxy: only http proxies are spoken to, by CONNECT; {CURE}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidPolicy(f"proxy: an address has no path, no ? and no #; {CURE}")
    return Proxy(host, 80 if port is None else port, _basic(parts.username, parts.password))


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    return b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()
