"""What the estimators are called, and which ε is shown, in figures and sentences alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.figures import LOOKS, Look
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.minimax.estimators import MANY_LEVELS
from deniable.simulations.studies.minimax.slopes import number

LABELS = {
    "one-bit": "local, one bit",
    "ternary": "local, ternary",
    "split-sign": "local, split sign",
    MANY_LEVELS: "local, many levels",
    "laplace": "trusted curator",
    "mean": "no privacy",
}
LOOK_OF = dict(zip(LABELS, map(LOOKS.__getitem__, (0, 1, 4, 5, 2, 3)), strict=True))
OTHER = Look("#8a8f98", "X", (0, (4, 1, 1, 1)))  # tables that the reader named


def label(estimator: str) -> str:
    return LABELS.get(estimator) or f"local, {custom_mechanisms.label('number', estimator)}"


def look_of(estimator: str) -> Look:
    return LOOK_OF.get(estimator, OTHER)


def shown(rows: Sequence[Row]) -> list[str]:
    """Every estimator there is in these rows, ours first."""
    there = dict.fromkeys(str(row["estimator"]) for row in rows)
    return [*(name for name in LABELS if name in there), *(n for n in there if n not in LABELS)]


def middle_epsilon(rows: Sequence[Row]) -> float:
    """The ε that is nearest to 1."""
    return min({number(row, "epsilon") for row in rows}, key=lambda e: abs(math.log(e)))
