"""What is estimated of many rounds or questions at once, asked for by itself."""

from __future__ import annotations

import numpy as np

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.estimators import counted
from deniable.server.estimation.forgery_test import Cells, Fit, fits
from deniable.server.estimation.statements import Statements
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.survey.kinds.base import Question


def fit(mechanism: Mechanism, cells: Cells, reports: int) -> Fit:
    (found,) = fits(mechanism, cells[None], np.array([reports]))
    return found


def statements(
    question: Question,
    cells: Cells,
    reports: int | Cells,
    confidence: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    """From at least one report, in one round or in several."""
    return counted(question, cells, reports, looks).statements(confidence)
