"""`deniable relay` as a real process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.command import DENIABLE
from tests.server.world import Server, begun


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
    """Start a relay that stores its reports in a subfolder of `folder`."""
    where = ["--to", to, "--token", token, "--data", str(folder / "held"), "--port", str(port)]
    when = ["--batch", str(batch), "--hours", str(hours), "--json"]
    return begun([*(command or [*DENIABLE, "relay"]), *where, *when, *more])


@contextmanager
def relaying(folder: Path, to: str, **how: object) -> Iterator[Server]:
    server = start_relay(folder, to, **how)  # type: ignore[arg-type]  # passed on
    try:
        yield server
    finally:
        server.kill_group()
