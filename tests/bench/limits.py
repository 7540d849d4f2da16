"""Limits that a server keeps under load: slowest responses, memory, cost of a token, slow syncs.

A preloaded shared object slows syncs down, as in answer.py; building it needs `cc`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.answer import SYNC_MS, percentile, slow_sync
from tests.bench.ingest import REQUESTS, served, upload
from tests.bench.load import ask, latencies
from tests.bench.measure import ROUNDS, Measurement, compare, seconds

CONNECTIONS = 64


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder / "data", folder) as (port, survey, app):
            send = partial(ask, port, CONNECTIONS, REQUESTS // CONNECTIONS)
            yield compare(
                "an app token on envelopes of 1",
                partial(send, upload(survey, 1, app)),
                partial(send, upload(survey)),
                unit="µs",
                per=1e6 / REQUESTS,
                limit=1.15,
                note="a request; compared with the same without one",
            )
            yield slowest(port, survey)
        yield with_slow_syncs(folder)


def slowest(port: int, survey: str) -> Measurement:
    each = REQUESTS // CONNECTIONS
    rounds = [
        percentile(latencies(port, CONNECTIONS, each, upload(survey)), 99) for _ in range(ROUNDS)
    ]
    spread = max(rounds) / min(rounds) - 1
    name = f"p99 of envelopes of 1 over {CONNECTIONS} connections"
    return Measurement(name, min(rounds), None, "ms", 30, spread)


def with_slow_syncs(folder: Path) -> Measurement:
    with (
        loaded_first(slow_sync(folder)),
        served(folder / "slow", folder) as (port, survey, _),
    ):
        send = partial(ask, port, CONNECTIONS, REQUESTS // CONNECTIONS, upload(survey))
        times = [REQUESTS / seconds(send) for _ in range(ROUNDS)]
    name = f"upload with {SYNC_MS} ms more for each sync"
    best, spread = 1e6 / max(times), max(times) / min(times) - 1
    note = f"{max(times):,.0f} durable requests a second"
    return Measurement(name, best, None, "µs", 500, spread, note)


@contextmanager
def loaded_first(shared_object: Path) -> Iterator[None]:
    os.environ["LD_PRELOAD"] = str(shared_object)
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"]
