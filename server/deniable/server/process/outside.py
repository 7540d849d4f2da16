"""How the server is reached from outside: what a proxy that the operator has named says of it.

`Forwarded` (RFC 7239) or `X-Forwarded-Proto` and `X-Forwarded-Host`; of several proxies in a row
the last has written last. Nobody else is believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from granian.rsgi import Scope

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"\\]*)"|([^\s;,"]+))\s*', re.ASCII)


def address_of(scope: Scope) -> str:
    """Of whoever has connected."""
    return scope.client.rpartition(":")[0].strip("[]")


def seen_from_outside(scope: Scope, proxies: Sequence[str]) -> dict[str, str]:
    """What the application is to be told in place of what this connection has."""
    if address_of(scope) not in proxies:
        return {}
    said = _forwarded(scope) if "forwarded" in scope.headers else _x_forwarded(scope)
    told = {}
    if said.get("proto") in ("http", "https"):
        told["wsgi.url_scheme"] = said["proto"]
    if _HOST.fullmatch(said.get("host", "")):
        told["HTTP_HOST"] = said["host"]
    return told


def _forwarded(scope: Scope) -> dict[str, str]:
    last = ",".join(_all(scope, "forwarded")).rpartition(",")[2]
    pairs = [_PAIR.fullmatch(each) for each in last.split(";")]
    return {found[1].lower(): found[2] or found[3] or "" for found in pairs if found}


def _x_forwarded(scope: Scope) -> dict[str, str]:
    return {
        key: ",".join(_all(scope, f"x-forwarded-{key}")).rpartition(",")[2].strip()
        for key in ("proto", "host")
    }


def _all(scope: Scope, wanted: str) -> list[str]:
    return [value for name, value in scope.headers.items() if name == wanted]
