"""The estimates of one question, from the cells that a round's tally keeps for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import means
from deniable.server.estimation import shares as share_estimates
from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.shared.survey.questions import Bit, Number, Question

METHODS = {
    "bit": share_estimates.METHOD,
    "choice": share_estimates.METHOD,
    "number": means.METHOD,
}

Cells = npt.NDArray[np.int64]


def estimates(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    """One for each of the question's labels."""
    if isinstance(question, Number):
        return (means.mean(cells, question, confidence),)
    counts = cells[1:] if isinstance(question, Bit) else cells
    found = share_estimates.shares(counts, reports, question.mechanism, confidence)
    rows = zip(
        question.labels,
        found.estimate.tolist(),
        found.low.tolist(),
        found.high.tolist(),
        found.standard_error.tolist(),
        found.consistent.tolist(),
        strict=True,
    )
    return tuple(
        Estimate(label, raw, low, high, error, reports, confidence, near, share_estimates.METHOD)
        for label, raw, low, high, error, near in rows
    )
