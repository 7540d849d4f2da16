"""Rounds with tallies, for the tests of results and pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt

from deniable.server.results.annotations import parse_annotation
from deniable.server.store import PublishedSurvey, RoundTally, Store
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question, ShareQuestion
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.text import Text
from deniable.shared.survey.kinds.vector import Vector
from deniable.simulations.population import fixed
from tests import survey_texts as texts
from tests.server.released import release_all
from tests.server.surveys import survey, until_spring
from tests.server.world import World

NOW = datetime(2027, 2, 10, 12, tzinfo=UTC)
FIRST_ROUND = 683  # December 2026


def add_round(
    store: Store, published: PublishedSurvey, number: int, people: Sequence[Sequence[int]]
) -> None:
    """Add a round's tally, drawn from its exact distribution, and release it.

    For each question, `people` has the number per answer.
    """
    rng = np.random.default_rng(number)
    parts = zip(published.survey.questions, people, strict=True)
    cells = np.concatenate([draw_cells(question, held, rng) for question, held in parts])
    with store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(number, sum(people[0]), cells))
    release_all(store)


def draw_cells(
    question: Question, held: Sequence[int], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw counts with the distribution of reports.

    Each answer adds a multinomial; unary encoding adds binomials.
    """
    mechanism = question.mechanism
    assert not isinstance(question, Vector), "a vector has sums instead of counts"
    if isinstance(question, Number):
        rows = [np.array(row) / ONE for row in question.mechanism.rows]
    elif isinstance(question, Text):
        return np.asarray(fixed(question.mechanism, held, 1, rng).counts[0])
    else:
        assert isinstance(question, ShareQuestion)
        if mechanism.name == "unary":
            return _unary(question.mechanism, np.array(held), rng)
        rows = [_row(question.mechanism, answer) for answer in range(len(held))]
    draws = [rng.multinomial(n, row / row.sum()) for n, row in zip(held, rows, strict=True)]
    counts: npt.NDArray[np.int64] = np.sum(draws, axis=0, dtype=np.int64)
    return counts


def _row(design: SupportDesign, answer: int) -> npt.NDArray[np.float64]:
    row = np.full(design.options, design.lie / ONE)
    row[answer] = design.keep / ONE
    return row


def _unary(
    design: SupportDesign, held: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    true = rng.binomial(held, design.keep / ONE)
    counts: npt.NDArray[np.int64] = true + rng.binomial(held.sum() - held, design.lie / ONE)
    return counts


def grid_steps(published: PublishedSurvey) -> int:
    """Return the grid steps of the question `minutes`."""
    question = published.survey.questions[1]
    assert isinstance(question, Number)
    return question.mechanism.steps


def spread(people: int, steps: int, centre: float) -> list[int]:
    """Return people spread around a position of a grid."""
    weights = np.exp(-(((np.arange(steps + 1) / steps - centre) / 0.2) ** 2))
    held = np.floor(people * weights / weights.sum()).astype(int)
    held[0] += people - held.sum()
    return [int(count) for count in held]


def fill(here: World, asked: Survey | None = None) -> PublishedSurvey:
    """Add three rounds. At NOW, the two newest still accept reports."""
    published = here.publish(asked or until_spring())
    steps = grid_steps(published)
    for number, people, yes in ((683, 20_000, 0.2), (684, 25_000, 0.15), (685, 4_000, 0.1)):
        crashed = round(people * yes)
        shares = [0.2, 0.5, 0.2, 0.08]
        browser = [round(share * people) for share in shares]
        held = (
            [people - crashed, crashed],
            spread(people, steps, 0.3 + (number - 683) / 20),
            [*browser, people - sum(browser)],
        )
        add_round(here.store, published, number, held)
    return published


# A daily survey of start times, with a slow release and its repair

RELEASES = {"2024-11-08": "3.0 released", "2024-11-13": "3.0.1 released"}
AFTER_GRACE = datetime(2024, 12, 31, 12, tzinfo=UTC)
PEOPLE_A_DAY, SEED = 1_500, 533


def start_times(here: World, seed: int = SEED, **changes: object) -> PublishedSurvey:
    """Add 21 days of 1,500 people whose mean start time is 4 s, then 6.5 s, then 4.2 s."""
    asked = texts.number(0, 20, name="seconds", unit="s", title="Seconds until the first screen")
    published = here.publish(
        survey(
            asked,
            name="start-time",
            title="How long does the app take to start?",
            looks="once",
            opens=date(2024, 10, 30),
            closes=date(2024, 11, 19),
            round="day",
            minimum_reports=100,
            **changes,
        )
    )
    (question,) = published.survey.questions
    assert isinstance(question, Number)
    rng = np.random.default_rng(seed)
    with here.store.transaction() as transaction:
        for day in range(published.survey.rounds):
            mean = 4.0 if day < 9 else 6.5 if day < 14 else 4.2
            seconds = np.minimum(rng.gamma(4.0, mean / 4, PEOPLE_A_DAY), 20)
            steps = question.mechanism.steps
            places = np.floor(seconds / 20 * steps + rng.random(PEOPLE_A_DAY)).astype(int)
            held = np.bincount(np.minimum(places, steps), minlength=steps + 1)
            cells = draw_cells(question, held.tolist(), rng)
            number = published.survey.first_round + day
            transaction.add(published.sequence, RoundTally(number, PEOPLE_A_DAY, cells))
    for released, words in RELEASES.items():
        here.store.annotate(published.sequence, parse_annotation(released, words))
    return published
