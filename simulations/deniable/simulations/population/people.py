"""Whole people from shares: as near to them as whole numbers come, and never one too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def whole_people(weights: Sequence[float], people: int) -> NDArray[np.int64]:
    """How many of so many people fall to each weight: rounded ends of the running sum, so that
    they add up and each is off by less than one.

    >>> whole_people([1, 1, 1], 100).tolist()
    [33, 34, 33]
    """
    ends = np.cumsum(np.asarray(weights, dtype=float))
    whole = np.rint(people * (ends / ends[-1])).astype(np.int64)
    return np.asarray(np.diff(whole, prepend=0))
