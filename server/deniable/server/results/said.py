"""What counts say of a question, once: a round's rows need it, and the changes to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import Statements, statements
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.shared.survey.questions import Question

_REMEMBERED = Memory[Statements](lambda found: ROWS_BESIDE + len(found.estimate))


def said(
    question: Question,
    cells: npt.NDArray[np.int64],
    reports: int,
    confidence: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    """As `statements` says it. Mechanisms are equal to themselves alone, and so are questions."""
    key = question, cells.tobytes(), reports, confidence, looks
    return _REMEMBERED.get(key, lambda: statements(question, cells, reports, confidence, looks))
