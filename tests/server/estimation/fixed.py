"""Exact distribution of report counts when the people and their answers are fixed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    RandomizedResponse,
    SubsetSelection,
    Unary,
)

Array = npt.NDArray[np.float64]

EPSILONS = ("0.1", "0.5", "1", "2", "4", "8")
SHARES = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.98, 0.995, 1)
NOTHING = 1e-20  # rarer counts are left out of sums


def designs(epsilon: str) -> list[SupportDesign]:
    spent = Epsilon(epsilon)
    return [
        RandomizedResponse(spent),
        *(KRandomizedResponse(spent, options) for options in (5, 100, 1_000)),
        Unary(spent, 10),
        SubsetSelection(spent, 16),
    ]


def law(holders: int, people: int, design: SupportDesign) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the counts that are not negligibly rare, and their probabilities.

    A count is the sum of two binomials: reports of holders and of everybody else.
    """
    yes, first_yes = _binomial(holders, design.keep / ONE)
    no, first_no = _binomial(people - holders, design.lie / ONE)
    both = np.convolve(yes, no)
    return first_yes + first_no + np.arange(len(both)), both


def holders_of(people: int) -> list[int]:
    """Return all possible numbers of holders if there are few people, and a selection otherwise."""
    if people <= 50:
        return list(range(people + 1))
    return sorted({round(share * people) for share in SHARES})


def _binomial(trials: int, rate: float) -> tuple[Array, int]:
    probabilities = np.asarray(binom.pmf(np.arange(trials + 1), trials, rate))
    seen = np.flatnonzero(probabilities > NOTHING)
    return probabilities[seen[0] : seen[-1] + 1], int(seen[0])
