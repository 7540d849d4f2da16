"""Bare Flask route on granian with threads: the baseline for durable uploads.

`python -m tests.bench.bare` prints its port and serves until it is stopped.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from flask import Flask, request
from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 64


def application() -> WSGIApplication:
    app = Flask("bare")

    @app.post("/")
    def receive() -> str:
        request.get_data()
        return "{}"

    return app.wsgi_app


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    print(port, flush=True)
    Granian(
        "bare",
        port=port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        blocking_threads=THREADS,
        log_level=LogLevels.error,
    ).serve(target_loader=application, wrap_loader=False)


if __name__ == "__main__":
    main()
