"""Hypothesis has no deadline, as a machine may be busy. Temporary folders are in memory. And it is
said how many long tests were left out: with xdist its workers know, and this process asks them.

A call of `pytest_deselected` is of one reason. What -m leaves out of the usual `not long` is long
without exception; what -k leaves out is the user's own choice, and not counted.
"""

import os
import tempfile
from collections.abc import Sequence
from typing import Any  # xdist ships no types

import pytest
from hypothesis import settings

from deniable.client.environment import KEPT
from deniable.client.state.ledger import ROBOTS

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

collect_ignore = ["bench/peers_theirs.py"]  # for where other libraries are
LEFT = pytest.StashKey[int]()
NAME = "long tests left"
MEMORY, ROOM = "/dev/shm", 2 * 2**30  # Linux's; a container's may be small, or run no program


def pytest_configure() -> None:
    """Stores wait for the disk at each commit, and no test pulls the plug: a killed process leaves
    the same files in memory as on a disk. Somebody's own TMPDIR stays."""
    for name in ROBOTS:
        os.environ.pop(
            name, None
        )  # the tests' clients stand for people, also where robots run them
    os.environ[KEPT] = "1"  # and their folders for a device's disk, also in a container
    if "TMPDIR" not in os.environ and is_roomy(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def is_roomy(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    room = found.f_bavail * found.f_frsize
    return room > ROOM and not found.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items and all(item.get_closest_marker("long") for item in items):
        keep(items[0].config, len(items))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[NAME] = session.config.stash.get(LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each worker has collected all the tests, and left the same ones."""
    keep(node.config, getattr(node, "workeroutput", {}).get(NAME, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left := terminalreporter.config.stash.get(LEFT, 0):
        tests = "long test" if left == 1 else "long tests"
        terminalreporter.write_line(f"{left} {tests} left to ./run bench --long")


def keep(config: pytest.Config, left: int) -> None:
    config.stash[LEFT] = max(left, config.stash.get(LEFT, 0))
