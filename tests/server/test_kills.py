"""Kills at any moment: no acknowledged report is lost, and none is counted twice.

Clients send batches and repeat each one, under the same id, until it is acknowledged. A tenth of
the batches is then sent once more. Meanwhile tests kill the whole server, its worker, or its main
process. At the end, the tally must equal that of the batches. The same check must find planted
bugs.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from deniable.server.http.tokens import new_token
from deniable.server.intake.commit import open_recovered
from deniable.server.store import Place, PublishedSurvey, create_store
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from deniable.shared.survey.document import PERIODS, Survey
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import choice, envelope, expected_cells, published, survey
from tests.server.world import start

PLANTED = Path(__file__).with_name("planted.py")
CLIENTS = 8
BATCH = 200


@dataclass
class Trial:
    """Trial: a crowd of clients, a server that is killed, and the resulting tally."""

    data: Place
    batches: int
    kills: int
    command: list[str] | None = None
    seed: int = 20261118
    acknowledged: int = 0
    retries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> list[int]:
        """Run the trial and return the final tally: the number of reports, then the cells."""
        self.publish()
        with self.supervised(), ThreadPoolExecutor(CLIENTS) as pool:
            done = [pool.submit(self.client, number) for number in range(CLIENTS)]
            self.kill_often()
            for worker in done:
                worker.result(PATIENCE)
        with open_recovered(self.data) as store:
            (tally,) = store.tallies(self.asked.sequence)
            return [tally.reports, *tally.cells.tolist()]

    def publish(self) -> None:
        with create_store(self.data) as store:
            self.asked = published(store, this_month())
            self.token = new_token()
            now = datetime.now(UTC)
            store.add_token(self.token, "app", now, now + timedelta(days=1))

    def truth(self) -> list[int]:
        reports = self.batches * BATCH
        return [reports, *expected_cells(self.asked.survey, range(reports))]

    # The server

    @contextmanager
    def supervised(self) -> Iterator[None]:
        self.server = start(self.data, command=self.command)
        self.port = self.server.port
        try:
            yield
        finally:
            self.server.kill_group()

    def kill_often(self) -> None:
        """Kill at random moments while requests arrive, so that every kill interrupts some."""
        chance = random.Random(self.seed)
        for number in range(self.kills):
            goal = self.batches * (number + chance.random()) / (self.kills + 1)
            eventually(partial(self.has_acknowledged, goal), "progress")
            self.kill(("group", "worker", "main")[number % 3])

    def has_acknowledged(self, goal: float) -> bool:
        return self.acknowledged >= goal

    def kill(self, whom: str) -> None:
        if whom == "worker" and (workers := self.server.workers()):
            os.kill(workers[0], signal.SIGKILL)
            if self.server.process.poll() is None:
                return  # the main process starts a new worker
        if whom == "main":
            os.kill(self.server.process.pid, signal.SIGKILL)  # its worker must exit without help
            self.server.process.wait(PATIENCE)
            self.server.close()
        else:
            self.server.kill_group()
        self.server = start(self.data, port=self.port, command=self.command)

    # The clients

    def client(self, number: int) -> None:
        chance = random.Random(number)
        for batch in range(number, self.batches, CLIENTS):
            sent = self.envelope(batch)
            while not self.send(sent):
                self.retries += 1
                time.sleep(0.02)
            with self.lock:
                self.acknowledged += 1
            if chance.random() < 0.1:
                self.send(sent)

    def envelope(self, batch: int) -> Envelope:
        sent = envelope(self.asked, batch * BATCH, count=BATCH, round_number=this_round(self.asked))
        return sent

    def send(self, sent: Envelope) -> bool:
        """Send an envelope, and return True if it was acknowledged."""
        return self.send_to(self.port, sent)

    def send_to(self, port: int, sent: Envelope) -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {self.token}"}
        try:
            connection.request("POST", "/v1/envelopes", sent.pack(), headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        assert answer.status in (200, 503), answer.status
        return answer.status == 200


def this_month() -> Survey:
    today = datetime.now(UTC).date()
    return survey(
        choice(40, "k-randomized-response"), opens=today, closes=today + timedelta(days=40)
    )


def this_round(asked: PublishedSurvey) -> int:
    return PERIODS["month"].round_of(datetime.now(UTC).date())


def planted(bug: str) -> list[str]:
    return [sys.executable, str(PLANTED), bug, "serve"]


def test_ten_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    """The clients send 100,000 reports in 500 batches."""
    trial = Trial(tmp_path / "data", batches=500, kills=10)
    assert trial.run() == trial.truth()
    assert trial.retries > 0, "no kill interrupted a request"


@pytest.mark.long
@pytest.mark.parametrize("store", ["folder", "database"])
def test_fifty_kills_among_a_million_reports_lose_and_duplicate_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    """The clients send 1,000,000 reports in 5,000 batches."""
    place = tmp_path / "data" if store == "folder" else request.getfixturevalue("database")
    trial = Trial(place, batches=5_000, kills=50)
    assert trial.run() == trial.truth()
    print(f"{store}: 1,000,000 acknowledged, 50 kills, {trial.retries:,} sent again, 0 lost")


@pytest.mark.long
def test_the_trial_detects_acknowledgements_before_the_commit(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "data", batches=60, kills=1, command=planted("late-commit"))
    assert trial.run()[0] < trial.truth()[0]


@pytest.mark.long
def test_the_trial_detects_pending_envelopes_in_memory_only(
    tmp_path: Path,
) -> None:
    trial = Trial(tmp_path / "data", batches=200, kills=4, command=planted("unwritten"))
    assert trial.run()[0] < trial.truth()[0]


@pytest.mark.long
def test_the_trial_detects_counted_duplicates(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "data", batches=60, kills=1, command=planted("no-deduplication"))
    assert trial.run()[0] > trial.truth()[0]
