"""Plant small faults in the privacy core and the estimators, and list those that no test detects.

    python tests/bench/mutate.py [--most N] [--seed S] [--only WORD]
    python tests/bench/mutate.py --listed [--only WORD]

Each fault is planted alone, in a copy of the sources and never in the work tree. The tests of its
file run until one fails or the time is up. A fault that no test detects is a survivor, and the exit
code is 1 if there is one. Faults without any effect are not planted; `mutants.py` lists them with
the reason.

--most selects N faults at random, always the same for the same seed and sources. On two busy
processors, 150 faults took nine minutes, so all 1,800 take an hour and three quarters.

--listed plants the faults of `faults.toml` instead, in every part and in JavaScript; 140 took half
an hour. A listed fault that gives a reason in `survives` is planted too, and must survive.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measure import Measurement
from tests.bench.mutants import EQUIVALENT, Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("client", "server", "shared", "simulations")
MAX_IN_BENCH = 100  # in `./run bench --long`
LISTED = {line for lines in EQUIVALENT.values() for line in lines}
Result = TypeVar("Result")

# Sources, and the tests of each: folders, files, patterns. The run ends with an error if a pattern
# no longer matches anything.
SHARED = ("tests/shared",)
TARGETS = {
    "shared/deniable/shared/privacy/**/*.py": SHARED,
    "shared/deniable/shared/survey/**/*.py": SHARED,
    "shared/deniable/shared/envelope.py": SHARED,
    "client/deniable/client/state/ledger.py": ("tests/client/test_[abls]*",),
    "server/deniable/server/estimation/**/*.py": ("tests/server/estimation",),
    "server/deniable/server/intake/tally.py": ("tests/server/test_tally*",),
    "server/deniable/server/intake/commit.py": ("tests/server/test_tally*", "tests/server/test_w*"),
}

# For the listed faults: all tests of a part.
LIST = Path(__file__).with_name("faults.toml")
PACKAGES = {
    "client": ("tests/client", "tests/contract", "tests/conformance"),
    "javascript": ("tests/conformance", "tests/contract"),
    "server": ("tests/server",),
    "shared": ("tests/shared", "tests/contract"),
    "simulations": ("tests/simulations",),
}
NAMED_SECONDS, PACKAGE_SECONDS = 300.0, 1_800.0
FAILED = re.compile(rb"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """Fault of `faults.toml`: a text that occurs exactly once in the sources of one part."""

    area: str
    part: str
    before: str
    after: str
    tests: tuple[str, ...]  # tests that should notice the fault
    survives: str = ""  # the reason why no test can notice it

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.part}, {self.area}\n    - {before}\n    + {after}"

    @property
    def file(self) -> str:
        """Return the file that contains the text.

        All files are searched, because code may move between files.
        """
        pattern = (
            "client/javascript/src/*.js" if self.part == "javascript" else f"{self.part}/**/*.py"
        )
        texts = {file: (ROOT / file).read_text("utf-8") for file in _found(pattern)}
        counts = {file: text.count(self.before) for file, text in texts.items()}
        return next((file for file, n in counts.items() if n == sum(counts.values()) == 1), "")


@dataclass(frozen=True)
class Fault:
    file: str
    tests: tuple[str, ...]
    mutant: Mutant

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.mutant.line}\n    - {self.mutant.before}\n    + {self.mutant.after}"
        )


def faults(only: str = "") -> Iterator[Fault]:
    for pattern, tests in TARGETS.items():
        named = tuple(node_id for test in tests for node_id in _found(test))
        for file in _found(pattern):
            if only in file:
                for mutant in mutants((ROOT / file).read_text("utf-8")):
                    yield Fault(file, named, mutant)


def stale() -> set[str]:
    """Return the listed lines that are no longer mutants, because the code has changed.

    >>> stale()
    set()
    """
    return LISTED - {fault.mutant.after for fault in faults()}


def survivors(chosen: Sequence[Fault]) -> Iterator[Fault]:
    """Yield the survivors in the order of `chosen`, with one copy of the sources per processor."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        copies = SimpleQueue[Copy]()
        for number in range(os.cpu_count() or 1):
            copies.put(Copy(Path(folder) / str(number)))

        def on_a_copy(work: Callable[[Copy], Result]) -> Result:
            copy = copies.get()
            try:
                return work(copy)
            finally:
                copies.put(copy)

        def patience_with(tests: tuple[str, ...]) -> float:
            return on_a_copy(lambda copy: copy.patience_with(tests))

        sets = list(dict.fromkeys(fault.tests for fault in chosen))
        patience = dict(zip(sets, pool.map(patience_with, sets), strict=True))

        def survives(fault: Fault) -> bool:
            return on_a_copy(lambda copy: copy.survived(fault, patience[fault.tests]))

        yield from compress(chosen, pool.map(survives, chosen))


