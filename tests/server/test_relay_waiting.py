"""A small batch leaves after a fixed wait, despite restarts and jumps of the relay's calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.server.relay.held_batches import HOUR, Holding
from deniable.server.surveys.clock import Clock
from tests.eventually import eventually
from tests.server.relays import relaying
from tests.server.test_relay import ask, sealed
from tests.server.test_relay_answers import Aggregator, aggregator
from tests.server.world import NOON

__all__ = ["aggregator"]  # a fixture
MIB = 2**20
DAY = 24 * HOUR
BATCH = sealed(1)


@dataclass
class Relay:
    """Folder of a relay, and the clocks of its machine; the calendar may be wrong by any amount."""

    folder: Path
    seconds: float = 5_000_000.0
    wrong: float = 0.0

    def __post_init__(self) -> None:
        start = NOON - timedelta(seconds=self.seconds)
        self.clock = Clock(
            now=lambda: start + timedelta(seconds=self.seconds + self.wrong),
            seconds=lambda: self.seconds,
        )
        self.start()

    def start(self) -> None:
        self.held = Holding(self.folder / "held", MIB, self.clock)

    def run(self, seconds: float) -> None:
        """Run the forwarder's checks for some time, though less often than every second."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.held.waited()
            self.seconds = min(end, self.seconds + 600)

    @property
    def file(self) -> Path:
        return self.folder / "held/gathering/waiting"


@pytest.fixture
def relay(tmp_path: Path) -> Relay:
    return Relay(tmp_path)


def test_a_batch_waits_from_its_first_envelope(relay: Relay) -> None:
    assert relay.held.waited() == 0
    relay.run(DAY)
    relay.held.keep(sealed(1))
    relay.run(100)
    relay.held.keep(sealed(1, 1))
    relay.run(50)
    assert relay.held.waited() == 150
    relay.held.close_batch()
    assert relay.held.waited() == 0
    relay.held.keep(sealed(1, 2))
    assert relay.held.waited() == 0


def test_a_relay_that_starts_every_20_hours_forwards_after_24(relay: Relay) -> None:
    relay.seconds += 1_234
    relay.held.keep(BATCH)
    relay.run(20 * HOUR)
    relay.start()
    relay.run(3.9 * HOUR)
    assert relay.held.waited() < DAY
    relay.run(1.1 * HOUR)
    assert relay.held.waited() >= DAY


@given(
    first=st.integers(0, HOUR - 1),
    spans=st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 9_000)), max_size=12),
)
def test_restarts_never_make_a_batch_early_and_at_most_an_hour_late(
    first: int, spans: list[tuple[int, int]]
) -> None:
    """Each pair has the times for which the relay runs and is off, with a correct calendar."""
    with TemporaryDirectory() as folder:
        relay = Relay(Path(folder), seconds=5_000_000.0 + first)
        relay.held.keep(BATCH)
        begun = relay.seconds
        for running, down in spans:
            relay.run(running)
            relay.seconds += down
            relay.start()
            waited = relay.seconds - begun
            assert waited - HOUR <= relay.held.waited() <= waited


@pytest.mark.parametrize("years", [-50, -1, 1, 50])
def test_a_calendar_that_jumps_while_the_relay_runs_changes_nothing(
    relay: Relay, years: int
) -> None:
    relay.held.keep(BATCH)
    relay.run(HOUR)
    relay.wrong = 365 * DAY * years
    relay.run(HOUR)
    assert relay.held.waited() == 2 * HOUR


@given(
    wrong=st.lists(st.integers(-50 * 365, 50 * 365), min_size=5, max_size=5),
    first=st.integers(-50 * 365, 50 * 365),
)
def test_wrong_calendars_at_starts_never_delay_a_batch_indefinitely(
    first: int, wrong: list[int]
) -> None:
    """Each run loses at most two hours, those that are not yet recorded at its end."""
    with TemporaryDirectory() as folder:
        relay = Relay(Path(folder), wrong=float(DAY * first))
        relay.held.keep(BATCH)
        for days in wrong:
            relay.run(7 * HOUR)
            relay.wrong = float(DAY * days)
            relay.start()
        assert relay.held.waited() >= DAY


