"""Plant small faults in the privacy core and the estimators, and list those that no test sees.

    python tests/bench/mutate.py [--most N] [--seed S] [--only WORD]

Each fault is planted alone, in a copy of the sources, never in the work tree; the tests that belong
to its file run until one fails or time is up. A fault that all of them pass is a survivor. Those
that change nothing that anyone could see are listed below with the reason; exit code 1 where there
is another. With --most, so many are chosen by chance: the same for the same seed and sources. On
two processors a fault takes 3.8 seconds, and all 1,600 of them an hour and three quarters.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measure import Measurement
from tests.bench.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("client", "server", "shared", "simulations")
MOST_IN_BENCH = 100  # in `./run bench --long`

# Sources, and the tests that belong to them: folders, files, patterns. Where nothing fits a
# pattern any more, the run ends with an error.
SHARED = ("tests/shared",)
TARGETS = {
    "shared/deniable/shared/privacy/**/*.py": SHARED,
    "shared/deniable/shared/survey/*.py": SHARED,
    "shared/deniable/shared/envelope.py": SHARED,
    "client/deniable/client/state/ledger.py": (
        "tests/client/test_ledger*",
        "tests/client/test_st*",
    ),
    "server/deniable/server/estimation/**/*.py": ("tests/server/estimation",),
    "server/deniable/server/intake/tally.py": ("tests/server/test_tally*", "tests/server/test_w*"),
    "server/deniable/server/intake/commit.py": (
        "tests/server/test_w*",
        "tests/server/test_ingest*",
    ),
}

# Survivors that are the same program: the file, its changed line, and why no test can see it.
BEGINNING = "where a search begins that goes on until it is certain"
SCALE = "the number of reports scales what is compared, and so does not change which is least"
DIGITS = "more digits than are kept"
PROOF = (
    "return (larger << PROOF_PRECISION < "
    "exp_interval(*epsilon.ratio, PROOF_PRECISION).low * smaller)"
)
EQUIVALENT = {
    ("thresholds.py", "FIRST_PRECISION = (191)"): BEGINNING,
    ("thresholds.py", "FIRST_PRECISION = (193)"): BEGINNING,
    (
        "thresholds.py",
        PROOF,
    ): "whole numbers of 384 bits that would have to be equal, and e^ε is no ratio",
    (
        "__init__.py",
        "return min(laplace, Ternary(epsilon), key=lambda table: table.worst_variance((2)))",
    ): SCALE,
    (
        "__init__.py",
        "return min(designs, key=lambda design: design.predicted_error((2)))",
    ): SCALE,
    ("mechanism.py", "context = Context(prec=(59))"): DIGITS,
    ("mechanism.py", "context = Context(prec=(61))"): DIGITS,
    ("local_laplace.py", "VALUE_BITS = (95)"): DIGITS,
    ("local_laplace.py", "VALUE_BITS = (97)"): DIGITS,
    (
        "consistent.py",
        "positive = int(np.count_nonzero((descending >= excess)))",
    ): "a share that equals the excess becomes 0 either way, and leaves the excess as it is",
    ("bounded_mean.py", "nearest = math.log(-below[0] / total / (1001))"): BEGINNING,
    ("bounded_mean.py", "nearest = math.log(-below[0] / total / (999))"): BEGINNING,
}


@dataclass(frozen=True)
class Fault:
    file: str
    tests: tuple[str, ...]
    mutant: Mutant

    @property
    def key(self) -> tuple[str, str]:
        return Path(self.file).name, self.mutant.after

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.mutant.line}\n    - {self.mutant.before}\n    + {self.mutant.after}"
        )


def faults(only: str = "") -> Iterator[Fault]:
    for pattern, tests in TARGETS.items():
        for path in sorted(_found(pattern)):
            file = str(path.relative_to(ROOT))
            if only in file:
                named = tuple(str(t.relative_to(ROOT)) for each in tests for t in _found(each))
                for mutant in mutants(path.read_text("utf-8")):
                    yield Fault(file, (*sorted(named), file), mutant)


def survivors(chosen: Sequence[Fault]) -> Iterator[Fault]:
    """In the order of `chosen`; one copy of the sources for each processor."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        copies = SimpleQueue[Copy]()
        for number in range(os.cpu_count() or 1):
            copies.put(Copy(Path(folder) / str(number)))

        def survives(fault: Fault) -> bool:
            copy = copies.get()
            try:
                return copy.survived(fault)
            finally:
                copies.put(copy)

        for fault, lives in zip(chosen, pool.map(survives, chosen), strict=True):
            if lives:
                yield fault


