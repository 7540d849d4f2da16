"""Server for the examples in documents; it can count the reports of app-health."""

from __future__ import annotations

from dataclasses import dataclass

import requests

from deniable.simulations.demo.server_process import RunningServer
from tests.eventually import PATIENCE


@dataclass(frozen=True)
class Place:
    server: RunningServer

    @property
    def reports(self) -> int:
        """Return the number of reports on disk."""
        where = f"{self.server.dashboard}/v1/surveys/app-health/results"
        header = {"Authorization": f"Bearer {self.server.token}"}
        rounds = requests.get(where, headers=header, timeout=PATIENCE).json()["rounds"]
        return sum(round_["reports"] for round_ in rounds)
