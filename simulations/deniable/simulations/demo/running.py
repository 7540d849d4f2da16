"""A running server for the demo: the real command, in its own process and a temporary folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.shared.errors import StoreUnusable

STOP_SECONDS = 10
COMMAND = [sys.executable, "-m", "deniable.shared.cli.command"]


@dataclass(frozen=True)
class Running:
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
def running_server(data: Path, port: int = 0, *more: str) -> Iterator[Running]:
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


def _started(line: str) -> Running:
    """From the one line that `serve --json` prints when it answers."""
    try:
        said = json.loads(line)
    except ValueError:
        raise StoreUnusable("the server did not start; its message is above") from None
    return Running(said["url"], said["token"])
