"""Slow bodies, truncated bodies and idle connections: none blocks the reader for others."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder, run_wsgi_app

from deniable.server.http.context import COOKIE
from deniable.server.http.middleware import BoundedBodies
from deniable.server.http.tokens import new_token
from deniable.server.process.roles import READER_CONNECTIONS
from deniable.server.store import create_store
from tests.eventually import PATIENCE
from tests.server.test_overload import head
from tests.server.world import Server, World, serving

FORM = "application/x-www-form-urlencoded"
MANY = 40  # more than the number of the reader's threads
SECONDS = 5.0  # allowed for a response


def slow_bodies(server: Server, number: int, path: str, headers: str = "") -> list[socket.socket]:
    made = []
    for _ in range(number):
        made.append(socket.create_connection(("127.0.0.1", server.dashboard_port), PATIENCE))
        start = head(500, FORM, path).removesuffix(b"\r\n")
        made[-1].sendall(start + headers.encode() + b"\r\ntoken=abc")
    return made


def with_operator(folder: Path) -> str:
    token, now = new_token(), datetime.now(UTC)
    with create_store(folder) as store:
        store.add_token(token, "operator", now, now + timedelta(days=1))
    return token


@pytest.mark.parametrize("path", ["/sign-in", "/v1/surveys"])
def test_slow_bodies_leave_threads_for_everyone_else(tmp_path: Path, path: str) -> None:
    token = with_operator(tmp_path / "data")
    known = f"Authorization: Bearer {token}\r\n"
    with serving(tmp_path / "data") as server, ExitStack() as stack:
        for held in slow_bodies(server, MANY, path, known):
            stack.enter_context(held)
        base = f"http://127.0.0.1:{server.dashboard_port}"
        assert requests.get(f"{base}/healthz", timeout=SECONDS).status_code == 200
        bearer = {"Authorization": f"Bearer {token}"}
        # /sign-in needs no role; also check that publishing still works
        if path == "/sign-in":
            refused = requests.post(f"{base}/v1/surveys", "{}", headers=bearer, timeout=SECONDS)
            assert refused.status_code == 400
        one_more = requests.post(f"{base}{path}", {"token": "x"}, headers=bearer, timeout=SECONDS)
        assert one_more.status_code == 503


def post_as_granian(here: World, path: str, cookie: str, body: bytes, length: int) -> int:
    """Return the status for a form whose body ends before its declared length."""
    builder = EnvironBuilder(path, method="POST", content_type=FORM, headers=[("Cookie", cookie)])
    environ: dict[str, Any] = {
        **builder.get_environ(),
        "CONTENT_LENGTH": str(length),
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,  # so that the framework does not count the bytes
    }
    _, status, _ = run_wsgi_app(BoundedBodies(here.app), environ, buffered=True)
    return int(status.split()[0])


def test_a_form_that_ends_early_has_no_effect(here: World) -> None:
    """Part of a form may be a valid form; here its number of days is smaller."""
    browser, session = FlaskClient(here.app), here.session(here.token("operator"))
    browser.set_cookie(COOKIE, session)
    (sent,) = set(re.findall('name="form_token" value="([0-9a-f]+)"', browser.get("/operate").text))
    form = f"form_token={sent}&role=analyst&days=10".encode()
    cookie, tokens = f"{COOKIE}={session}", len(here.store.tokens())
    for missing, status in ((1, 400), (0, 200)):
        body = form[: len(form) - missing]
        assert post_as_granian(here, "/operate/tokens", cookie, body, len(form)) == status
        assert len(here.store.tokens()) == tokens + 1 - missing


def test_idle_connections_delay_others_only_briefly(tmp_path: Path) -> None:
    """More connections are opened than the reader can serve; silent ones are soon closed."""
    with serving(tmp_path / "data") as server, ExitStack() as stack:
        place = ("127.0.0.1", server.dashboard_port)
        for _ in range(READER_CONNECTIONS + 50):
            stack.enter_context(socket.create_connection(place, PATIENCE))
        url = f"http://127.0.0.1:{server.dashboard_port}/healthz"
        assert requests.get(url, timeout=8).status_code == 200  # intake waits 10 s
