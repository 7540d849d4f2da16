"""Soak test: twenty minutes at half load, with 1,000 surveys of 10,000 rounds in all.

Memory, handles and response times must not grow. A second part measures how many reports the server
accepts at twice its maximum load.

    python -m tests.bench.soak [SECONDS]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deniable.server.store import PublishedSurvey, RoundTally, SqliteStore
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.survey.document import PERIODS
from tests.bench.answer import percentile
from tests.bench.load import Make, ask, post
from tests.bench.measure import Measurement, compare
from tests.server.surveys import envelope, published, survey
from tests.server.test_overload import altered
from tests.server.world import Server, serving

SECONDS = 1_200.0
SURVEYS, ROUNDS = 1_000, 10
CONNECTIONS = 32
MAX_MB = 250
PROBE = 3_200  # requests that measure the full load
ROOM = 16  # requests that may wait during the overload
Sample = tuple[float, float, int]  # seconds, MB, handles


def measurements(seconds: float = SECONDS) -> Iterator[Measurement]:
    yield at_twice_the_load()
    with TemporaryDirectory() as name:
        data, asked = Path(name), crowded(Path(name))
        with serving(data) as server:
            make = uploads(asked)
            began = time.perf_counter()
            ask(server.port, CONNECTIONS, PROBE // CONNECTIONS, make)
            rate = PROBE / (time.perf_counter() - began) / 2
            times, samples = asyncio.run(soak(server, rate, seconds, make))
    settled = samples[len(samples) // 4 :]
    minutes = f"{seconds / 60:g} minutes of {rate:.0f} requests/s, {SURVEYS:,} surveys"
    most = max(sample[1] for sample in samples)
    yield Measurement("peak memory", most, None, "MB", MAX_MB, note=minutes)
    yield Measurement(
        "memory that grows after the first quarter",
        ours=growth(settled, seconds),
        baseline=None,
        unit="MB",
        limit=8,
        note=minutes,
    )
    handles = [sample[2] for sample in settled]
    yield Measurement("handles that more are open", max(handles) - handles[0], None, "", 8)
    quarter = len(times) // 4
    yield Measurement(
        "p99 of the last quarter, compared with the second",
        ours=percentile(times[-quarter:], 99),
        baseline=percentile(times[quarter : 2 * quarter], 99),
        unit="ms",
        limit=3,
        note=minutes,
    )


def crowded(data: Path) -> PublishedSurvey:
    """Publish all surveys with their rounds, and return the survey that people answer."""
    today = datetime.now(UTC).date()
    first = PERIODS["day"].round_of(today) - ROUNDS
    with SqliteStore.create(data) as store:
        catalogue = Catalogue(store)
        asked = [
            published(
                store,
                survey(
                    name=f"survey-{number}",
                    round="day",
                    opens=today - timedelta(days=ROUNDS),
                    closes=today + timedelta(days=ROUNDS),
                ),
                catalogue,
            )
            for number in range(SURVEYS)
        ]
        for entry in asked:
            with store.transaction() as transaction:
                for day in range(ROUNDS):
                    transaction.add(
                        entry.sequence, RoundTally(first + day, 2, np.ones(2, np.int64))
                    )
    return asked[-1]


def uploads(asked: PublishedSurvey) -> Make:
    numbers, today = count(int.from_bytes(os.urandom(8))), PERIODS["day"]

    def make() -> bytes:
        now = today.round_of(datetime.now(UTC).date())
        sent = envelope(asked, next(numbers), round_number=now)
        return post("/v1/envelopes", sent.pack(), f"Content-Type: {CONTENT_TYPE}")

    return make


async def soak(
    server: Server, rate: float, seconds: float, make: Make
) -> tuple[list[float], list[Sample]]:
    """Return the milliseconds of each request, and samples of the worker's resources."""
    end, times, samples = time.monotonic() + seconds, list[float](), list[Sample]()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        due = time.monotonic()
        while time.monotonic() < end:
            due += CONNECTIONS / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            began = time.perf_counter()
            writer.write(make())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readuntil(b"}")
            times.append(1e3 * (time.perf_counter() - began))
        writer.close()

    async def watch() -> None:
        (worker,) = server.workers()
        while time.monotonic() < end:
            samples.append(sample(worker, time.monotonic()))
            await asyncio.sleep(seconds / 200)

    await asyncio.gather(watch(), *(connection() for _ in range(CONNECTIONS)))
    return times, samples


def sample(worker: int, now: float) -> Sample:
    status = Path(f"/proc/{worker}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return now, memory, len(list(Path(f"/proc/{worker}/fd").iterdir()))


def growth(samples: list[Sample], seconds: float) -> float:
    """Return the growth in MB over the whole run, by linear regression."""
    slope, _ = np.polyfit([sample[0] for sample in samples], [sample[1] for sample in samples], 1)
    return float(slope) * seconds * 3 / 4


def at_twice_the_load() -> Measurement:
    """Send about twice the maximum load; refused clients retry immediately."""
    limit = f"import deniable.server.http.intake_front as front\nfront.MAX_UPLOADS_WAITING = {ROOM}"
    with TemporaryDirectory() as name:
        asked = crowd_of_one(Path(name))
        with serving(Path(name), command=altered(limit)) as server:
            make = uploads(asked)
            return compare(
                "accepted at twice the load that there is room for",
                partial(accepted, server.port, 2 * ROOM, 1_600, make),
                partial(accepted, server.port, ROOM, 1_600, make),
                unit="µs",
                per=1e6 / 1_600,
                limit=1.4,
                note="an accepted request; compared with the load that there is room for",
            )


def crowd_of_one(data: Path) -> PublishedSurvey:
    today = datetime.now(UTC).date()
    with SqliteStore.create(data) as store:
        return published(
            store, survey(round="day", opens=today, closes=today + timedelta(days=ROUNDS))
        )


def accepted(port: int, connections: int, requests: int, make: Make) -> None:
    """Send requests until this number of them is accepted."""
    asyncio.run(_accepted(port, connections, requests, make))


async def _accepted(port: int, connections: int, requests: int, make: Make) -> None:
    left = requests

    async def connection() -> None:
        nonlocal left
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left > 0:
            writer.write(make())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(b"}")
            left -= head.startswith(b"HTTP/1.1 200")
            refused = head.startswith(b"HTTP/1.1 503") and b"retry-after" in head.lower()
            assert refused or head.startswith(b"HTTP/1.1 200"), head
            await asyncio.sleep(0.01 if refused else 0)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(connections)))


if __name__ == "__main__":
    for measurement in measurements(*map(float, sys.argv[1:])):
        print(measurement.line(), flush=True)
