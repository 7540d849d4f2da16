"""Requests to another server with a token, only over HTTPS or to this machine."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from deniable.server.process.settings import is_loopback
from deniable.shared.errors import WrongUse


def checked(server: str, option: str) -> str:
    """Return an option's URL; refuse plain HTTP to another machine."""
    parts = urlsplit(server)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    ):
        raise WrongUse(f"{option} must be an https address; plain http works for this machine only")
    return server.rstrip("/")


class _NoRedirect(HTTPRedirectHandler):
    """Redirect handler that refuses every redirect, so that a token goes nowhere else."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


OPENER = build_opener(_NoRedirect)