class Copy:
    """Of all sources and tests. Without a fault, the tests of a file are seen to pass first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._patience = folder, dict[tuple[str, ...], float]()
        for part in (*PARTS, "tests"):
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        self._time = 10**9  # of the last change: Python compares whole seconds, and each is another

    def survived(self, fault: Fault) -> bool:
        if fault.tests not in self._patience:
            begin = time.monotonic()
            if not self._passes(fault.tests, 600):
                raise SystemExit(f"{' '.join(fault.tests)} fail without any fault")
            self._patience[fault.tests] = 10 + 4 * (time.monotonic() - begin)
        file = self._folder / fault.file
        whole = file.read_text("utf-8")
        self._write(file, fault.mutant.source)
        try:
            return self._passes(fault.tests, self._patience[fault.tests])
        finally:
            self._write(file, whole)

    def _write(self, file: Path, source: str) -> None:
        file.write_text(source, "utf-8")
        self._time += 2
        os.utime(file, (self._time, self._time))

    def _passes(self, tests: tuple[str, ...], patience: float) -> bool:
        """Its own folders go before the work tree's, which an editable install has on the path."""
        path = os.pathsep.join(str(self._folder / part) for part in PARTS)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not long", "-p", "no:xdist"]
        running = subprocess.Popen(
            [*command, *tests], cwd=self._folder, env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return running.wait(patience) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # with all that its tests have started
            running.wait()


def _found(pattern: str) -> list[Path]:
    if found := sorted(ROOT.glob(pattern)):
        return found
    raise SystemExit(f"mutate.py: nothing is at {pattern} any more; say where it went")


def chosen_faults(most: int | None, seed: int, only: str = "") -> tuple[list[Fault], int]:
    """Those to plant, and how many there are; the listed ones are the same program."""
    every = list(faults(only))
    fresh = [fault for fault in every if fault.key not in EQUIVALENT]
    if most is None or most >= len(fresh):
        return fresh, len(every)
    return random.Random(seed).sample(fresh, most), len(every)


def measurements() -> Iterator[Measurement]:
    """Other ones each day, so that in time all of them are tried."""
    begin, seed = time.monotonic(), datetime.now(UTC).toordinal()
    chosen, every = chosen_faults(MOST_IN_BENCH, seed)
    alive = list(survivors(chosen))
    took = time.monotonic() - begin
    note = f"{len(chosen)} of {every} planted with --seed {seed} in {took:.0f} s"
    yield Measurement(
        "mutants", len(alive), None, "survivors", 0, note="; ".join([note, *map(str, alive)])
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults, and list those that no test sees.")
    parser.add_argument("--most", type=int, metavar="N", help="so many at most, chosen by chance")
    parser.add_argument("--seed", type=int, default=1, help="of that choice (default %(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="only files with this word")
    asked, begin, alive = parser.parse_args(), time.monotonic(), 0
    chosen, every = chosen_faults(asked.most, asked.seed, asked.only)
    print(f"planting {len(chosen)} of {every} faults", flush=True)
    for fault in survivors(chosen):
        alive += 1
        print(fault, flush=True)
    print(f"{alive} of {len(chosen)} survived, in {time.monotonic() - begin:.0f} s")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
