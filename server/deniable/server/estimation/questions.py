"""The estimates of one question, from the cells that a round's tally keeps for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import means, texts, vectors
from deniable.server.estimation import shares as share_estimates
from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.supports import supports
from deniable.shared.survey.questions import Bit, Choice, Number, Question, Text, Vector

METHODS: Mapping[str, str] = {  # by kind
    "bit": share_estimates.METHOD,
    "number": means.METHOD,
    "choice": share_estimates.METHOD,
    "text": texts.METHOD,
    "vector": vectors.METHOD,
}

Cells = npt.NDArray[np.int64]


def estimates(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    """One for each of the question's labels; of a text, for each that is found."""
    match question:
        case Number():
            return (means.mean(cells, question, confidence),)
        case Bit() | Choice():
            counts = supports(question.mechanism, cells)
            return _shares(question, counts[question.first_label :], reports, confidence)
        case Vector():
            return _coordinates(question, cells, reports, confidence)
        case Text():
            return texts.found(question, cells, reports, confidence)
        case _:
            assert_never(question)


def _coordinates(
    question: Vector, cells: Cells, reports: int, confidence: float
) -> tuple[Estimate, ...]:
    found = vectors.coordinates(cells, reports, question.mechanism)
    ends = found.within(vectors.deviations(reports, confidence, looks=False))
    arrays = (found.estimate, *ends, found.standard_error, found.possible)
    rows = zip(question.labels, *(each.tolist() for each in arrays), strict=True)
    return tuple(
        Estimate(label, raw, low, high, error, reports, confidence, near, vectors.METHOD)
        for label, raw, low, high, error, near in rows
    )


def _shares(
    question: Bit | Choice, counts: Cells, reports: int, confidence: float
) -> tuple[Estimate, ...]:
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
