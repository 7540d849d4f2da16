"""Kills of a relay in mid-batch: a real server counts every acknowledged report once.

Devices send sealed reports to the relay and repeat each one until it is acknowledged. A tenth of
the reports are then sent once more. Meanwhile the relay is killed repeatedly, while batches gather
and while they leave. Every batch that reaches the server must be large enough. At the end, the last
relay sends what is left, and the server's tally must equal that of the reports. The same check must
find planted bugs.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import quantiles

import pytest

from deniable.client import Client, Policy
from deniable.server.http.tokens import new_token
from deniable.server.intake.commit import open_recovered
from deniable.server.store import Crowd, Store, create_store, open_store
from deniable.shared.sealed_envelope import SEALED_TYPE, parse_sealed, seal
from deniable.shared.survey.keys import create_sealing_key, public_hex
from tests.eventually import PATIENCE, eventually
from tests.server.relays import relay_key, start_relay
from tests.server.surveys import PUBLIC, envelope, expected_cells, published, survey
from tests.server.test_kills import this_round
from tests.server.world import Server, serving, start
from tests.survey_texts import choice

PLANTED = Path(__file__).with_name("planted_relay.py")
DEVICES = 8
BATCH = 40


@dataclass
class Trial:
    folder: Path
    reports: int
    kills: int
    bug: str | None = None
    surveys: int = 1
    batch: int = BATCH
    seconds: list[float] = field(default_factory=list)  # of each acknowledged request
    sent_bytes: int = 0  # in bodies of acknowledged requests
    acknowledged: int = 0
    retries: int = 0
    sent_again: int = 0
    gathering: int = 0  # kills while a batch was gathering
    leaving: int = 0  # kills while a batch was leaving
    smallest: int = 0  # batch that the server received before the last relay
    in_batches: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> list[list[int]]:
        """Run the trial; return each survey's final tally: number of reports, then the cells."""
        key = self.folder / "sealing.pem"
        public, today = public_hex(create_sealing_key(str(key))), datetime.now(UTC).date()
        with create_store(self.folder / "data") as store:
            self.asked = [
                published(
                    store,
                    survey(
                        choice(40, "k-randomized-response"),
                        name=f"survey-{number}",
                        opens=today,
                        closes=today + timedelta(days=40),
                        sealed_to=public,
                    ),
                )
                for number in range(self.surveys)
            ]
            self.token = new_token()
            now = datetime.now(UTC)
            store.add_token(self.token, "app", now, now + timedelta(days=1))
        self.public = public
        keys = ["--sealing-key", str(key), "--relay-key", relay_key(self.folder)]
        with (
            serving(self.folder / "data", more=keys) as self.server,
            self.relayed(),
            ThreadPoolExecutor(DEVICES) as pool,
        ):
            done = [pool.submit(self.device, number) for number in range(DEVICES)]
            self.kill_often()
            for worker in done:
                worker.result(PATIENCE)
            self.send_rest()
        with open_recovered(self.folder / "data") as store:
            self.in_batches = sum(crowd.reports for crowd in self.crowds(store))
            tallies = [store.tallies(asked.sequence) for asked in self.asked]
            return [[t[0].reports, *t[0].cells.tolist()] if t else [0] for t in tallies]

    def crowds(self, store: Store) -> list[Crowd]:
        return [c for asked in self.asked for c in store.crowds(asked.sequence).values()]

    def truth(self) -> list[list[int]]:
        return [
            [len(numbers), *expected_cells(asked.survey, numbers)]
            for first, asked in enumerate(self.asked)
            for numbers in [range(first, self.reports, self.surveys)]
        ]

    # The relay

    @contextmanager
    def relayed(self) -> Iterator[None]:
        self.relay = self.start(0)
        self.port = self.relay.port
        try:
            yield
        finally:
            self.relay.kill_group()

    def start(self, port: int, batch: int | None = None) -> Server:
        command = [sys.executable, str(PLANTED), self.bug, "relay"] if self.bug else None
        return start_relay(
            self.folder,
            self.server.url,
            token=self.token,
            port=port,
            batch=batch or self.batch,
            command=command,
        )

    def kill_often(self) -> None:
        chance = random.Random(20261119)
        for number in range(self.kills):
            goal = self.reports * (number + chance.random()) / (self.kills + 1)
            eventually(partial(self.has_acknowledged, goal), "progress")
            self.relay.kill_group()
            self.gathering += bool(self.files("gathering"))
            self.leaving += bool(self.files("leaving"))
            self.relay = self.start(self.port)

    def has_acknowledged(self, goal: float) -> bool:
        return self.acknowledged >= goal

    def send_rest(self) -> None:
        """Wait for the last whole batch, then let another relay send what is left."""
        eventually(self.has_sent, "the end of the last whole batch")
        with open_store(self.folder / "data") as store:
            self.smallest = min((crowd.smallest for crowd in self.crowds(store)), default=0)
        self.relay.kill_group()
        self.relay = self.start(self.port, batch=1)
        eventually(self.is_empty, "the relay's end")

    def files(self, name: str) -> list[Path]:
        """List files again if the relay has removed a folder meanwhile."""
        while True:
            with suppress(FileNotFoundError):
                return list((self.folder / "held" / name).glob("*/*"))

    def has_sent(self) -> bool:
        """Return whether all whole batches have left."""
        time.sleep(0.1)
        try:
            held = Counter[str]()
            for path in self.files("gathering"):
                held[path.parent.name] += len(parse_sealed(path.read_bytes()))
        except FileNotFoundError:  # the relay has moved a file since it was listed
            return False
        return max(held.values(), default=0) < self.batch and not self.files("leaving")

    def is_empty(self) -> bool:
        time.sleep(0.1)
        return not (self.files("gathering") or self.files("leaving"))

    # The devices

    def device(self, number: int) -> None:
        chance = random.Random(number)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        for report in range(number, self.reports, DEVICES):
            asked = self.asked[report % self.surveys]
            made = envelope(asked, report, round_number=this_round(asked))
            sent = seal(made, self.public).pack()
            while not self.send(sent, connection):
                self.retries += 1
                time.sleep(0.02)
            with self.lock:
                self.acknowledged += 1
            if chance.random() < 0.1:
                self.sent_again += self.send(sent, connection)
        connection.close()

    def send(self, sent: bytes, connection: HTTPConnection) -> bool:
        """Send a report, and return True if it was acknowledged."""
        began = time.monotonic()
        try:
            connection.request("POST", "/v1/envelopes", sent, {"Content-Type": SEALED_TYPE})
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            connection.close()  # the next request opens it again
            return False
        assert answer.status in (202, 503), answer.status
        if answer.status == 202:
            with self.lock:
                self.seconds.append(time.monotonic() - began)
                self.sent_bytes += len(sent)
        return answer.status == 202

    def __str__(self) -> str:
        percentiles = quantiles(self.seconds, n=100)
        median, late = percentiles[49], percentiles[98]
        return (
            f"{self.reports} reports of {self.surveys} surveys, {self.kills} kills of the relay: "
            f"{self.gathering} while a batch gathered, {self.leaving} while one left; "
            f"{self.retries} retries, {self.sent_again} sent again; lost 0, double 0; smallest "
            f"batch {self.smallest}; answers after {1e3 * median:.3g} ms, 99 % within "
            f"{1e3 * late:.3g} ms; {self.sent_bytes / len(self.seconds):.0f} bytes a body"
        )


