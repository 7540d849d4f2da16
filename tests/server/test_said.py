"""What is remembered of a question's counts is never said of others."""

import numpy as np

from deniable.server.estimation.statements import Statements, statements
from deniable.server.results.said import said
from tests.server.surveys import survey
from tests.survey_texts import bit


def told(found: Statements) -> tuple[list[float], ...]:
    arrays = (found.estimate, *found.like, *found.these, *found.every)
    return tuple(array.tolist() for array in arrays)


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
    found = [told(said(*each)) for each in asked]
    assert found == [told(statements(*each)) for each in asked]
    assert len({str(each) for each in found}) == len(asked)
