"""CPU time of a command-line tool with the client: its import, runs with nothing to do, an answer.

User and system time of the whole process, so that waiting for the disk or for other processes does
not count. The commands alternate, the best round of each counts, and each run begins with the same
state. The server is on this machine, without TLS; its list of surveys is on disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deniable.shared.survey.keys import public_hex
from tests.bench.measure import Measurement
from tests.client.scripted import KEY, bit, document, serving

TIMES = 24
IMPORT = "from deniable.client import Client, Policy"
LIBRARY = (
    "import contextvars, dataclasses, datetime, hashlib, json, pathlib, sqlite3, threading, typing,"
    " urllib.parse"
)
TOOL = """
from datetime import UTC, datetime
from deniable.client import Client, Policy
policy = Policy(keys=[{key!r}], {policy})
client = Client({url!r}, policy=policy, state={state!r}, allow_ci=True,
    now=lambda: datetime(2026, 12, 10, 12, tzinfo=UTC))
"""
CONSENT = "client.consent(True)\n"
ANSWER = 'print(client.answer("app-health", crashed=True).status)\n'
EVERY_ROUND, ONE_ROUND = 'per="lifetime"', 'max_epsilon_per_survey="0.5"'  # of 13 in a quarter


@dataclass(frozen=True)
class Command:
    code: str
    says: str = ""
    state: Path | None = None  # at the beginning of each run
    folder: Path | None = None  # in which the code finds it

    def milliseconds(self) -> float:
        """Run once, and return the CPU time of the process."""
        if self.state and self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(self.state, self.folder)
        with subprocess.Popen([sys.executable, "-c", self.code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = process.stdout.read().decode().strip()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert (process.returncode, said) == (0, self.says), (self.code, said)
        return 1000 * (used.ru_utime + used.ru_stime)


def measurements() -> Iterator[Measurement]:
    published = document(opens="2026-01-01", period="week", questions=bit("crashed", "0.5"))
    with serving() as script, TemporaryDirectory() as folder:
        script.publish(published)
        commands = {"bare": Command("pass"), "library": Command(LIBRARY), "import": Command(IMPORT)}
        commands |= {command.says: command for command in tools(script.url, Path(folder))}
        times = {name: list[float]() for name in commands}
        for _ in range(TIMES):
            for name, command in commands.items():
                times[name].append(command.milliseconds())
    best = {name: min(measured) for name, measured in times.items()}
    bare, library = best["bare"], best["library"] - best["bare"]
    note = f"bare {bare:.1f} ms; modules of the standard library alone {library:.1f} ms more"
    for name, since, limit in (
        ("import", "bare", 30),
        ("already-answered", "import", 5),
        ("not-drawn", "import", 5),
        ("queued", "", 40),
    ):
        title = f"CPU of a tool: {name}, " + (f"over {since}" if since else "whole process")
        spread = max(times[name]) / best[name] - 1
        yield Measurement(title, best[name] - best.get(since, 0.0), None, "ms", limit, spread, note)


def tools(url: str, folder: Path) -> Iterator[Command]:
    """Yield a tool for each outcome, with the state in which it has that outcome."""
    run = folder / "run"

    def code(policy: str, rest: str = ANSWER) -> str:
        return TOOL.format(key=public_hex(KEY), policy=policy, url=url, state=str(run)) + rest

    Command(code(EVERY_ROUND, CONSENT + "assert client.prefetch()\n")).milliseconds()
    queued = Command(code(EVERY_ROUND), "queued", run.rename(folder / "ready"), run)
    queued.milliseconds()
    yield queued
    yield Command(code(EVERY_ROUND), "already-answered", run.rename(folder / "answered"), run)
    first = [sys.executable, "-c", code(ONE_ROUND, CONSENT + ANSWER)]
    while subprocess.check_output(first, text=True).strip() != "not-drawn":
        shutil.rmtree(run)
    yield Command(code(ONE_ROUND), "not-drawn", run.rename(folder / "undrawn"), run)


if __name__ == "__main__":
    for measurement in measurements():
        print(measurement.line())
