"""Hypothesis has no deadline, as a machine may be busy. And says how many long tests were left out:
with xdist its workers know, and this process asks them.

A call of `pytest_deselected` is of one reason. What -m leaves out of the usual `not long` is long
without exception; what -k leaves out is the user's own choice, and not counted.
"""

from collections.abc import Sequence
from typing import Any  # xdist ships no types

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

collect_ignore = ["bench/peers_theirs.py"]  # for where other libraries are
LEFT = pytest.StashKey[int]()
NAME = "long tests left"


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
