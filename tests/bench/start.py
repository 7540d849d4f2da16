"""Start-up times of help and lists, compared with the bare interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.measure import ROUNDS, Measurement, seconds

COMMAND = str(Path(sys.executable).with_name("deniable"))


def measurements() -> Iterator[Measurement]:
    yield over_bare("deniable --help, over the bare interpreter", [COMMAND, "--help"], 150)
    with TemporaryDirectory() as folder:
        file, data = f"{folder}/survey.toml", f"{folder}/data"
        for words in (["survey", "new", file], ["survey", "publish", file, "--data", data]):
            subprocess.run([COMMAND, *words], check=True, capture_output=True)
        for verb in ("survey", "token", "keys"):
            words = [verb, "list", "--data", data]
            yield over_bare(f"deniable {verb} list, over the bare", [COMMAND, *words], 150)
            words = [verb, "list", "--help"]
            yield over_bare(f"deniable {verb} list --help, over the bare", [COMMAND, *words], 150)


def over_bare(name: str, command: list[str], limit: float) -> Measurement:
    ours, bare = [], []
    for _ in range(2 * ROUNDS):
        ours.append(run(command))
        bare.append(run([sys.executable, "-c", "pass"]))
    best = min(ours)
    return Measurement(
        name,
        (best - min(bare)) * 1000,
        None,
        "ms",
        limit,
        (max(ours) - best) / best,
        f"bare interpreter {min(bare) * 1000:.0f} ms, ratio {best / min(bare):.1f}",
    )


def run(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
