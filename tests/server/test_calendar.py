"""Clock jumps: they cause no permanent refusal and no deletion."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.server.intake.upkeep import Calendar
from deniable.server.store import SqliteStore, open_store
from tests.command import run
from tests.eventually import eventually
from tests.server.surveys import DECEMBER, envelope, survey
from tests.server.world import NOON, Hands, World, serving, world


class Leaping(Hands):
    """Clock whose date can jump while its seconds count on."""

    def __init__(self, time: datetime = NOON) -> None:
        super().__init__(time)
        begin = time.timestamp()
        object.__setattr__(self, "seconds", lambda: begin)


def sent_again(here: World) -> int:
    """Return the status of an upload for the open round."""
    (asked,) = here.catalogue.surveys()
    return int(here.send(envelope(asked, 7)).status_code)


@pytest.mark.parametrize("days", [120, 9, -2, -120])
def test_after_a_start_with_a_wrong_clock_nothing_is_accepted_or_deleted(
    tmp_path: Path, days: int
) -> None:
    """At 120 days ahead, both the open round and the retention of its reports would have ended."""
    with world(tmp_path / "data") as here:
        asked = here.publish(survey())
        assert here.send(envelope(asked, 1)).json["accepted"] == 1
        eventually(lambda: here.store.latest_day() == NOON.date(), "the day is kept")
    with world(tmp_path / "data", NOON + timedelta(days=days)) as here:
        answer = here.send(envelope(here.catalogue.surveys()[0], 2))
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        ready = here.client.get("/readyz")
        assert ready.status_code == 503
        assert "--trust-clock" in ready.json["detail"]
        here.clock.pass_(hours=2)
        here.writer.count({(1, "late"): 1})
        eventually(lambda: "late" in here.store.counters(1), "the writer does what is due")
        assert here.store.unsealed_rounds() == {asked.sequence: [DECEMBER]}
        assert here.store.latest_day() == NOON.date()
    with world(tmp_path / "data") as here:  # with the clock corrected
        assert sent_again(here) == 200


@pytest.mark.parametrize("days", [0, 1, 7])
def test_a_server_that_was_off_for_a_week_starts_normally(tmp_path: Path, days: int) -> None:
    with world(tmp_path / "data") as here:
        here.publish(survey())
        eventually(lambda: here.store.latest_day() == NOON.date(), "the day is kept")
    with world(tmp_path / "data", NOON + timedelta(days=days)) as here:
        assert sent_again(here) == 200
        eventually(lambda: here.store.latest_day() == here.clock.time.date(), "it is kept")


def test_a_clock_that_jumps_while_the_server_runs_is_distrusted(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        clock = Leaping()
        calendar = Calendar(store, clock)
        for days, believed in [(0, True), (0.9, True), (2, False), (120, False), (-2, False)]:
            clock.time = NOON + timedelta(days=days)
            assert (calendar.clock_fault() is None) == believed
        calendar.keep()
        assert store.latest_day() is None
        clock.time = NOON
        calendar.keep()
        assert store.latest_day() == NOON.date()


def test_a_distrusted_clock_is_trusted_once_it_is_corrected_days_later(tmp_path: Path) -> None:
    """The server may have been off for days before the start.

    Once it runs, a two-day jump is too long.
    """
    with SqliteStore.create(tmp_path / "data") as store:
        store.keep_day(NOON.date())
        clock = Leaping(NOON + timedelta(days=120))
        calendar = Calendar(store, clock)
        assert calendar.clock_fault() is not None
        clock.time = NOON + timedelta(days=6)
        assert calendar.clock_fault() is None
        calendar.keep()
        clock.time = NOON + timedelta(days=8)
        assert calendar.clock_fault() is not None


def test_a_clock_that_advances_normally_is_trusted(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        clock = Hands()
        calendar = Calendar(store, clock)
        clock.pass_(days=400)
        assert calendar.clock_fault() is None


def test_the_operator_can_confirm_the_clock(tmp_path: Path) -> None:
    data, long_ago = tmp_path / "data", datetime(2020, 1, 1, tzinfo=UTC).date()
    with SqliteStore.create(data) as store:
        store.keep_day(long_ago)
    with serving(data) as server:
        _, errors = server.stop()
    assert "--trust-clock" in errors
    with open_store(data) as store:
        assert store.latest_day() == long_ago
    assert "--trust-clock" in run("serve", "--help").stdout
    with serving(data, more=["--trust-clock"]) as server:
        _, errors = server.stop()
    assert errors == ""
    with open_store(data) as store:
        assert store.latest_day() == datetime.now(UTC).date()
