"""Saying once, of a start, that the server answers and where.

The worker says it: a thread of the main process that waited for that would be alive when the worker
is forked, and whatever lock it held then, an import's say, would be held in the worker for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event

PAUSE_SECONDS = 0.05
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # every address is this one too

Ready = Callable[[str, "str | None"], None]  # the address, and the first start's token


@dataclass(frozen=True)
class Announcement:
    """Goes to the worker, and to its successors if it dies; said by the first that answers."""

    host: str
    port: int
    token: str | None
    ready: Ready
    said: Event

    def say_when_it_answers(self) -> None:
        """In a thread of the worker."""
        if not self.said.is_set():
            threading.Thread(target=self._say, name="announcement", daemon=True).start()

    def _say(self) -> None:
        while not self._answers():
            time.sleep(PAUSE_SECONDS)
        self.said.set()
        self.ready(self.url, self.token)

    @property
    def url(self) -> str:
        shown = EVERYWHERE.get(self.host, self.host)
        return f"http://[{shown}]:{self.port}" if ":" in shown else f"http://{shown}:{self.port}"

    def _answers(self) -> bool:
        target = EVERYWHERE.get(self.host, self.host)
        try:
            with socket.create_connection((target, self.port), timeout=2) as connection:
                connection.sendall(
                    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False
