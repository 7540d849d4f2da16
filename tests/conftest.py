"""Settings for all tests, and a final line with the number of long tests that were left out.

Hypothesis has no deadline, because the machine may be busy. Temporary folders are in memory.

Each call of `pytest_deselected` has one cause. If all its tests are long, the cause is the default
-m `not long`. Tests that the user deselects by -k are not counted. With xdist only the workers know
the number, so this process asks them.
"""

import gc
import os
import tempfile
from collections.abc import Generator, Sequence
from typing import Any  # xdist ships no types

import pytest
from hypothesis import settings

from deniable.client.environment import KEPT
from deniable.client.state.ledger import ROBOTS

# As in the command. More threads of numpy would compete with the other workers for the processors,
# and they wait actively. Only a variable that is set before numpy is loaded has an effect.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

collect_ignore = ["bench/peers_theirs.py"]  # its libraries are in another environment
LEFT = pytest.StashKey[int]()
NAME = "long tests left"
# Only Linux has this folder. In a container it may be small, or forbid running programs.
MEMORY, ROOM = "/dev/shm", 2 * 2**30


def pytest_configure() -> None:
    """Put temporary folders into memory, unless the user set TMPDIR.

    Stores wait for the disk at each commit, but no test here cuts the power, and a killed process
    leaves the same files in memory as on a disk.
    """
    # The tests' clients stand for people's devices, so their folders count as permanent, even in CI
    # and containers.
    for name in ROBOTS:
        os.environ.pop(name, None)
    os.environ[KEPT] = "1"
    if "TMPDIR" not in os.environ and is_roomy(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, and never search them for garbage later.

    They last until the end, and are so many objects that each search takes a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


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
    """Use the count of one worker, because all workers collect and deselect the same tests."""
    keep(node.config, getattr(node, "workeroutput", {}).get(NAME, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left := terminalreporter.config.stash.get(LEFT, 0):
        tests = "long test" if left == 1 else "long tests"
        terminalreporter.write_line(f"{left} {tests} left to ./run bench --long")


def keep(config: pytest.Config, left: int) -> None:
    config.stash[LEFT] = max(left, config.stash.get(LEFT, 0))