class Copy:
    """Copy of all sources and tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in (*PARTS, "tests"):
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        # modification time; each write gets another one, since Python compares whole seconds
        self._time = 10**9

    def patience_with(self, tests: tuple[str, ...]) -> float:
        """Return a time limit in seconds, after checking that these tests pass without a fault."""
        begin = time.monotonic()
        if not self._passes(tests, 600):
            raise SystemExit(f"{' '.join(tests)} fail without any fault")
        return 10 + 4 * (time.monotonic() - begin)

    def survived(self, fault: Fault, patience: float) -> bool:
        file = self._folder / fault.file
        whole = file.read_text("utf-8")
        self._write(file, fault.mutant.source)
        try:
            return self._passes((fault.file, *fault.tests), patience)
        finally:
            self._write(file, whole)

    def caught_by(self, fault: Listed) -> str:
        """Return the first test that notices a listed fault, or "" if none does."""
        file = self._folder / fault.file
        whole = file.read_text("utf-8")
        self._write(file, whole.replace(fault.before, fault.after))
        try:
            doctests = (fault.file,) if fault.file.endswith(".py") else ()
            named = self._failure((*doctests, *fault.tests), NAMED_SECONDS)
            return named or self._failure(PACKAGES[fault.part], PACKAGE_SECONDS)
        finally:
            self._write(file, whole)

    def check_without_fault(self, listed: Sequence[Listed]) -> None:
        tests = tuple(dict.fromkeys(test for fault in listed for test in fault.tests))
        if failed := self._failure(tests, PACKAGE_SECONDS):
            raise SystemExit(f"{failed} fails without any fault")

    def _write(self, file: Path, source: str) -> None:
        file.write_text(source, "utf-8")
        self._time += 2
        os.utime(file, (self._time, self._time))

    def _passes(self, tests: tuple[str, ...], patience: float) -> bool:
        return not self._failure(tests, patience)

    def _failure(self, tests: tuple[str, ...], patience: float) -> str:
        """Return the first test that fails, or "" if all pass.

        The copy's folders come before those of the work tree, which an editable install puts on the
        path. The test that failed last time runs first.
        """
        path = os.pathsep.join(str(self._folder / part) for part in PARTS)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--ff",
            "-m",
            "not long",
            "-p",
            "no:xdist",
        ]
        with tempfile.TemporaryFile() as output:
            running = subprocess.Popen(
                [*command, *tests], cwd=self._folder, env={**os.environ, "PYTHONPATH": path},
                stdout=output, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                if running.wait(patience) == 0:
                    return ""
            except subprocess.TimeoutExpired:
                return f"a time limit of {patience:.0f} s"
            finally:
                with suppress(ProcessLookupError):
                    # including all processes that its tests started
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            output.seek(0)
            failed = FAILED.findall(output.read())
        return failed[0].decode() if failed else "pytest, which ran no test"


def listed_faults(only: str = "") -> list[Listed]:
    """Return the listed faults; exit unless each text occurs once and each test exists.

    >>> len(listed_faults()) > 150
    True
    """
    tables = tomllib.loads(LIST.read_text("utf-8"))["fault"]
    listed = [Listed(**{**table, "tests": tuple(table["tests"])}) for table in tables]
    files = [fault.file for fault in listed]
    if stale := [str(fault) for fault, file in zip(listed, files, strict=True) if not file]:
        raise SystemExit("\n".join(["faults.toml: not once in the sources:", *stale]))
    named = {test.partition("::")[0] for fault in listed for test in fault.tests}
    if missing := sorted(test for test in named if not (ROOT / test).exists()):
        raise SystemExit("\n".join(["faults.toml: no such tests:", *missing]))
    texts = [f"{file} {fault.area}" for fault, file in zip(listed, files, strict=True)]
    return [fault for fault, text in zip(listed, texts, strict=True) if only in text]


def plant_listed(only: str = "") -> int:
    """Plant the listed faults one at a time; return the number of unexpected outcomes."""
    listed, unexpected = listed_faults(only), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder) / "copy")
        copy.check_without_fault(listed)
        for number, fault in enumerate(listed, 1):
            begin, caught = time.monotonic(), copy.caught_by(fault)
            unexpected += bool(caught) == bool(fault.survives)
            outcome = f"caught by {caught}" if caught else f"SURVIVED ({fault.survives or 'why?'})"
            took = time.monotonic() - begin
            print(f"{number}/{len(listed)} {fault}\n    {outcome}, {took:.0f} s", flush=True)
    return unexpected


def _found(pattern: str) -> list[str]:
    if found := sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)):
        return found
    raise SystemExit(f"mutate.py: nothing is at {pattern} any more; say where it went")


def chosen_faults(most: int | None, seed: int, only: str = "") -> tuple[list[Fault], int]:
    """Return the faults to plant, and the number of candidates; equivalent mutants are excluded."""
    every = [fault for fault in faults(only) if fault.mutant.after not in LISTED]
    if most is None or most >= len(every):
        return every, len(every)
    return random.Random(seed).sample(every, most), len(every)


def measurements() -> Iterator[Measurement]:
    """Measure another sample each day, so that every fault is tried eventually."""
    begin, seed = time.monotonic(), datetime.now(UTC).toordinal()
    chosen, every = chosen_faults(MAX_IN_BENCH, seed)
    alive = list(survivors(chosen))
    took = time.monotonic() - begin
    note = f"{len(chosen)} of {every} planted with --seed {seed} in {took:.0f} s"
    yield Measurement(
        "mutants", len(alive), None, "survivors", 0, note="; ".join([note, *map(str, alive)])
    )
    yield Measurement("listed faults", plant_listed(), None, "surprises", 0)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults, and list those that no test sees.")
    parser.add_argument("--most", type=int, metavar="N", help="so many at most, chosen by chance")
    parser.add_argument("--seed", type=int, default=1, help="of that choice (default %(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="only files with this word")
    parser.add_argument("--listed", action="store_true", help="plant those of faults.toml")
    asked, begin, alive = parser.parse_args(), time.monotonic(), 0
    if asked.listed:
        return int(plant_listed(asked.only) > 0)
    chosen, every = chosen_faults(asked.most, asked.seed, asked.only)
    print(f"planting {len(chosen)} of {every} faults", flush=True)
    for fault in survivors(chosen):
        alive += 1
        print(fault, flush=True)
    print(f"{alive} of {len(chosen)} survived, in {time.monotonic() - begin:.0f} s")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
