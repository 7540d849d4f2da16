"""Headers in which a trusted proxy names the sender of a request and the requested address.

They are `Forwarded` (RFC 7239), or `X-Forwarded-For`, `-Proto` and `-Host`. In a chain of proxies,
each appends a value. Only proxies that the operator has named are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication
    from granian.rsgi import Scope

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"\\]*)"|([^\s;,"]+))\s*', re.ASCII)


def sender_address(scope: Scope, proxies: Sequence[str]) -> str:
    """Return the sender's address: behind proxies, the last address that is not a proxy."""
    address = scope.client.rpartition(":")[0].strip("[]")
    if address not in proxies:
        return address
    lines = [value for name, value in scope.headers.items() if name == "x-forwarded-for"]
    senders = [sender.strip() for sender in ",".join(lines).split(",")]
    others = [sender for sender in senders if sender not in proxies]
    return others[-1] if others else ""


class OutsideView:
    """WSGI middleware that sets the public address of an application, and hides the sender's.

    The proxy serves the pages under `base_path`, and strips that prefix from forwarded requests.
    """

    def __init__(
        self, application: WSGIApplication, proxies: Sequence[str] = (), base_path: str = ""
    ) -> None:
        self._application, self._proxies, self._base_path = application, proxies, base_path

    def __call__(
        self,
        environ: dict[str, Any],  # Any: the WSGI type
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        sender = environ.pop("REMOTE_ADDR", "")
        environ.pop("REMOTE_PORT", None)
        environ["SCRIPT_NAME"] = self._base_path
        if sender in self._proxies:
            forwarded = forwarded_values(environ)
            if forwarded.get("proto") in ("http", "https"):
                environ["wsgi.url_scheme"] = forwarded["proto"]
            if _HOST.fullmatch(forwarded.get("host", "")):
                environ["HTTP_HOST"] = forwarded["host"]
        return self._application(environ, start_response)


def forwarded_values(environ: dict[str, Any]) -> dict[str, str]:  # Any: the WSGI type
    """Return `proto` and `host` from the last proxy, where it states them."""
    if "HTTP_FORWARDED" in environ:
        last = environ["HTTP_FORWARDED"].rpartition(",")[2]
        pairs = [_PAIR.fullmatch(pair) for pair in last.split(";")]
        return {pair[1].lower(): pair[2] or pair[3] or "" for pair in pairs if pair}
    return {
        key.lower(): environ.get(f"HTTP_X_FORWARDED_{key}", "").rpartition(",")[2].strip()
        for key in ("PROTO", "HOST")
    }
