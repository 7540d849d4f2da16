"""Locks of other threads and processes: one call waits a quarter second in all, then returns."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from deniable.client import Client, signal_safety
from deniable.client.signal_safety import LOCK_WAIT_SECONDS
from deniable.client.state.database import DATABASE, SqliteState
from tests.client.scripted import Clock, sqlite_of
from tests.client.unprivileged import device, every_call

HELD_SECONDS = 0.8 * LOCK_WAIT_SECONDS  # each time: one transaction gets through, no second one
CPU_SECONDS = 0.4 * LOCK_WAIT_SECONDS
TRIES = 8
Held = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def held_throughout(folder: Path) -> Iterator[None]:
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def held_before_each_transaction(folder: Path) -> Iterator[None]:
    """Let another connection take the database whenever a transaction is about to begin.

    It gives the database back a moment later.
    """
    path, begin, timers = folder / DATABASE, SqliteState._begin, list[threading.Timer]()
    other = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    one_thread = threading.Lock()  # may use the connection

    def give_back() -> None:
        with one_thread, suppress(sqlite3.ProgrammingError):  # it is closed
            other.execute("ROLLBACK")

    def hold(*arguments: object) -> object:
        with one_thread, suppress(sqlite3.Error):  # it is taken, or closed
            other.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(HELD_SECONDS, give_back)
            timer.start()
            timers.append(timer)
        return begin(*arguments)  # type: ignore[arg-type] # passed on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteState, "_begin", hold)
        yield
    for timer in timers:
        timer.join()
    with one_thread:  # the uploader may be about to begin a transaction
        other.close()


def least_seconds(folder: Path, key: str, name: str, held: Held) -> float:
    """Return the least time that a call takes, over several tries unless it is short enough.

    Only work of others on this machine makes a call take longer.
    """
    took = list[float]()
    while len(took) < TRIES and (not took or min(took) > LOCK_WAIT_SECONDS + CPU_SECONDS):
        client = install(folder / str(len(took)), key)
        with held(sqlite_of(client).folder), pytest.MonkeyPatch.context() as patch:
            patch.setattr(signal_safety, "LOCK_WAIT_SECONDS", LOCK_WAIT_SECONDS)
            begin = time.monotonic()
            every_call(client)[name]()
            took.append(time.monotonic() - begin)
        client.close()
    return min(took)


def install(folder: Path, key: str) -> Client:
    """Return a client with a report that waits, and a list of surveys that is no longer fresh."""
    client = device(folder, key)
    for person in client, client.person("ann"):
        person.consent(True)
        assert person.answer("app-health", crashed=True).status == "queued"
    clock = client._now
    assert isinstance(clock, Clock)
    clock.now += timedelta(days=1)
    return client


def test_every_public_method_is_called(tmp_path: Path, policy_key: str) -> None:
    public = {name for name in dir(Client) if not name.startswith("_")} - {"person"}
    called = {name.removeprefix("person ") for name in every_call(device(tmp_path, policy_key))}
    assert called == public


@pytest.mark.parametrize("held", [held_throughout, held_before_each_transaction])
@pytest.mark.parametrize("name", every_call(device(Path("never-made"), "ab" * 32)))
def test_a_call_waits_a_quarter_second_over_all_its_transactions(
    tmp_path: Path, policy_key: str, name: str, held: Held
) -> None:
    took = least_seconds(tmp_path, policy_key, name, held)
    assert took <= LOCK_WAIT_SECONDS + CPU_SECONDS
