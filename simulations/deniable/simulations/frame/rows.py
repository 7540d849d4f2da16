"""Rows of a study that are named by `model` and `estimator`; `drawing.py` draws them.

exact       the mean squared error by formula; null where there is none
first_order a formula for many people, in studies where not every error has an exact one
measured    the same of errors that were drawn, with its Monte-Carlo error `error`
limit       what no estimator of the same model is below; null where that is not known
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.frame.comparison import Series, number, one, pick
from deniable.simulations.frame.study import Options, Row

Array = NDArray[np.floating]
Whole = NDArray[np.int64]
LIMITS = ("limit", "limit_drawn")  # of rows about both questions
FORMULA = "first_order"
NOTHING: dict[str, None] = {"measured": None, "error": None}  # is drawn


def measured(squares: Array) -> dict[str, float]:
    """Of squared errors, one for each repetition."""
    spread = float(squares.std(ddof=1) / math.sqrt(len(squares)))
    return {"measured": float(squares.mean()), "error": spread}


def document(options: Options, rows: Sequence[Row], findings: Sequence[str]) -> dict[str, Any]:
    """What --json prints. Any: what JSON can hold."""
    return {"options": dict(options), "rows": [dict(row) for row in rows], "findings": findings}


def of(rows: Sequence[Row], series: Series, **wanted: object) -> list[Row]:
    return pick(rows, model=series.model, estimator=series.mechanism, **wanted)


def value(rows: Sequence[Row], series: Series, key: str = "exact", **wanted: object) -> float:
    found = one(rows, model=series.model, estimator=series.mechanism, **wanted)
    return number(found, key)


def run_by_the_curator(rows: Sequence[Row], trusted: Sequence[Series]) -> list[Row]:
    """The best local estimator, where a curator who runs it does better than with all of these."""
    local = min(
        (row for row in pick(rows, model="local") if row["exact"] is not None),
        key=lambda row: number(row, "exact"),
    )
    if number(local, "exact") >= min(value(rows, each) for each in trusted):
        return []
    (like,) = of(rows, trusted[0])
    return [{**local, "model": "central", **{key: like[key] for key in LIMITS}}]


def worst_deviation(rows: Sequence[Row]) -> float:
    """The largest distance of a measured error from its formula, in Monte-Carlo errors."""
    return max(
        abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
        for row in rows
        if row["exact"] is not None and row["measured"] is not None and number(row, "error") > 0
    )


def ratios(rows: Sequence[Row], people: int, key: str = "exact") -> str:
    """From the least to the largest of measured errors by their formulas."""
    found = [number(row, "measured") / number(row, key) for row in pick(rows, people=people)]
    return f"{min(found):.2f} to {max(found):.2f}"


def price(rows: Sequence[Row], local: Series, central: Series) -> float:
    return value(rows, local) / value(rows, central)
