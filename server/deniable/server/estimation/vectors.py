"""The mean vector, each of its coordinates with an interval, from the sums of reported codewords.

A codeword has mean gain v for whoever holds v, so the mean codeword divided by the gain is unbiased
for the mean vector. Its standard error is that of the codewords' coordinates, from the sums of
their squares: people drawn at random. What an honest report's square is expected to be lies between
`across` and `along`, and so does what is taken for it: few reports may be alike by chance. The
interval is normal: coordinates of random directions have lighter tails than normal ones.

[1] Robbins 1970, "Statistical methods related to the law of the iterated logarithm", Annals of
    Mathematical Statistics 41(5).

All codewords have length one: so the squared error of the whole vector is, unbiased,
(1 - |mean codeword|^2) / ((n - 1) gain^2), and its expectation at most 1 / (n gain^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import Points
from deniable.shared.privacy.encoding import UNIT
from deniable.shared.privacy.families.vector_design import VectorDesign

METHOD = "normal, from the sums of squares; its coverage is measured, not proved"
Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

LOOKED_AT = 100.0  # reports at which looking again and again costs the least


@dataclass(frozen=True)
class Whole:
    """The vector as one: `length` is that of the people's mean vector, freed of what the noise adds
    to its square, and `error` the root of the mean squared length of what the estimate is off."""

    length: float
    error: float


@dataclass(frozen=True)
class Coordinates(Points):
    """What is possible is the nearest in the unit ball."""

    def within(self, deviations: float | Array) -> tuple[Array, Array]:
        reach = deviations * self.standard_error
        return self.estimate - reach, self.estimate + reach


def coordinates(cells: Cells, reports: int | Cells, design: VectorDesign) -> Coordinates:
    mean, square = _means(cells, reports, design)
    known = design.across, design.along
    spread = np.clip(square, min(known), max(known)) - mean**2
    least = min(design.across, design.along - design.gain**2)
    errors = np.sqrt(np.maximum(spread, least) / reports) / design.gain
    raw = mean / design.gain
    length = np.sqrt(np.vecdot(raw, raw))[..., None]
    return Coordinates(raw, errors, raw / np.maximum(1.0, length))


def deviations(reports: int, confidence: float, *, looks: bool) -> float:
    """How many standard errors an interval reaches: of a normal distribution, or of a normal
    mixture of its likelihood ratios, which holds at every look at once [1]."""
    if not looks:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    information = 1 + reports / LOOKED_AT
    return math.sqrt((1 + LOOKED_AT / reports) * math.log(information / (1 - confidence) ** 2))


def whole(cells: Cells, reports: int, design: VectorDesign) -> Whole:
    """Of at least two reports."""
    mean, _ = _means(cells, reports, design)
    square = float(mean @ mean)
    error = max(0.0, 1 - square) / ((reports - 1) * design.gain**2)
    return Whole(math.sqrt(max(0.0, square / design.gain**2 - error)), math.sqrt(error))


def _means(cells: Cells, reports: int | Cells, design: VectorDesign) -> tuple[Array, Array]:
    """The mean codeword, and the mean of its squares."""
    both = cells / UNIT / reports
    return both[..., : design.dimension], both[..., design.dimension :]
