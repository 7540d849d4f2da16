"""A request that has arrived whole, as the WSGI application is told of it, and its answer.

The sender's address is not passed on: nothing behind the front can store or log it.
"""

from __future__ import annotations

import sys
from io import BytesIO
from typing import TYPE_CHECKING, Any

from werkzeug.test import run_wsgi_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from granian.rsgi import Scope

Environ = dict[str, Any]  # Any: as WSGI has it
Headers = list[tuple[str, str]]
Reply = tuple[int, Headers, bytes]
UNPREFIXED = ("content-type", "content-length")


def reply_of(application: WSGIApplication, environ: Environ) -> Reply:
    chunks, status, headers = run_wsgi_app(application, environ, buffered=True)
    return int(status.split(" ", 1)[0]), list(headers.items()), b"".join(chunks)


def environ_of(scope: Scope, body: bytes) -> Environ:
    """The path has been decoded once; WSGI wants its bytes in Latin-1."""
    host, _, port = scope.server.rpartition(":")
    return {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path.encode().decode("latin-1"),
        "QUERY_STRING": scope.query_string,
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **_headers(scope),
    }


def _headers(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in scope.headers.items():
        key = name.upper().replace("-", "_")
        key = key if name in UNPREFIXED else f"HTTP_{key}"
        between = "; " if name == "cookie" else ", "
        found[key] = f"{found[key]}{between}{value}" if key in found else value
    return found
