"""A backend that answers for many people: answers on PostgreSQL, and batches over TLS.

- The 99th percentile of `answer`, and of a commit of one row on the same database. Both alternate.
- Sending 10,000 reports in batches, compared with single requests of the same client, to a server
  behind TLS and a line with 50 ms of latency: seconds and CPU of the client's process.

    python -m tests.bench.backend REPORTS                 sends this number of reports in batches
    python -m tests.bench.backend PORT CERTIFICATE        the line and TLS, in front of a server
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from deniable.client import Client, Policy
from deniable.client.signal_safety import LockWait
from deniable.client.state import ledger, outbox
from deniable.client.state.outbox import HistoryEntry, ReportedSymbol
from deniable.shared.envelope import Envelope
from deniable.simulations.demo.server_process import running_server
from tests.bench.measure import Measurement
from tests.client.certificates import certificate, tls
from tests.client.scripted import TODAY, Listing, bit, document, lifetime_policy
from tests.client.shared_state import STATE_KEY
from tests.command import asked_json
from tests.server.postgres import cluster

PEOPLE, REPORTS, SINGLES = 300, 10_000, 40
LATENCY_SECONDS = 0.05  # of a round trip
PATIENCE_SECONDS = 300.0
# Copies of the waiting report, for other people and with other ids
COPIES = """
INSERT INTO deniable.settings SELECT decode(md5(n::text), 'hex'), 'consent', 'yes'
FROM generate_series({first}, {last}) AS n;
INSERT INTO deniable.history
SELECT 1, decode(md5(n::text), 'hex'), survey, name, round, day, said, verdict, detail
FROM deniable.history, generate_series({first}, {last}) AS n WHERE verdict = 'waiting';
INSERT INTO deniable.outbox
SELECT n, decode(md5(n::text), 'hex'), survey, round,
set_byte(overlay(envelope PLACING decode(md5('id' || n), 'hex') FROM 41 FOR 16),
octet_length(envelope) - 1, (n % 2)::int), until, server, due, tries, earliest, slot, kept
FROM deniable.outbox, generate_series({first}, {last}) AS n
"""
SURVEY = """
[survey]
name = "app-health"
title = "How is the app doing?"
purpose = "Find crashes."
owner = "Example Ltd, privacy@example.org"
opens = {day}
closes = {day}
round = "day"
grace_days = 7

