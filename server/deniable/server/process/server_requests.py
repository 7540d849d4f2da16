"""Requests to another server with a token, only over HTTPS or to this machine."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request

TOKEN = "DENIABLE_TOKEN"  # noqa: S105 # the environment variable with the token to send


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def checked(server: str, option: str) -> str:
    """Return an option's URL; refuse plain HTTP to another machine."""
    try:
        parts = urlsplit(server)
    except ValueError:
        raise WrongUse(f"{option} is not a URL") from None
    is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not is_local:
        raise WrongUse(f"{option} must be an https URL; plain http works only for this machine")
    return server.rstrip("/")


def send(request: Request, timeout: float) -> HTTPResponse:
    """Send a request, and refuse every redirect, so that a token reaches no other server.

    Requests to this machine use no proxy: they may have no TLS.
    """
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    direct = [ProxyHandler({})] if is_loopback(urlsplit(request.full_url).hostname or "") else []
    response: HTTPResponse = build_opener(NoRedirect, *direct).open(request, timeout=timeout)
    return response