def test_a_machine_that_always_starts_with_the_same_calendar_forwards(relay: Relay) -> None:
    relay.held.keep(BATCH)
    for starts in range(1, 4):
        relay.run(20 * HOUR)
        relay.wrong = -20.0 * HOUR * starts - 365 * DAY
        relay.start()
    assert relay.held.waited() >= 2 * DAY


@pytest.mark.parametrize("kept", [b"", b"12", b"1e9 1", b"-1 0", b"9" * 5_000 + b" 1", b"\xff"])
def test_an_unreadable_wait_restarts_once(relay: Relay, kept: bytes) -> None:
    relay.held.keep(BATCH)
    relay.run(20 * HOUR)
    relay.file.write_bytes(kept)
    relay.start()
    assert relay.held.waited() == 0
    relay.run(20 * HOUR)
    relay.start()
    assert 19 * HOUR <= relay.held.waited() <= 20 * HOUR


def test_a_folder_without_a_recorded_wait_starts_a_new_one(relay: Relay) -> None:
    relay.held.keep(BATCH)
    relay.run(20 * HOUR)
    relay.file.unlink()
    relay.start()
    assert relay.held.waited() == 0
    relay.run(20 * HOUR)
    relay.start()
    assert relay.held.waited() >= 19 * HOUR


def test_a_wait_that_cannot_be_written_delays_nothing(
    relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    relay.file.mkdir()
    relay.held.keep(BATCH)
    relay.run(DAY)
    assert relay.held.waited() == DAY
    assert 24 <= len(caplog.messages) <= 26  # one record per hour
    relay.start()
    relay.held.close_batch()
    assert len(relay.held.leaving()) == 1
    assert not list(relay.folder.rglob("*.part"))


def test_the_file_reveals_only_the_hour(tmp_path: Path) -> None:
    """Bytes and times of writing do not depend on when in the hour the first envelope came."""
    seen = set[tuple[bytes, ...]]()
    for minute in (1, 30, 59):
        relay = Relay(tmp_path / str(minute), seconds=36_000.0 * HOUR)
        relay.run(60 * minute)
        relay.held.keep(BATCH)
        told = [relay.file.read_bytes()]
        while relay.seconds < 36_005.0 * HOUR:
            before, name = relay.file.stat().st_ino, relay.file.read_bytes()
            relay.seconds += 60
            relay.held.waited()
            written = (relay.file.stat().st_ino, relay.file.read_bytes()) != (before, name)
            assert written == (relay.seconds % HOUR == 0)
            told += [relay.file.read_bytes()] * written
        assert relay.file.stat().st_mtime_ns == 0
        seen.add(tuple(told))
    assert len(seen) == 1


def test_the_wait_is_neither_sent_nor_left_behind(relay: Relay) -> None:
    relay.held.keep(BATCH)
    assert relay.file.exists()
    relay.held.close_batch()
    assert not relay.file.exists()
    assert relay.held.leaving() == BATCH
    relay.held.delete_batch()
    assert not list(relay.folder.rglob("waiting"))


def test_a_real_relay_forwards_a_batch_that_its_predecessor_held_too_long(
    aggregator: Aggregator, tmp_path: Path
) -> None:
    file = tmp_path / "held/gathering/waiting"
    with relaying(tmp_path, aggregator.url, hours=2) as relay:
        assert ask(relay, "POST", "/v1/envelopes", BATCH[0].pack())[0] == 202
    hour, seen = map(int, file.read_bytes().split())
    file.write_bytes(b"%d %d" % (hour - 3, seen))
    with relaying(tmp_path, aggregator.url, hours=2):
        eventually(lambda: aggregator.receipts, "a batch of one")
    assert aggregator.receipts == [(1, 0)]
