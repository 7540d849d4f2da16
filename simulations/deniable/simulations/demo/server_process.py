"""A running server for the demo: the real command, in its own process and a temporary folder.

Ending early: what was started is stopped, and what was written is deleted, whichever signal it
is that ends the demo.

Surveys into the running server's folder, as `deniable survey publish --data` does it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import Refused, StoreUnusable
from deniable.shared.survey.document import Survey, render_document
from deniable.shared.survey.keys import public_hex, sign

STOP_SECONDS = 10
COMMAND = [sys.executable, "-m", "deniable.shared.cli.command"]


@dataclass(frozen=True)
class RunningServer:
    url: str
    token: str  # an operator's

    @property
    def page(self) -> str:
        """The dashboard, signed in."""
        return f"{self.url}/?token={self.token}"


def deniable(*arguments: str) -> dict[str, Any]:
    """One `deniable` command that prints JSON, run to its end."""
    command = [*COMMAND, *arguments, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise StoreUnusable(done.stderr.strip() or f"deniable {arguments[0]} failed")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextmanager
def running_server(data: Path, port: int = 0, *more: str) -> Iterator[RunningServer]:
    """`deniable serve` on loopback, by default on a free port, until the block ends."""
    command = [*COMMAND, "serve", "--data", str(data), "--port", str(port), "--json", *more]
    # In a session of its own: what a terminal sends to all of its processes comes to the demo,
    # which ends the server.
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        yield _started(server.stdout.readline())
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def _started(line: str) -> RunningServer:
    """From the one line that `serve --json` prints when it answers."""
    try:
        said = json.loads(line)
    except ValueError:
        raise StoreUnusable("the server did not start; its message is above") from None
    return RunningServer(said["url"], said["token"])


# As Ctrl-C; a closed terminal sends SIGHUP, which Windows does not have.
ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the block; those that come while it cleans up
    change nothing."""
    before = {each: signal.signal(each, _interrupt) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            with suppress(TypeError):  # one that was not set by Python
                signal.signal(each, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


SERVED_CHECKS = 200


@dataclass(frozen=True)
class Published:
    """A survey at its server, as the players need it."""

    server: str
    id: str
    survey: Survey
    key: str  # the public key that devices trust
    app_token: str


class Publisher:
    """Publishes with a key of its own, which is forgotten with it."""

    def __init__(self, server: RunningServer, data: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from deniable.server.http.auth import new_token
        from deniable.server.store import open_store

        self._server, self._data = server, data
        self._key = Ed25519PrivateKey.generate()
        self._app_token, now = new_token(), datetime.now(UTC)
        with open_store(data) as store:
            store.add_token(self._app_token, "app", now, now + timedelta(days=1))
            store.enrol_key(public_hex(self._key))

    def publish(self, name: str, opens: date, closes: date) -> Published:
        """The demo's survey of this name, once the server serves it."""
        from deniable.server.store import open_store
        from deniable.server.surveys.catalogue import Catalogue

        survey, key = read_survey(name, opens, closes), public_hex(self._key)
        document = render_document(survey)
        with open_store(self._data) as store:
            published = Catalogue(store).publish(document, sign(document, self._key), key)
        self._wait_until_served(published.id)
        return Published(self._server.url, published.id, survey, key, self._app_token)

    def close(self, published: Published) -> None:
        from deniable.server.store import open_store
        from deniable.server.surveys.catalogue import Catalogue

        with open_store(self._data) as store:
            catalogue = Catalogue(store)
            catalogue.close(catalogue.find(published.id))

    def annotate(self, published: Published, day: date, words: str) -> None:
        from deniable.server.store import Annotation, open_store
        from deniable.server.surveys.catalogue import Catalogue

        with open_store(self._data) as store:
            sequence = Catalogue(store).find(published.id).sequence
            store.annotate(sequence, Annotation(day, words))

    def _wait_until_served(self, survey: str) -> None:
        """A server looks for new surveys every quarter of a second."""
        import requests

        for _ in range(SERVED_CHECKS):
            found = requests.get(f"{self._server.url}/v1/surveys/{survey}", timeout=30)
            if found.status_code == 200:
                return
            time.sleep(0.05)
        raise Refused("the server does not serve the survey that was just published")


def read_survey(name: str, opens: date, closes: date) -> Survey:
    text = files("deniable.simulations.demo").joinpath(f"surveys/{name}.toml").read_text("utf-8")
    for key, day in (("opens", opens), ("closes", closes)):
        text = text.replace(f"{key} = 2000-01-01", f"{key} = {day}")
    return parse_survey_file(text)
