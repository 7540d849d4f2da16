"""The mean vector, each of its coordinates with an interval, from the sums of reported codewords.

A codeword has mean gain v for whoever holds v, so the mean codeword divided by the gain is unbiased
for the mean vector. Its standard error is that of the codewords' coordinates, from the sums of
their squares: people drawn at random. What an honest report's square is expected to be lies between
`across` and `along`, and so does what is taken for it: few reports may be alike by chance. The
interval is normal: coordinates of random directions have lighter tails than normal ones.

All codewords have length one: so the squared error of the whole vector is, unbiased,
(1 - |mean codeword|^2) / ((n - 1) gain^2), and its expectation at most 1 / (n gain^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.shared.privacy.encoding import UNIT
from deniable.shared.privacy.shapes.vector_design import VectorDesign
from deniable.shared.survey.questions import Vector

METHOD = "normal, from the sums of squares; its coverage is measured, not proved"
Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Whole:
    """The vector as one: `length` is that of the people's mean vector, freed of what the noise adds
    to its square, and `error` the root of the mean squared length of what the estimate is off."""

    length: float
    error: float


def coordinates(
    cells: Cells, reports: int, question: Vector, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    design = question.mechanism
    mean, square = _means(cells, reports, design)
    known = design.across, design.along
    spread = np.clip(square, min(known), max(known)) - mean**2
    least = min(design.across, design.along - design.gain**2)
    errors = np.sqrt(np.maximum(spread, least) / reports) / design.gain
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * errors
    raw = mean / design.gain
    possible = raw / max(1.0, float(np.linalg.norm(raw)))
    columns = (each.tolist() for each in (raw, raw - reach, raw + reach, errors, possible))
    return tuple(
        Estimate(label, middle, low, high, error, reports, confidence, near, METHOD)
        for label, middle, low, high, error, near in zip(question.labels, *columns, strict=True)
    )


def whole(cells: Cells, reports: int, design: VectorDesign) -> Whole:
    """Of at least two reports."""
    mean, _ = _means(cells, reports, design)
    square = float(mean @ mean)
    error = max(0.0, 1 - square) / ((reports - 1) * design.gain**2)
    return Whole(math.sqrt(max(0.0, square / design.gain**2 - error)), math.sqrt(error))


def _means(
    cells: Cells, reports: int, design: VectorDesign
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The mean codeword, and the mean of its squares."""
    both = cells.reshape(2, design.dimension) / (UNIT * reports)
    return both[0], both[1]
