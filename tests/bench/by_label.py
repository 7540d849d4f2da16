"""Time for results of a million reports with 64 label values, relative to the time without labels.

The time of the whole command is measured. The limit applies to the ratio within one run.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deniable.server.store import NO_LABELS, LabelCounts, PublishedSurvey, RoundTally
from tests.bench.measure import Measurement
from tests.bench.rounds import NOW
from tests.command import DENIABLE
from tests.server.surveys import EACH_KIND, survey
from tests.server.world import World, world
from tests.survey_texts import label

VALUES, REPORTS, TIMES, LIMIT = 64, 1_000_000, 3, 2.0


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name, world(Path(name) / "data", NOW) as here:
        surveys = (
            filled(here, label("version", values=[f"v{n}" for n in range(VALUES)])),
            filled(here, ""),
        )
        here.writer.stop()
        pairs = [[seconds(here, published) for published in surveys] for _ in range(TIMES)]
    longer, shorter = (min(times) for times in zip(*pairs, strict=True))
    spread = (max(pair[0] for pair in pairs) - longer) / longer
    title = f"results of {REPORTS:,} reports x {VALUES} labels, as a multiple of none"
    note = f"{longer:.2f} s instead of {shorter:.2f} s"
    yield Measurement(title, longer / shorter, None, "times", LIMIT, spread, note)


def seconds(here: World, published: PublishedSurvey) -> float:
    command = [*DENIABLE, "results", published.name, "--data", str(here.store.data), "--json"]
    begun = time.monotonic()
    results = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    taken = time.monotonic() - begun
    assert len(results["rounds"][0].get("labels", ())) == (VALUES if published.survey.labels else 0)
    return taken


def filled(here: World, labels: str) -> PublishedSurvey:
    asked = survey(
        EACH_KIND + labels, name="labelled" if labels else "plain", round="once",
        opens=date(2039, 11, 1), closes=date(2039, 11, 30), minimum_reports=1,
    )  # fmt: skip
    published, generator = here.publish(asked), np.random.default_rng(1)
    sizes = [question.mechanism.cells for question in asked.questions]
    parts = [
        [
            np.array([REPORTS // VALUES]),
            *(generator.multinomial(REPORTS // VALUES, [1 / n] * n) for n in sizes),
        ]
        for _ in range(VALUES)
    ]
    counts = {(0, bytes([n])): np.hstack(part) for n, part in enumerate(parts)}
    whole = np.sum([*counts.values()], axis=0)
    by_label = LabelCounts(counts, published.label_key) if labels else NO_LABELS
    tally = RoundTally(0, int(whole[0]), whole[1:], by_label)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, tally)
    return published
