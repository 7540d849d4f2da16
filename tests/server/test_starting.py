"""Starts: all succeed, because no process forks while it has another thread."""

from __future__ import annotations

import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.eventually import PATIENCE
from tests.server.world import serving, start

AT_ONCE = 8
WATCHED = """
import os, sys, threading
def tell():
    print("forked among", *(t.name for t in threading.enumerate()), file=sys.stderr, flush=True)
os.register_at_fork(before=tell)
from deniable.shared.cli.command import main
"""
THREADED = "threading.Thread(target=threading.Event().wait, name='other', daemon=True).start()\n"


def forks(data: Path, planted: str = "") -> list[str]:
    """Return the threads alive at each fork of a start; two roles and their workers are forked."""
    program = f"{WATCHED}{planted}raise SystemExit(main())"
    server = start(data, command=[sys.executable, "-c", program, "serve"])
    code, errors = server.stop()
    server.close()
    assert code == 0, errors
    return [line for line in errors.splitlines() if line.startswith("forked among")]


def test_no_other_thread_is_alive_at_a_fork(tmp_path: Path) -> None:
    """A lock that another thread holds at a fork, such as the import lock, stays locked."""
    assert forks(tmp_path / "data") == ["forked among MainThread"] * 4


@pytest.mark.long
def test_the_test_above_can_fail(tmp_path: Path) -> None:
    assert "forked among MainThread other" in forks(tmp_path / "data", THREADED)


def start_and_ask(data: Path) -> int:
    with (
        serving(data) as server,
        urllib.request.urlopen(server.url + "/healthz", timeout=PATIENCE) as found,
    ):
        return int(found.status)


def all_answer(folder: Path, starts: int) -> bool:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(start_and_ask, (folder / str(number) for number in range(starts)))
        return set(found) == {200}


def test_simultaneous_starts_all_succeed(tmp_path: Path) -> None:
    assert all_answer(tmp_path, AT_ONCE // 2)


@pytest.mark.long
def test_three_hundred_starts_all_succeed(tmp_path: Path) -> None:
    assert all_answer(tmp_path, 300)
