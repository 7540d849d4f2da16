"""Fixtures for the client's tests: a scripted server, a clock, clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Client, Policy, fork_safety, signal_safety
from deniable.client.net import surveys
from deniable.client.net.uploader import Uploader
from deniable.client.signal_safety import LOCK_WAIT_SECONDS
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, LATER, Clock, Script, Ticks, serving
from tests.eventually import PATIENCE
from tests.server.conftest import cluster

__all__ = ["cluster"]

collect_ignore = ["web_app.py"]  # importing it starts a client


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End every uploader with its test, so that its later log lines do not reach another test."""
    yield
    for watched in fork_safety._all_watched():
        if isinstance(watched, Uploader):
            watched.stop(PATIENCE)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the client's timeouts for a busy machine.

    Another thread of a test may wait longer than a quarter second for a processor while it has a
    lock. Ten times that is enough, and shows a call that waits for a lock again and again.
    """
    monkeypatch.setattr(surveys, "FETCH_SECONDS", PATIENCE)
    monkeypatch.setattr(signal_safety, "LOCK_WAIT_SECONDS", 10 * LOCK_WAIT_SECONDS)


@pytest.fixture
def real_lock_wait(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_safety, "LOCK_WAIT_SECONDS", LOCK_WAIT_SECONDS)


@pytest.fixture
def script() -> Iterator[Script]:
    with serving() as script:
        yield script


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def policy() -> Policy:
    """A policy that draws no rounds, so that each round can be answered."""
    return Policy(
        keys=[public_hex(KEY)], max_epsilon="6", max_epsilon_per_survey="6", per="lifetime"
    )


MakeClient = Callable[..., Client]


@pytest.fixture
def client_of(script: Script, clock: Clock, policy: Policy, tmp_path: Path) -> Iterator[MakeClient]:
    """Return a function that makes clients of the scripted server; consent is given by default."""
    made: list[Client] = []

    def make(consent: bool = True, **changes: Any) -> Client:
        options: dict[str, Any] = {
            "policy": policy,
            "state": tmp_path / "state",
            "now": clock,
            "send_within": 0.0,
            "timeout": PATIENCE,
        }
        options |= changes
        client = Client(options.pop("server", script.url), **options)
        if consent:
            client.consent(True)
        made.append(client)
        return client

    yield make
    script.ended.set()
    script.replies, script.always = [], LATER  # so that the final flush does not retry
    for client in made:
        client.close()


@pytest.fixture
def policy_key() -> str:
    return public_hex(KEY)
