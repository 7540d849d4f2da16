"""Estimates of one round or question, from estimators that take many of them together."""

from __future__ import annotations

import numpy as np

from deniable.server.estimation import ESTIMATORS, Estimator
from deniable.server.estimation.forgery_test import Fit, fits
from deniable.server.estimation.statements import CONFIDENCE, Cells, Statements
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.survey.kinds.base import Question


def fit(mechanism: Mechanism, cells: Cells, reports: int) -> Fit:
    (found,) = fits(mechanism, cells[None], np.array([reports]))
    return found


def counted(
    question: Question, cells: Cells, reports: int | Cells, looks: bool = False
) -> Estimator:
    return ESTIMATORS[question.estimation](question, cells, reports, looks)


def statements(
    question: Question,
    cells: Cells,
    reports: int | Cells,
    confidence: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    """Return the statements for at least one report, in one round or in several."""
    return counted(question, cells, reports, looks).statements(confidence)
