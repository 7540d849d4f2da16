"""Web application with one client, made before its server forks: `tests.client.web_app:app`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from deniable.client import Client, Policy, signal_safety
from deniable.client.net import surveys
from tests.client.children import rest
from tests.eventually import PATIENCE

surveys.FETCH_SECONDS = signal_safety.LOCK_WAIT_SECONDS = PATIENCE  # the machine may be busy
client = Client(
    os.environ["SERVER"],
    policy=Policy(keys=[os.environ["POLICY_KEY"]], per="lifetime", max_epsilon_per_survey="6"),
    state=os.environ["STATE"],
    now=lambda: datetime(2026, 12, 10, 12, tzinfo=UTC),
)
client.consent(True)
client.answer("before-the-fork", crashed=True)  # its uploader runs when the workers are forked
if "AT_REST" in os.environ:
    rest(client)


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer the survey NAME for `GET /NAME`, none for `GET /`; return process and status."""
    name = environ["PATH_INFO"].strip("/")
    status = client.answer(name, crashed=True).status if name else "up"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {status}".encode()]
