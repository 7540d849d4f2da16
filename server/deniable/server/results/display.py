"""Figures as people read them: as many digits as the error leaves meaning to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_DECIMALS = 9
MINUS = "−"


@dataclass(frozen=True)
class Figures:
    """One row of results in words. For shares everything is in per cent, `margin` in points."""

    estimate: str
    low: str
    high: str
    margin: str  # half of the interval
    unit: str
    factor: float
    places: int

    def plain(self, value: float) -> str:
        """Another value of the same row, in the same way."""
        return plain(self.factor * value, self.places)

    @property
    def whole(self) -> str:
        return f"{self.estimate}{self.unit}"

    @property
    def interval(self) -> str:
        return f"{self.low} to {self.high}{self.unit}"


def figures(row: Mapping[str, Any], kind: str) -> Figures | None:  # Any: JSON
    """None where there is no estimate."""
    if row["estimate"] is None:
        return None
    factor, unit = (1.0, "") if kind == "number" else (100.0, " %")
    margin = factor * (row["high"] - row["low"]) / 2
    places = decimals(margin)
    estimate, low, high = (plain(factor * row[key], places) for key in ("estimate", "low", "high"))
    return Figures(estimate, low, high, plain(margin, places), unit, factor, places)


def decimals(margin: float) -> int:
    """So many that the margin shows two digits that are not leading zeros.

    >>> decimals(0.0123), decimals(1.23), decimals(123)
    (3, 1, 0)
    """
    if margin <= 0:
        return 1
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(margin))))


def plain(value: float, places: int) -> str:
    """With a true minus sign and thousands apart; never minus zero.

    >>> plain(-1234.56, 1), plain(-0.01, 1)
    ('−1,234.6', '0.0')
    """
    text = f"{abs(value):,.{places}f}"
    negative = value < 0 and any(digit in text for digit in "123456789")
    return MINUS + text if negative else text
