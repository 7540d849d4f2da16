"""Run the benchmarks, each against a baseline in the same run, and report exceeded limits.

    ./run bench            benchmarks that take seconds
    ./run bench --long     also those that take minutes, after the long tests
    ./run bench --only W   only measurements with W in their name

Numbers from one machine are noisy, so read the ratios. Each figure is the best of several
alternating rounds; the spread of the rounds is next to it. The exit code is 1 if a limit is
exceeded.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measure import Measurement

SHORT = (
    "randomize",
    "timing",
    "tally",
    "start",
    "tool",
    "answer",
    "ingest",
    "limits",
    "written",
    "settling",
    "sealed",
    "surveys",
    "rounds",
    "by_label",
    "pages",
    "population",
    "tables",
    "statements",
    "vectors",
    "texts",
)
LONG = (
    "backend",
    "coverage",
    "distribution",
    "alternatives",
    "peers",
    "mutate",
    "ask_one",
    "archive",
    "purging",
    "soak",
)


def measurements(names: tuple[str, ...]) -> Iterator[Measurement]:
    for name in names:
        yield from importlib.import_module(f"tests.bench.{name}").measurements()


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench", description="Measure against baselines.")
    parser.add_argument("--long", action="store_true", help="also what takes minutes")
    parser.add_argument("--only", default="", metavar="WORD", help="only names with this word")
    chosen = parser.parse_args()
    names = tuple(name for name in SHORT + (LONG if chosen.long else ()) if chosen.only in name)
    if chosen.long and not chosen.only:
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "long"], check=True)
    exceeded = 0
    for measurement in measurements(names):
        print(measurement.line(), flush=True)
        exceeded += not measurement.holds
    print("every limit holds" if not exceeded else f"{exceeded} limits exceeded")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