def test_three_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path, reports=800, kills=3, surveys=3)
    assert trial.run() == trial.truth()
    assert (trial.smallest >= BATCH, trial.in_batches) == (True, trial.reports)
    assert trial.retries > 0, "no kill interrupted a request"
    assert trial.sent_again > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("reports", "surveys", "batch"),
    [(8_000, 1, BATCH), (int(os.environ.get("RELAY_REPORTS", "100000")), 20, 500)],
)
def test_twenty_kills_in_mid_batch_lose_and_duplicate_nothing(
    tmp_path: Path, reports: int, surveys: int, batch: int
) -> None:
    """Set RELAY_REPORTS to deliver more than 100,000 reports of 20 surveys."""
    trial = Trial(tmp_path, reports, kills=20, surveys=surveys, batch=batch)
    assert trial.run() == trial.truth()
    assert (trial.smallest >= batch, trial.in_batches) == (True, trial.reports)
    print(f"\n{trial}")
    assert trial.gathering > 0
    assert trial.leaving > 0, "no kill interrupted a leaving batch"


@pytest.mark.long
def test_the_trial_detects_acknowledgements_before_the_write(tmp_path: Path) -> None:
    trial = Trial(tmp_path, reports=200, kills=1, bug="acknowledges-first")
    assert trial.run()[0][0] < trial.reports


def test_a_real_client_s_report_passes_through_a_relay(tmp_path: Path) -> None:
    """The client gets the list of surveys from the server, and sends its report to the relay."""
    key, data = tmp_path / "sealing.pem", tmp_path / "data"
    public, today = public_hex(create_sealing_key(str(key))), datetime.now(UTC).date()
    asked = survey(choice(3), opens=today, closes=today, round="day", sealed_to=public)
    with create_store(data) as store:
        row = published(store, asked)
        token, now = new_token(), datetime.now(UTC)
        store.add_token(token, "app", now, now + timedelta(days=1))
    server = start(data, more=["--sealing-key", str(key), "--relay-key", relay_key(tmp_path)])
    relay = start_relay(tmp_path, server.url, token=token, batch=1)
    try:
        with Client(
            server.url,
            policy=Policy(keys=[PUBLIC], questions={"browser": "choice"}, per="lifetime"),
            state=tmp_path / "state",
            send_within=0.0,
            relay=relay.url,
        ) as client:
            client.consent(True)
            assert client.answer("app-health", browser="option 1").status == "queued"
            assert client.flush(PATIENCE) == 0
            said = client.sent()
        assert [entry.delivery for entry in said.entries] == ["relayed"]  # type: ignore[union-attr]
        with open_store(data) as store:
            eventually(lambda: [tally.reports for tally in store.tallies(row.sequence)] == [1])
    finally:
        relay.kill_group()
        server.kill_group()
