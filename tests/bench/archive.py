"""Archive of 100 million reports: written, then recounted in one process and by workers of Dask.

The population generators draw the symbols of a million people at a time. The archive's own writer
shuffles and writes them. Each step runs in a process of its own, so that its memory can be
measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from deniable.server.archive import write_round
from deniable.server.archive.round_files import Reports
from deniable.server.parallel import processors
from deniable.server.store import PublishedSurvey
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.survey.document import Survey, parse_toml, render_document, survey_id
from deniable.shared.survey.keys import sign
from deniable.simulations.population import fixed, whole_people
from tests.bench.measure import Measurement
from tests.server.surveys import KEY, PUBLIC
from tests.survey_texts import ALWAYS, bit, choice, number, survey_text

REPORTS, AT_ONCE = 100_000_000, 1_000_000
SURVEY = survey_text(
    bit() + number(mechanism="local-laplace", grid=64) + choice(5, None), round="once", **ALWAYS
)
MEGABYTES = 600  # limit for any one process


class Ran(NamedTuple):
    output: bytes
    seconds: float
    megabytes: float  # peak of the largest process


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name:
        written = ran("-m", "tests.bench.archive", name, str(REPORTS))
        yield speed("written", written, 2_000)
        yield memory("writing it", written)
        here, there = (recounted(name, where) for where in ("local", "dask"))
        yield speed("counted again in one process", here, 1_000)
        yield memory("counting it in one process", here)
        yield speed(f"counted again by Dask's {processors()} workers", there, 3, here)
        yield memory("counting it by Dask", there)
        same = here.output == there.output and reports_in(here.output) == REPORTS
        yield Measurement("bytes of the two that differ", float(not same), None, "", 0)


def speed(what: str, run: Ran, limit: float, baseline: Ran | None = None) -> Measurement:
    """Return the time per report, compared with another run of the same work if one is given."""
    theirs = None if baseline is None else 1e9 * baseline.seconds / REPORTS
    note = f"{REPORTS / run.seconds:,.0f} reports a second, {run.seconds:.1f} s with its start"
    ours = 1e9 * run.seconds / REPORTS
    return Measurement(f"{REPORTS:,} reports, {what}", ours, theirs, "ns", limit, note=note)


def memory(what: str, run: Ran) -> Measurement:
    return Measurement(f"memory for {what}", run.megabytes, None, "MB", MEGABYTES)


def recounted(archive: str, where: str) -> Ran:
    return ran("-m", "deniable", "recount", archive, "--on", where, "--json")


def ran(*arguments: str) -> Ran:
    """Run a step; `wait4` returns the memory of the process and of the children it waited for."""
    begin = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Ran(output, time.perf_counter() - begin, used.ru_maxrss / 1_024)


def reports_in(output: bytes) -> int:
    (survey,) = json.loads(output)["surveys"]
    return int(survey["rounds"][0]["reports"])


def write(archive: Path, reports: int) -> None:
    survey = parse_toml(SURVEY)
    document = render_document(survey)
    published = PublishedSurvey(
        1, survey_id(document), document, sign(document, KEY), PUBLIC, closed=None, survey=survey
    )
    write_round(published, 0, reports, crowd(survey, reports), archive)


def crowd(survey: Survey, reports: int) -> Iterator[Reports]:
    generator = np.random.default_rng(20261119)
    for first in range(0, reports, AT_ONCE):
        people = min(AT_ONCE, reports - first)
        columns = [symbols(question.mechanism, people, generator) for question in survey.questions]
        yield np.stack(columns, axis=1)


def symbols(mechanism: Mechanism, people: int, generator: np.random.Generator) -> Reports:
    held = whole_people([1.0 + n for n in range(mechanism.answers)], people)
    (counts,) = fixed(mechanism, held, 1, generator).counts
    return generator.permuted(np.repeat(np.arange(len(counts), dtype=np.uint8), counts))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
