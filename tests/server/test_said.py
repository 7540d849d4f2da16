"""What is remembered of a question's counts is never said of others."""

from typing import Literal

import numpy as np

from deniable.server.estimation.statements import Statements
from deniable.server.results.counts import MOST_AT_ONCE, Counts, alike
from deniable.server.results.memory import MOST_ROWS, Memory
from deniable.server.results.said import limits, said
from tests.server.estimation.single import statements
from tests.server.surveys import choice, survey
from tests.survey_texts import bit


def told(found: Statements) -> list[list[float]]:
    tables: list[list[float]] = found.table.tolist()
    return tables


def test_whatever_differs_is_said_anew() -> None:
    """Two mechanisms of one name and question, too."""
    (one,) = survey(bit(epsilon="1")).questions
    (other,) = survey(bit(epsilon="2")).questions
    assert one.name == other.name
    counts = np.array([600, 400])
    asked = (
        (one, counts, 1_000, 0.95, False),
        (other, counts, 1_000, 0.95, False),
        (one, counts + 1, 1_000, 0.95, False),
        (one, counts, 1_001, 0.95, False),
        (one, counts, 1_000, 0.9, False),
        (one, counts, 1_000, 0.95, True),
    )
    found = [
        told(each)
        for question, cells, reports, confidence, looks in asked
        for each in said(question, [Counts(cells, reports, looks)], confidence)
    ]
    assert found == [told(statements(*each)) for each in asked]
    assert len({str(each) for each in found}) == len(asked)


def test_limits_of_another_confidence_or_meaning_are_others() -> None:
    (question,) = survey(bit(epsilon="1")).questions
    rounds = [Counts(np.array([600, 400]), 1_000)]
    kinds: list[tuple[float, Literal["like", "these"]]] = [(0.95, "like"), (0.9, "like")]
    kinds += [(0.95, "these"), (0.9, "these"), (0.95, "like")]
    found = [limits(question, rounds, level, about) for level, about in kinds]
    lows = [float(low[0, 0]) for low, _ in found]
    assert len(set(lows)) == 4
    assert lows[0] == lows[-1]


def test_open_and_closed_rounds_are_said_apart() -> None:
    """Though their counts are the same, and they are asked for together."""
    (question,) = survey(bit(epsilon="1")).questions
    rounds = [Counts(np.array([500, 500]), 1_000, looks) for looks in (False, True, False)]
    first, opened, again = map(told, said(question, rounds))
    assert first == again
    assert opened == told(statements(question, np.array([500, 500]), 1_000, looks=True)) != first


def test_an_open_round_without_an_estimate_is_no_matter_to_another() -> None:
    """Of one report no option is told from none, however many name it."""
    (question,) = survey(choice(3, "k-randomized-response")).questions
    counts = [np.array([1, 0, 0]), np.array([50, 30, 20])]
    rounds = [Counts(cells, int(cells.sum()), looks=True) for cells in counts]
    assert list(map(told, said(question, rounds))) == [
        told(statements(question, cells, int(cells.sum()), looks=True)) for cells in counts
    ]


def test_fewer_open_rounds_are_computed_at_once() -> None:
    cells = MOST_AT_ONCE // 16
    batches = list(alike(range(40), lambda place: place % 2 == 1, cells))
    assert sorted(place for batch in batches for place in batch) == list(range(40))
    assert {len(batch) for batch in batches if batch[0] % 2} == {4}
    assert [len(batch) for batch in batches if not batch[0] % 2] == [16, 4]


def test_what_is_too_large_to_keep_drives_out_nothing() -> None:
    memory, made = Memory[int](lambda rows: rows), list[int]()

    def make(places: list[int]) -> list[int]:
        made.extend(places)
        return [sizes[place] for place in places]

    sizes = [MOST_ROWS, MOST_ROWS + 1]
    for _ in range(2):
        assert memory.get(["fits", "does not"], make) == sizes
    assert made == [0, 1, 1]
