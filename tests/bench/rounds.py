"""Results of a survey with many rounds, in the application: the first time, and asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.bench.measure import Measurement, seconds
from tests.server.surveys import EACH_KIND, survey
from tests.server.world import World, world

NOW, LAST, REPORTS = datetime(2040, 1, 1, tzinfo=UTC), date(2039, 12, 1), 10_000


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name, world(Path(name) / "data", NOW) as here:
        for rounds, first, again in ((200, 2_000, 50), (9_900, 5_000, 100)):
            path = filled(here, rounds)
            yield asked(here, f"{path}/results", rounds, "the first time", 1, first)
            yield asked(here, f"{path}/results", rounds, "asked for again", 5, again)


def asked(here: World, path: str, rounds: int, when: str, times: int, limit: float) -> Measurement:
    headers = here.bearer("analyst")
    size = 0

    def get() -> None:
        nonlocal size
        answer = here.client.get(path, headers=headers)
        assert answer.status_code == 200
        size = len(answer.data)

    taken = [1e3 * seconds(get) for _ in range(times)]
    spread = (max(taken) - min(taken)) / min(taken)
    note = f"{size:,} bytes"
    name = f"results of {rounds:,} rounds of three questions, {when}"
    return Measurement(name, min(taken), None, "ms", limit, spread, note)


def filled(here: World, rounds: int) -> str:
    """The address of a survey with reports in each."""
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
            transaction.add(published.sequence, number, REPORTS, np.concatenate(cells))
    return f"/v1/surveys/{published.id}"
