"""Kills of a relay in mid-batch: a real server counts every acknowledged report once.

Devices send sealed reports to the relay and repeat each one until it is acknowledged. A tenth of
the reports are then sent once more. Meanwhile the relay is killed repeatedly, while batches gather
and while they leave. Every batch that reaches the server must be large enough. At the end, the last
relay sends what is left, and the server's tally must equal that of the reports. The same check must
find planted bugs.
"""

from __future__ import annotations

import random
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

from deniable.client import Client, Policy
from deniable.server.http.tokens import new_token
from deniable.server.intake.commit import open_recovered
from deniable.server.store import create_store, open_store
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
    acknowledged: int = 0
    retries: int = 0
    sent_again: int = 0
    gathering: int = 0  # kills while a batch was gathering
    leaving: int = 0  # kills while a batch was leaving
    smallest: int = 0  # batch that the server received before the last relay
    in_batches: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> list[int]:
        """Run the trial and return the final tally: the number of reports, then the cells."""
        key = self.folder / "sealing.pem"
        public, today = public_hex(create_sealing_key(str(key))), datetime.now(UTC).date()
        with create_store(self.folder / "data") as store:
            self.asked = published(
                store,
                survey(
                    choice(40, "k-randomized-response"),
                    opens=today,
                    closes=today + timedelta(days=40),
                    sealed_to=public,
                ),
            )
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
            tallies = store.tallies(self.asked.sequence)
            crowds = store.crowds(self.asked.sequence)
            self.in_batches = sum(crowd.reports for crowd in crowds.values())
            return [tallies[0].reports, *tallies[0].cells.tolist()] if tallies else [0]

    def truth(self) -> list[int]:
        return [self.reports, *expected_cells(self.asked.survey, range(self.reports))]

    # The relay

    @contextmanager
    def relayed(self) -> Iterator[None]:
        self.relay = self.start(0)
        self.port = self.relay.port
        try:
            yield
        finally:
            self.relay.kill_group()

    def start(self, port: int, batch: int = BATCH) -> Server:
        command = [sys.executable, str(PLANTED), self.bug, "relay"] if self.bug else None
        return start_relay(
            self.folder,
            self.server.url,
            token=self.token,
            port=port,
            batch=batch,
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
            crowds = store.crowds(self.asked.sequence)
            self.smallest = min((crowd.smallest for crowd in crowds.values()), default=0)
        self.relay.kill_group()
        self.relay = self.start(self.port, batch=1)
        eventually(self.is_empty, "the relay's end")

    def files(self, name: str) -> list[Path]:
        return list((self.folder / "held" / name).glob("*/*"))

    def has_sent(self) -> bool:
        """Return whether all whole batches have left."""
        time.sleep(0.1)
        try:
            held = sum(len(parse_sealed(path.read_bytes())) for path in self.files("gathering"))
        except FileNotFoundError:  # the relay has moved a file since it was listed
            return False
        return held < BATCH and not self.files("leaving")

    def is_empty(self) -> bool:
        time.sleep(0.1)
        return not (self.files("gathering") or self.files("leaving"))

    # The devices

    def device(self, number: int) -> None:
        chance = random.Random(number)
        for report in range(number, self.reports, DEVICES):
            made = envelope(self.asked, report, round_number=this_round(self.asked))
            sent = seal(made, self.public).pack()
            while not self.send(sent):
                self.retries += 1
                time.sleep(0.02)
            with self.lock:
                self.acknowledged += 1
            if chance.random() < 0.1:
                self.sent_again += self.send(sent)

    def send(self, sent: bytes) -> bool:
        """Send a report, and return True if it was acknowledged."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/v1/envelopes", sent, {"Content-Type": SEALED_TYPE})
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        assert answer.status in (202, 503), answer.status
        return answer.status == 202


def test_three_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path, reports=800, kills=3)
    assert trial.run() == trial.truth()
    assert (trial.smallest >= BATCH, trial.in_batches) == (True, trial.reports)
    assert trial.retries > 0, "no kill interrupted a request"
    assert trial.sent_again > 0


@pytest.mark.long
def test_twenty_kills_in_mid_batch_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path, reports=8_000, kills=20)
    assert trial.run() == trial.truth()
    assert (trial.smallest >= BATCH, trial.in_batches) == (True, trial.reports)
    print(
        f"\n{trial.reports} reports, {trial.kills} kills of the relay: {trial.gathering} while a "
        f"batch gathered, {trial.leaving} while one left; {trial.retries} retries, "
        f"{trial.sent_again} sent again; lost 0, double 0; smallest batch {trial.smallest}"
    )
    assert trial.gathering > 0
    assert trial.leaving > 0, "no kill interrupted a leaving batch"


@pytest.mark.long
def test_the_trial_detects_acknowledgements_before_the_write(tmp_path: Path) -> None:
    trial = Trial(tmp_path, reports=200, kills=1, bug="acknowledges-first")
    assert trial.run()[0] < trial.reports


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