[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "0.5"
"""


def measurements() -> Iterator[Measurement]:
    with cluster() as postgres, TemporaryDirectory() as name:
        yield answers(postgres.new_database().url)
        yield from uploads(postgres.new_database().url, Path(name), REPORTS)


# Answers


def answers(address: str) -> Measurement:
    listing = Listing(document(questions=bit("crashed", "0.5")))
    client = Client(
        "https://stats.example.org", policy=lifetime_policy(), state=address, allow_ci=True,
        state_key=STATE_KEY, transport=listing, now=lambda: TODAY, send_within=3600.0,
    )  # fmt: skip
    bare, taken, commits = psycopg.connect(address, autocommit=True), list[float](), list[float]()
    bare.execute("CREATE TABLE bare (number INT)")
    people = [client.person(str(number)) for number in range(PEOPLE)]
    for person in people:
        person.consent(True)
    for person in people:
        taken.append(milliseconds(lambda: person.answer("app-health", crashed=True)))  # noqa: B023 - called now
        commits.append(milliseconds(lambda: bare.execute("INSERT INTO bare VALUES (1)")))
    charged = bare.execute("SELECT count(*) FROM deniable.charges").fetchone()
    assert charged is not None
    client.close()
    bare.close()
    rows = [sorted(side)[int(share * PEOPLE)] for side in (taken, commits) for share in (0.5, 0.99)]
    note = "medians {0:.2f} and {2:.2f} ms; a bare commit took {3:.2f} ms".format(*rows)
    note += f"; {charged[0]} of {PEOPLE} in time"
    return Measurement("99 % of answers on PostgreSQL", rows[1], None, "ms", 10.0, note=note)


def milliseconds(act: Any) -> float:  # Any: what it returns does not matter
    begin = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begin)


# Uploads


def uploads(address: str, folder: Path, reports: int) -> Iterator[Measurement]:
    data, file, today = folder / "data", folder / "survey.toml", datetime.now(UTC).date()
    file.write_text(SURVEY.format(day=today))
    published = asked_json("survey", "publish", str(file), "--data", str(data))
    token = asked_json("token", "create", "--role", "app", "--name", "bench", "--data", str(data))
    with running_server(data) as server, line(server.url, folder) as url:
        options: dict[str, Any] = {
            "policy": Policy(keys=[published["key"]]), "state": address, "state_key": STATE_KEY,
            "ca": folder / "localhost.pem", "allow_ci": True, "send_within": 0.0,
        }  # fmt: skip
        single = sent(Client(url, **options), address, published["id"], today, SINGLES)
        sender = Client(url, token=token["token"], **options)
        batch = sent(sender, address, published["id"], today, reports)
    name = f"sending one of {reports} reports over TLS, {1000 * LATENCY_SECONDS:.0f} ms away"
    note = f"{reports * batch[0]:.1f} s for all in batches"
    yield Measurement(name, 1000 * batch[0], 1000 * single[0], "ms", 0.02, note=note)
    yield Measurement("CPU of a report in a batch", 1e6 * batch[1], None, "µs", 100.0)


def sent(
    client: Client, address: str, survey: str, today: date, reports: int
) -> tuple[float, float]:
    """Return the elapsed and CPU seconds per report, for the reports of many people."""
    client.consent(True)
    client._uploader.stop(10.0)
    round_ = (today - date(1970, 1, 1)).days
    LockWait(PATIENCE_SECONDS).share(partial(fill, client, survey, round_))
    with psycopg.connect(address) as direct:
        before, first = accepted(direct), random.getrandbits(40)
        direct.execute(COPIES.format(first=first, last=first + reports - 2))
    with psycopg.connect(address, autocommit=True) as direct:
        direct.execute("ANALYZE")  # as the database itself does, some time after this many inserts
        begin, cpu = time.perf_counter(), time.process_time()
        client._uploader.wake()
        while direct.execute("SELECT 1 FROM deniable.outbox LIMIT 1").fetchone():
            assert time.perf_counter() < begin + PATIENCE_SECONDS, "some reports still wait"
            time.sleep(0.02)
        seconds = time.perf_counter() - begin, time.process_time() - cpu
        assert accepted(direct) == before + reports
        direct.execute("DELETE FROM deniable.history")
    client.close()
    return seconds[0] / reports, seconds[1] / reports


def accepted(direct: psycopg.Connection[Any]) -> int:  # Any: rows of several types
    query = "SELECT count(*) FROM deniable.history WHERE verdict = 'accepted'"
    return int(direct.execute(query).fetchall()[0][0])


def fill(client: Client, survey: str, round_: int) -> None:
    """Queue a report as `answer` does, without its charge."""
    symbols = (ReportedSymbol("crashed", "0.5", "yes", "the odds"),)
    entry = HistoryEntry(survey, "app-health", round_, "2026-12-01", symbols)
    until = datetime.now(UTC) + timedelta(days=7)
    with client._state.transaction(durable=False) as db:
        person = os.urandom(16)
        ledger.write_setting(db, person, "consent", "yes")
        envelope = Envelope(survey, round_, os.urandom(16), 1, bytes([random.getrandbits(1)]))
        outbox.put(db, person, envelope, envelope.pack(), until, entry, client._server, 0.0)


@contextmanager
def line(url: str, folder: Path) -> Iterator[str]:
    """Yield the address of a server behind TLS and latency, which run in a process of their own."""
    made = certificate(folder)
    program = [sys.executable, "-m", "tests.bench.backend", url.rpartition(":")[2], str(made)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"https://localhost:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def serve_line(port: int, file: Path) -> None:
    async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await joined(reader, writer, port, 0.0)

    secure = await asyncio.start_server(ended, "127.0.0.1", 0, ssl=tls(file))
    inner = secure.sockets[0].getsockname()[1]

    async def delayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(LATENCY_SECONDS)  # of TCP's own handshake
        await joined(reader, writer, inner, LATENCY_SECONDS / 2)

    outer = await asyncio.start_server(delayed, "127.0.0.1", 0)
    print(outer.sockets[0].getsockname()[1], flush=True)
    await outer.serve_forever()


async def joined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, delay: float
) -> None:
    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(pump(reader, other_writer, delay), pump(other_reader, writer, delay))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay: float) -> None:
    """Pass bytes on, each piece after the delay."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while piece := await source.read(2**16):
            loop.call_later(delay, sink.write, piece)
    await asyncio.sleep(delay)
    sink.close()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(serve_line(int(sys.argv[1]), Path(sys.argv[2])))
    else:
        with cluster() as server_of_all, TemporaryDirectory() as made:
            address = server_of_all.new_database().url
            for measured in uploads(address, Path(made), int(sys.argv[1])):
                print(measured)
