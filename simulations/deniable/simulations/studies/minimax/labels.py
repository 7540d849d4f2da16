"""What the estimators are called, and which ε is shown, in figures and sentences alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deniable.simulations.frame.study import Row
from deniable.simulations.studies.minimax.slopes import number

LABELS = {
    "one-bit": "local, one bit",
    "ternary": "local, ternary",
    "split-sign": "local, split sign",
    "laplace": "trusted curator",
    "mean": "no privacy",
}


def middle_epsilon(rows: Sequence[Row]) -> float:
    """The ε that is nearest to 1."""
    return min({number(row, "epsilon") for row in rows}, key=lambda e: abs(math.log(e)))
