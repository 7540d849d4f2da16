"""Calls to another server, with a token: encrypted, or to this very machine, and nowhere else."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from deniable.shared.errors import WrongUse


def checked(server: str, option: str) -> str:
    """Return the URL given to an option; refuse plain HTTP to another machine."""
    parts = urlsplit(server)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_here(parts.hostname or "")):
        raise WrongUse(f"{option} must be an https address; plain http works for this machine only")
    return server.rstrip("/")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _NoRedirect(HTTPRedirectHandler):
    """A token goes nowhere else."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


OPENER = build_opener(_NoRedirect)
