"""Cost of `answer` to the caller, compared with an SQLite commit that waits for the same disk.

The baseline is SQLite with its defaults: rollback journal, synchronous FULL, one row per
transaction. Answers and commits alternate. The list of surveys is already on disk, because the
client fetches it at most once an hour. The clock advances by a day before each answer, so that each
answer is charged. The uploader runs as usual.

A preloaded shared object slows syncs down: it sleeps before each one. Building it needs `cc`. Files
are on the disk of the system's temporary folder, because a file system in memory never waits.

    python -m tests.bench.answer        prints one answer's median milliseconds; its own process
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from deniable.client import Client
from deniable.client.net.transport import Transport
from deniable.client.state import ledger
from deniable.client.state.ledger import Identity, write_setting
from tests.bench.measure import Measurement, seconds
from tests.client.scripted import (
    LATER,
    Answer,
    Clock,
    Listing,
    bit,
    document,
    lifetime_policy,
    serving,
    sqlite_of,
)

TIMES = 200
PEOPLE, LONG_LEDGER = 100_000, 10_000
SYNC_MS = 5
SURVEY = document(period="day", closes="2028-12-01", questions=bit("crashed", "0.5")).replace(
    b'"grace_days": 14', b'"grace_days": 365'
)
LISTING = Listing(SURVEY)
IMPORT = "from deniable.client import Client, Policy"
SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int file) {
    usleep(5000);
    return ((int (*)(int)) dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
"""


def measurements() -> Iterator[Measurement]:
    for charges in (0, LONG_LEDGER):
        with install() as (client, clock):
            charge(client, [None], charges)
            yield beside_a_commit(f"answer after {charges:,} charges", client, clock)
    yield slow_syncs()
    for name, reply in (("slow", Answer(drip=True)), ("failing", LATER)):
        with serving() as script:
            script.publish(SURVEY)
            script.always = reply
            with install(script.url, None) as (client, clock):
                times = answers(client, clock)
                yield alone(f"answer while the server is {name}, p99", times, 99, 5)
    with install() as (client, clock):
        charge(client, [f"user-{number}" for number in range(PEOPLE)], 2)
        times = answers_of_people(client)
        for share in (50, 99):
            yield alone(f"person(id).answer among {PEOPLE:,} people, p{share}", times, share, 3)
    yield Measurement(
        f"memory after {IMPORT}", memory(IMPORT) - memory("pass"), None, "MB over the bare", 12
    )


@contextmanager
def install(
    server: str = "https://stats.example.org", transport: Transport | None = LISTING
) -> Iterator[tuple[Client, Clock]]:
    """Yield a client on a real disk that has already answered once."""
    with TemporaryDirectory() as folder:
        clock, policy = Clock(), lifetime_policy(max_epsilon="1000000")
        client = Client(server, policy=policy, state=folder, now=clock, transport=transport)
        client.consent(True)
        assert client.answer("app-health", crashed=True).status == "queued"
        yield client, clock
        client.close()


def charge(client: Client, ids: list[str | None], charges: int) -> None:
    with client._state.transaction() as db:
        for id_ in ids:
            person = Identity(id_).person(db)
            write_setting(db, person, "consent", "yes")
            ledger.make_participation_key(db, person)
            for number in range(charges):
                spent = ledger.read_ledger(db, person)
                made = ledger.Charge("other", number, "2026-Q4", "other", "", {"crashed": 1}, 1)
                ledger.write_charge(db, person, spent, made)


def answers(client: Client, clock: Clock, between: Callable[[], object] = int) -> list[float]:
    """Return the milliseconds that each answer takes."""
    return [answer(client, clock, between) for _ in range(TIMES)]


def answer(client: Client, clock: Clock, between: Callable[[], object]) -> float:
    clock.now += timedelta(days=1)
    with client._state.transaction() as db:  # as if the list had just been fetched
        db.execute("UPDATE lists SET fetched = ?", (int(clock.now.timestamp()),))
    between()
    return 1e3 * seconds(partial(answered, client.answer))


def answers_of_people(client: Client) -> list[float]:
    chosen = random.Random(1).sample(range(PEOPLE), 5 * TIMES)
    people = [client.person(f"user-{number}") for number in chosen]
    return [1e3 * seconds(partial(answered, person.answer)) for person in people]


def answered(ask: Callable[..., object]) -> None:
    outcome = ask("app-health", crashed=True)
    assert getattr(outcome, "status", "") == "queued", outcome


def beside_a_commit(name: str, client: Client, clock: Clock) -> Measurement:
    commits = list[float]()
    answer(client, clock, int)  # the first answer of a process reads the whole ledger
    with committing(sqlite_of(client).folder) as commit:
        times = answers(client, clock, lambda: commits.append(1e3 * seconds(commit)))
    note = f"medians of {TIMES}; answer p99 {percentile(times, 99):.2f} ms"
    spread = percentile(times, 90) / percentile(times, 10) - 1
    return Measurement(
        f"{name}, compared with a commit", median(times), median(commits), "ms", 1.5, spread, note
    )


@contextmanager
def committing(folder: Path) -> Iterator[Callable[[], object]]:
    with closing(sqlite3.connect(folder / "baseline", isolation_level=None)) as db:
        db.execute("CREATE TABLE rows (value TEXT)")

        def commit() -> None:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO rows VALUES ('value')")
            db.execute("COMMIT")

        yield commit


def slow_syncs() -> Measurement:
    with TemporaryDirectory() as folder:
        shim = slow_sync(Path(folder))
        ran = subprocess.run(
            [sys.executable, "-m", "tests.bench.answer"],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
    name = f"answer with {SYNC_MS} ms more for each sync"
    return Measurement(name, float(ran.stdout), None, "ms", 12, note="median")


def slow_sync(folder: Path) -> Path:
    """Build the shared object that slows syncs down, for preloading."""
    source, shim = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_SYNC)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    return shim


def alone(name: str, times: list[float], share: int, limit: float) -> Measurement:
    note = f"median {median(times):.2f} ms of {len(times)}"
    return Measurement(name, percentile(times, share), None, "ms", limit, note=note)


def percentile(times: list[float], share: int) -> float:
    return sorted(times)[len(times) * share // 100]


def memory(code: str) -> float:
    """Return the peak memory, in megabytes, of a process that runs this code.

    Linux only. It reads /proc, because the peak from getrusage includes memory from before exec.
    """
    told = f"{code}\nprint(open('/proc/self/status').read())"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return int(ran.stdout.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    with install() as (own, days):
        print(median(answers(own, days)))
