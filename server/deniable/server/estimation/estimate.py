"""An estimate: never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

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
