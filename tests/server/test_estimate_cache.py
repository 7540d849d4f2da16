"""Estimate cache: it never returns an entry for other counts, and its size is bounded."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import pytest

from deniable.server.estimation.statements import Estimator, Reading, Statements
from deniable.server.results import EstimateCache, survey_results
from deniable.server.results import estimate_cache as module
from deniable.server.results.estimate_cache import (
    MAX_CELLS_PER_BATCH,
    ROWS_PER_ENTRY,
    Counts,
    batches,
)
from deniable.server.store import RoundTally
from deniable.shared.survey.kinds.base import Question
from tests.server.estimation.single import statements as expected_statements
from tests.server.surveys import choice, survey
from tests.server.world import World
from tests.survey_texts import bit


def values(made: Statements) -> list[list[float]]:
    table: list[list[float]] = made.table.tolist()
    return table


def test_the_cache_distinguishes_everything_that_estimates_depend_on() -> None:
    """It distinguishes even two mechanisms with the same name under the same question."""
    cache = EstimateCache()
    (one,) = survey(bit(epsilon="1")).questions
    (other,) = survey(bit(epsilon="2")).questions
    assert one.name == other.name
    cells = np.array([600, 400])
    asked = (
        (one, cells, 1_000, 0.95, False),
        (other, cells, 1_000, 0.95, False),
        (one, cells + 1, 1_000, 0.95, False),
        (one, cells, 1_001, 0.95, False),
        (one, cells, 1_000, 0.9, False),
        (one, cells, 1_000, 0.95, True),
    )
    made: list[list[list[float]]] = []
    for _ in range(2):
        made = [
            values(statement)
            for question, cells, reports, confidence, looks in asked
            for counts in [Counts(cells, reports, Reading(confidence, looks))]
            for statement in cache.statements(question, [counts])
        ]
        assert made == [values(expected_statements(*arguments)) for arguments in asked]
    assert len({str(arguments) for arguments in made}) == len(asked) == len(cache)


def test_the_cache_distinguishes_limits_by_confidence_and_statement() -> None:
    cache = EstimateCache()
    (question,) = survey(bit(epsilon="1")).questions
    kinds: list[tuple[float, Literal["like", "these"]]] = [(0.95, "like"), (0.9, "like")]
    kinds += [(0.95, "these"), (0.9, "these"), (0.95, "like")]
    made = [
        cache.limits(question, [Counts(np.array([600, 400]), 1_000, Reading(level))], about)
        for level, about in kinds
    ]
    lows = [float(low[0, 0]) for low, _ in made]
    assert len(set(lows)) == 4
    assert lows[0] == lows[-1]


def test_open_and_closed_rounds_with_the_same_counts_differ() -> None:
    (question,) = survey(bit(epsilon="1")).questions
    rounds = [
        Counts(np.array([500, 500]), 1_000, Reading(any_time=looks))
        for looks in (False, True, False)
    ]
    first, opened, again = map(values, EstimateCache().statements(question, rounds))
    assert first == again
    wanted = expected_statements(question, np.array([500, 500]), 1_000, looks=True)
    assert opened == values(wanted) != first


def test_an_open_round_without_an_estimate_does_not_change_another() -> None:
    """Even if the only report names an option, its share cannot be distinguished from zero."""
    (question,) = survey(choice(3, "k-randomized-response")).questions
    counts = [np.array([1, 0, 0]), np.array([50, 30, 20])]
    rounds = [Counts(cells, int(cells.sum()), Reading(any_time=True)) for cells in counts]
    assert list(map(values, EstimateCache().statements(question, rounds))) == [
        values(expected_statements(question, cells, int(cells.sum()), looks=True))
        for cells in counts
    ]


def test_batches_of_open_rounds_are_smaller() -> None:
    cells = MAX_CELLS_PER_BATCH // 16
    made = list(batches(range(40), lambda index: ((Reading(any_time=index % 2 == 1), 1),), cells))
    assert sorted(index for batch in made for index in batch) == list(range(40))
    assert {len(batch) for batch in made if batch[0] % 2} == {4}
    assert [len(batch) for batch in made if not batch[0] % 2] == [16, 4]


def test_an_oversized_entry_is_not_cached_and_evicts_no_other() -> None:
    cache, made = EstimateCache(max_rows=100), list[int]()

    def make(missing: list[int]) -> list[int]:
        made.extend(missing)
        return [sizes[index] for index in missing]

    sizes = [100 - ROWS_PER_ENTRY, 101 - ROWS_PER_ENTRY]
    for _ in range(2):
        assert cache.get(["fits", "does not"], make, float) == sizes
    assert made == [0, 1, 1]


def test_the_cache_is_bounded_and_evicts_the_least_recently_used() -> None:
    cache = EstimateCache(max_rows=10 * (ROWS_PER_ENTRY + 1))
    for number in range(1_000):
        cache.get(["kept", number], lambda missing: [1] * len(missing), float)
    assert len(cache) == 10
    cache.get(["kept", 995], lambda missing: pytest.fail(f"{missing} are not in the cache"), float)


def test_a_round_is_estimated_again_only_if_its_counts_or_state_change(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimated: list[int] = []
    estimator = module._estimator

    def recorded(question: Question, batch: Sequence[Counts]) -> Estimator:
        estimated.append(len(batch))
        return estimator(question, batch)

    monkeypatch.setattr(module, "_estimator", recorded)
    asked, cache = here.publish(survey(minimum_reports=1)), EstimateCache()
    running, over = datetime(2026, 12, 20, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
    tallies = [RoundTally(683, 5, np.array(cells)) for cells in ([2, 3], [3, 2])]
    for tally, now in ((tallies[0], running), (tallies[1], running), (tallies[0], over)):
        estimated.clear()
        first = survey_results(asked, [tally], now, 683, cache=cache)
        assert estimated == [1]
        assert survey_results(asked, [tally], now, 683, cache=cache) == first
        assert survey_results(asked, [tally], now, 683) == first, "differs without the cache"
        assert estimated == [1, 1]
