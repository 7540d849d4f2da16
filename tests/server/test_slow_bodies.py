"""Bodies that reach the reader slowly leave threads for everybody else."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from deniable.server.http.tokens import new_token
from deniable.server.store import create_store
from tests.eventually import PATIENCE
from tests.server.test_overload import head
from tests.server.world import Server, serving

FORM = "application/x-www-form-urlencoded"
MANY = 40  # more than the reader has threads
SECONDS = 5.0  # to be answered


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
def test_slow_bodies_leave_threads_for_everybody_else(tmp_path: Path, path: str) -> None:
    token = with_operator(tmp_path / "data")
    known = f"Authorization: Bearer {token}\r\n"
    with serving(tmp_path / "data") as server, ExitStack() as stack:
        for held in slow_bodies(server, MANY, path, known):
            stack.enter_context(held)
        base = f"http://127.0.0.1:{server.dashboard_port}"
        assert requests.get(f"{base}/healthz", timeout=SECONDS).status_code == 200
        bearer = {"Authorization": f"Bearer {token}"}
        if path == "/sign-in":  # anyone may send one: publishing goes on
            refused = requests.post(f"{base}/v1/surveys", "{}", headers=bearer, timeout=SECONDS)
            assert refused.status_code == 400
        one_more = requests.post(f"{base}{path}", {"token": "x"}, headers=bearer, timeout=SECONDS)
        assert one_more.status_code == 503
