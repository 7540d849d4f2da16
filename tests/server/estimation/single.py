"""Estimates for one round or question, by estimators that handle many of them together."""

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
    """Return the statements for one round or several; each needs at least one report."""
    return counted(question, cells, reports, looks).statements(confidence)
