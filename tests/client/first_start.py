"""Program that tests run: installs that are killed in their first moments, each in a new folder.

`python -m tests.client.first_start FOLDER steps` kills at each step in turn: before and after every
call that the state makes to the system and to SQLite. `... FOLDER moments COUNT` kills from
outside, at any moment of a first start. It prints what happened to every install afterwards.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from deniable.client import Client, Policy
from deniable.client.disclosure import read_summary
from deniable.client.net.transport import Reply, Unreachable
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.keys import public_hex
from tests.client.children import install_on_calls
from tests.client.scripted import KEY, bit, document, entry
from tests.eventually import PATIENCE, eventually

THREADS = Path("/proc/self/task")  # on Linux, until the system has ended them
PUBLISHED = document(questions=bit("crashed", "0.5"))
LISTED = Reply(200, json.dumps({"surveys": [entry(PUBLISHED)]}).encode())


class Listing:
    """Network that serves the list of surveys and accepts no report."""

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return LISTED
        raise Unreachable("nobody there")


def start(folder: Path) -> str:
    client = Client(
        "https://stats.example.org",
        policy=Policy(keys=[public_hex(KEY)], per="lifetime"),
        state=folder,
        now=lambda: datetime(2026, 12, 10, 12, tzinfo=UTC),
        transport=Listing(),
    )
    consent = client.consent(True)
    status = client.answer("app-health", crashed=True).status
    client._uploader.stop(PATIENCE)
    return status if consent else f"no consent on disk, {status}"


def afterwards(folder: Path) -> str:
    """Return the outcome of the next two starts, or what is wrong with the charge or the report."""
    first, again = start(folder), start(folder)
    try:
        told = read_summary(folder)
    except StoreUnusable:
        return "bricked"
    spent_once = told.ledger.total == 500_000_000 and told.ledger.charges == 1
    reported = len(told.entries) <= 1
    marked = (folder / "deniable.used").stat().st_size == 1
    return f"{first} {again}" if spent_once and reported and marked else f"wrong: {first} {told}"


def killed(folder: Path, step: int = 0, wait: float | None = None) -> bool:
    """Start the install in a child; return whether it was killed, at a step or after a time."""
    # a thread that ends takes a lock of OpenSSL, which a child would inherit and wait for
    eventually(lambda: not THREADS.exists() or len([*THREADS.iterdir()]) == 1)
    child = os.fork()
    if child == 0:
        install_on_calls(sys.setprofile, _killer(step))
        start(folder)
        sys.setprofile(None)
        os._exit(0)
    if wait is not None:
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] != 0


def steps(folder: Path) -> Counter[str]:
    """Kill one install at each step, until an install has no such step and survives."""
    ends, step = Counter[str](), 1
    while killed(here := folder / str(step), step):
        ends[afterwards(here)] += 1
        shutil.rmtree(here)
        step += 1
    return ends


def _killer(step: int) -> Callable[[FrameType, str, object], None]:
    """Return a tracer that kills its process at this call out of the state's code, or after it."""
    left = step

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        if event.startswith("c_") and "/client/state/" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return count


def moments(folder: Path, count: str) -> Counter[str]:
    """Kill at any moment of an undisturbed start, more often near its beginning."""
    ends, begin = Counter[str](), time.monotonic()
    killed(folder / "undisturbed")
    longest = time.monotonic() - begin
    for number in range(int(count)):
        here = folder / str(number)
        killed(here, wait=random.uniform(0, longest) * random.random())
        ends[afterwards(here)] += 1
        shutil.rmtree(here)
    return ends


if __name__ == "__main__":
    start(Path(sys.argv[1]) / "warm")  # loads every module, so that children start immediately
    programs: dict[str, Callable[..., Counter[str]]] = {"steps": steps, "moments": moments}
    print(json.dumps(programs[sys.argv[2]](Path(sys.argv[1]), *sys.argv[3:])))
    sys.stdout.flush()
    os._exit(0)
