"""The estimates of one question, from the cells that a round's tally keeps for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import means, shares, texts, vectors
from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.statements import counted
from deniable.shared.survey.questions import Question, Text

METHODS: Mapping[str, str] = {  # by kind
    "bit": shares.METHOD,
    "number": means.METHOD,
    "choice": shares.METHOD,
    "text": texts.METHOD,
    "vector": vectors.METHOD,
}

Cells = npt.NDArray[np.int64]


def estimates(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    """One for each of the question's labels; of a text, for each that is found."""
    if isinstance(question, Text):
        return texts.found(question, cells, reports, confidence)
    said, method = counted(question, cells, reports), METHODS[question.kind]
    points = said.points
    arrays = (points.estimate, *said.like(confidence), points.standard_error, points.consistent)
    rows = zip(question.labels, *(each.tolist() for each in arrays), strict=True)
    return tuple(
        Estimate(label, raw, low, high, error, reports, confidence, near, method)
        for label, raw, low, high, error, near in rows
    )
