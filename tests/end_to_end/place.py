"""Server for the examples in documents; it can count the reports of app-health."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deniable.server.store import open_store
from deniable.simulations.demo.server_process import RunningServer


@dataclass(frozen=True)
class Place:
    server: RunningServer
    data: Path  # the server's folder

    @property
    def reports(self) -> int:
        """Return the number of reports on disk."""
        with open_store(self.data) as store:
            return sum(store.report_totals().values())
