"""Estimates: never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate about the people who sent the reports, in the question's own units.

    `estimate`, `low` and `high` are unbiased, so they may leave the range of what is possible: they
    are never clipped, since clipping would bias sums and differences. `consistent` is the nearest
    possible version: shares from 0 to 1 that add up to 1, a mean within its range. Each interval
    has its confidence alone, at one look. Without a report `estimate`, `consistent` and
    `standard_error` are not-a-number, and the interval shows only what the mechanism allows.
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
    """Estimates of several labels, in arrays of one number for each label.

    Of several rounds, in a row for each round.
    """

    estimate: Array
    standard_error: Array
    consistent: Array
