"""`deniable relay` as a real process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import PATIENCE
from tests.server.world import DENIABLE, Server


def start_relay(
    folder: Path,
    to: str,
    *,
    token: str = "a-token",
    port: int = 0,
    batch: int = 10,
    hours: float = 24.0,
    command: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> Server:
    """It holds in a folder of its own inside of this one."""
    where = ["--to", to, "--token", token, "--data", str(folder / "held"), "--port", str(port)]
    when = ["--batch", str(batch), "--hours", str(hours), "--json"]
    process = subprocess.Popen(
        [*(command or [*DENIABLE, "relay"]), *where, *when, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate(timeout=PATIENCE)
        raise AssertionError(f"the relay did not start: {errors}")
    return Server(process, json.loads(line)["url"], None)


@contextmanager
def relaying(folder: Path, to: str, **how: object) -> Iterator[Server]:
    server = start_relay(folder, to, **how)  # type: ignore[arg-type]  # passed on
    try:
        yield server
    finally:
        server.kill_group()
