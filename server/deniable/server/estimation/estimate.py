"""An estimate: never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the reports say about the people who sent them, in the question's own units.

    `estimate`, `low` and `high` are unbiased, hence may leave what is possible: they are never
    clipped, since clipping would bias sums and differences. `consistent` is the version that is
    possible: shares from 0 to 1 that add up to 1, a mean within its range. Each interval holds its
    confidence by itself, at one look. Without a report `estimate`, `consistent` and
    `standard_error` are not-a-number, and the interval says only what the mechanism can say.
    """

    label: str
    estimate: float
    low: float
    high: float
    standard_error: float
    reports: int
    confidence: float
    consistent: float
    method: str
    note: str | None = None  # what else its row says


@dataclass(frozen=True)
class Points:
    """The same of many: in each array a row for each round, if there are several, and in it one
    number for each label."""

    estimate: Array
    standard_error: Array
    consistent: Array
