"""CPU time of the results of a survey with many rounds, for the first and for a repeated request.

The process is in the state of a server that has been running: its first search for forged reports
has loaded what the estimates need, and the garbage collector ignores these objects.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deniable.server.alerts.monitor import Monitor
from deniable.server.http.context import parts_of
from deniable.server.results import EstimateCache, json_chunks, select_rounds, stored_estimates
from deniable.server.store import PublishedSurvey, RoundTally
from tests.bench.measure import Measurement
from tests.server.surveys import EACH_KIND, survey
from tests.server.world import World, world

NOW, LAST, REPORTS = datetime(2040, 1, 1, tzinfo=UTC), date(2039, 12, 1), 10_000


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name, world(Path(name) / "data", NOW) as here:
        for rounds, first, again in ((200, 50, 8), (9_900, 110, 15)):
            published = filled(here, rounds)
            Monitor(parts_of(here.app)).check()
            gc.freeze()
            yield asked(here, published, "the first time", 1, first)
            yield asked(here, published, "asked for again", 9, again)


def asked(
    here: World, published: PublishedSurvey, when: str, times: int, limit: float
) -> Measurement:
    """Measure the time from reading the store to the bytes of the response."""
    size, cache = 0, EstimateCache()

    def milliseconds() -> float:
        nonlocal size
        begun = time.thread_time()
        selection = select_rounds(published.survey, NOW)
        estimates = stored_estimates(here.store, published, NOW, selection, cache)
        size = sum(map(len, json_chunks(estimates.header, estimates.rounds())))
        return 1e3 * (time.thread_time() - begun)

    taken = [milliseconds() for _ in range(times)]
    spread = (max(taken) - min(taken)) / min(taken)
    name = f"results of {published.survey.rounds:,} rounds of three questions, {when}"
    return Measurement(name, min(taken), None, "ms", limit, spread, f"{size:,} bytes")


def filled(here: World, rounds: int) -> PublishedSurvey:
    """Publish a survey with reports in each round."""
    opens = LAST - timedelta(days=rounds - 1)
    published = here.publish(
        survey(EACH_KIND, name=f"of-{rounds}", round="day", opens=opens, closes=LAST,
               minimum_reports=1)
    )  # fmt: skip
    generator, asked = np.random.default_rng(rounds), published.survey
    sizes = [question.mechanism.cells for question in asked.questions]
    with here.store.transaction() as transaction:
        for number in range(asked.first_round, asked.last_round + 1):
            cells = [generator.multinomial(REPORTS, [1 / size] * size) for size in sizes]
            transaction.add(published.sequence, RoundTally(number, REPORTS, np.concatenate(cells)))
    return published
