"""What is remembered of a question's counts is never said of others."""

from typing import Literal

import numpy as np

from deniable.server.estimation.statements import Statements, statements
from deniable.server.results.counts import Counts
from deniable.server.results.said import limits, said
from tests.server.surveys import survey
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
