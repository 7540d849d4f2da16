"""Server of the demo: the real command in its own process, and surveys published in its folder.

Every signal that ends the demo also stops the server and deletes its temporary folder.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.server.http.tokens import new_token
from deniable.server.store import Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import Refused, StoreUnusable
from deniable.shared.survey.document import Survey, render_document
from deniable.shared.survey.keys import public_hex, sign

STOP_SECONDS = 10
MAX_CHECKS, CHECK_SECONDS = 200, 0.05  # limits of the wait until the server serves a new survey
COMMAND = [sys.executable, "-m", "deniable.shared.cli.command"]
# A closed terminal sends SIGHUP, which Windows does not have.
END_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class RunningServer(NamedTuple):
    url: str  # address for devices
    dashboard: str  # address for people
    token: str  # access token of an operator

    @property
    def page(self) -> str:
        """Address of the dashboard that also signs in."""
        return f"{self.dashboard}/?token={self.token}"


@contextmanager
def running_server(data: Path, port: int = 0, *more: str) -> Iterator[RunningServer]:
    """Run `deniable serve` on loopback until the block ends; `port` is the dashboard's."""
    ports = ["--port", "0", "--dashboard-port", str(port)]
    command = [*COMMAND, "serve", "--data", str(data), *ports, "--json", *more]
    # In its own session: Ctrl-C reaches only the demo, which then stops the server.
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        try:  # one line, as soon as the server answers requests
            started = json.loads(server.stdout.readline())
        except ValueError:
            raise StoreUnusable("the server did not start; see its message above") from None
        yield RunningServer(started["url"], started["dashboard"], started["token"])
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first signal; ignore signals during cleanup."""
    before = {number: signal.signal(number, _interrupt) for number in END_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # raised for a handler that Python did not set
                signal.signal(number, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class Published(NamedTuple):
    """Published survey, with everything that its respondents need."""

    server: str
    id: str
    survey: Survey
    key: str  # the public key that devices trust
    app_token: str


class Publisher:
    """Publisher of surveys in an open store, with a signing key that is never stored."""

    def __init__(self, server: RunningServer, store: Store) -> None:
        self._server, self.catalogue = server, Catalogue(store)
        self._key = Ed25519PrivateKey.generate()
        self._app_token, now = new_token(), datetime.now(UTC)
        store.add_token(self._app_token, "app", now, now + timedelta(days=1))
        store.enrol_key(public_hex(self._key))

    def publish(self, name: str, opens: date, closes: date) -> Published:
        """Publish the demo's survey of this name, and wait until the server serves it."""
        survey, key = read_survey(name, opens, closes), public_hex(self._key)
        document = render_document(survey)
        published = self.catalogue.publish(document, sign(document, self._key), key)
        for _ in range(MAX_CHECKS):
            address = f"{self._server.url}/v1/surveys/{published.id}"
            if requests.get(address, timeout=30).status_code == 200:
                return Published(self._server.url, published.id, survey, key, self._app_token)
            time.sleep(CHECK_SECONDS)
        raise Refused("the server does not serve a survey that was just published")


def read_survey(name: str, opens: date, closes: date) -> Survey:
    text = files("deniable.simulations.demo").joinpath(f"surveys/{name}.toml").read_text("utf-8")
    for key, day in (("opens", opens), ("closes", closes)):
        text = text.replace(f"{key} = 2000-01-01", f"{key} = {day}")
    return parse_survey_file(text)
