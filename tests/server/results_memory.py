"""Measure the peak memory growth of a server for one request for results, in bytes.

    python -m tests.server.results_memory PATH OPTIONS ROUNDS

The survey asks one choice with OPTIONS options each day, in unary encoding, and all ROUNDS rounds
have reports. PATH is a path below the survey's, such as `/results` or `/results.csv`.
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deniable.server.app import create_app
from deniable.server.http.context import Parts
from deniable.server.intake.status import NO_STATUS
from deniable.server.store import PublishedSurvey, RoundTally
from tests.server.surveys import choice, survey
from tests.server.world import World, world

LAST, REPORTS = date(2039, 12, 1), 10_000
NOW = datetime(2039, 12, 2, 12, tzinfo=UTC)  # only the last rounds are still open


def fill(here: World, name: str, options: int, rounds: int) -> PublishedSurvey:
    opens = LAST - timedelta(days=rounds - 1)
    asked = survey(
        choice(options, "unary"), name=name, round="day", opens=opens, closes=LAST, grace_days=3
    )
    published, generator = here.publish(asked), np.random.default_rng(1)
    with here.store.transaction() as transaction:
        for number in range(asked.first_round, asked.last_round + 1):
            cells = generator.binomial(REPORTS, 0.4, options)
            transaction.add(published.sequence, RoundTally(number, REPORTS, cells))
    return published


def peak_bytes(*, reset: bool = False) -> int:
    """Return the peak memory of this process since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    status = Path("/proc/self/status").read_text("ascii")
    return 1_024 * int(status.split("VmHWM:")[1].split()[0])


def growth(path: str, options: int, rounds: int) -> tuple[int, int]:
    """Return the growth in bytes, and the size of the response."""
    with TemporaryDirectory() as folder, world(Path(folder) / "data", NOW) as here:
        small, large = fill(here, "small", 5, 3), fill(here, "large", options, rounds)
        # Remove the tests' hook, which would keep every response in memory.
        app = create_app(Parts(here.store, here.catalogue, lambda: NO_STATUS, here.clock))
        client, headers = app.test_client(), here.bearer("analyst")
        for _ in range(2):  # the first pass imports everything
            client.get(path.format(small.id), headers=headers)
        before = peak_bytes(reset=True)
        response = client.get(path.format(large.id), headers=headers)
        size = sum(map(len, response.iter_encoded()))
        assert response.status_code == 200
        return peak_bytes() - before, size


if __name__ == "__main__":
    print(*growth(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
