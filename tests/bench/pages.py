"""CPU time of a survey's page, from request to response, with many options and with many rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from deniable.server.http.context import COOKIE
from deniable.server.store import PublishedSurvey, RoundTally
from tests.bench.measure import ROUNDS, Measurement
from tests.server.surveys import BIT, EACH_KIND, choice, survey
from tests.server.world import World, world

NOW, LAST = datetime(2040, 1, 1, tzinfo=UTC), date(2039, 12, 1)
REPORTS = 20_000
MAX_KB = 300
ASKED = {  # pages: questions, days, view, and the limit in milliseconds
    "1,024 options": (choice(1_024, None, epsilon="2"), 200, "", 150),
    "three questions with trends": (EACH_KIND, 200, "", 300),
    "a bit by week": (BIT, 365, "?by=week", 100),
    "three questions by week": (EACH_KIND, 365, "?by=week", 100),
}
LISTED, MAX_LIST_MS = 200, 150


def measurements() -> Iterator[Measurement]:
    # all rounds are final; without `steps`, each request would also release the rounds' reports
    with TemporaryDirectory() as folder, world(Path(folder) / "data", NOW, steps=True) as here:
        here.client.get("/")  # compile the templates
        for words, (questions, days, view, limit) in ASKED.items():
            published = filled(here, questions, f"of-{len(questions)}-{days}", days)
            name = f"the page of {words} over {days} rounds"
            yield from page(here, f"/surveys/{published.id}{view}", name, limit)
        for number in range(LISTED):
            filled(here, BIT, f"listed-{number}", 30)
        while "being estimated" in signed_in(here).get("/").text:
            pass
        yield from page(here, "/", f"the list of {LISTED} surveys of 30 rounds", MAX_LIST_MS)


def signed_in(here: World) -> Any:  # Any: as in World
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    return client


def page(here: World, address: str, name: str, limit: float) -> Iterator[Measurement]:
    client, size = signed_in(here), 0

    def get() -> None:
        nonlocal size
        size = len(client.get(address).data)

    def milliseconds() -> float:
        begun = time.process_time()
        get()
        return 1e3 * (time.process_time() - begun)

    first, *taken = (milliseconds() for _ in range(ROUNDS + 1))
    spread = max(taken) / min(taken) - 1
    yield Measurement(name, min(taken), None, "ms", limit, spread, f"{first:.0f} at first")
    yield Measurement(f"{name}, its size", size / 1e3, None, "KB", MAX_KB)


def filled(here: World, questions: str, name: str, days: int) -> PublishedSurvey:
    opens = LAST - timedelta(days=days - 1)
    published = here.publish(
        survey(questions, name=name, round="day", opens=opens, closes=LAST, minimum_reports=1)
    )
    random, asked = np.random.default_rng(days), published.survey
    sizes = [question.mechanism.cells for question in asked.questions]
    with here.store.transaction() as transaction:
        for number in range(asked.first_round, asked.last_round + 1):
            cells = [random.multinomial(REPORTS, [1 / size] * size) for size in sizes]
            transaction.add(published.sequence, RoundTally(number, REPORTS, np.concatenate(cells)))
    return published
