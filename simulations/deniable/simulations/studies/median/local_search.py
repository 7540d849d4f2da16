"""The local search: a threshold for each group of people, moved by what the groups before reported.

Polyak's averaging of a Robbins-Monro walk; a group's reports are one binomial, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.studies.median.people import Array, below

Ask = Callable[[int, Array], Array]  # so many people and thresholds: reports that say "above"
GROUPS = 1_000


def crowd(mechanism: RandomizedResponse, generator: np.random.Generator) -> Ask:
    """How many of a group report that they are above the threshold: one binomial for all."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE

    def ask(size: int, threshold: Array) -> Array:
        above = generator.binomial(size, lie + (keep - lie) * (1 - below(threshold)))
        return np.asarray(above, dtype=float)

    return ask


def search(mechanism: RandomizedResponse, people: int, times: int, ask: Ask) -> Array:
    """The local search, by groups of people who are asked at the same threshold."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    ends = np.rint(np.linspace(0, people, min(people, GROUPS) + 1)).astype(np.int64)
    threshold, total, weight = np.full(times, 0.5), np.zeros(times), 0
    for place, size in enumerate(np.diff(ends).tolist()):
        if place >= len(ends) // 10:
            total += size * threshold
            weight += size
        above = (ask(size, threshold) / size - lie) / (keep - lie)
        threshold = np.clip(threshold + 0.5 * (place + 1) ** -0.6 * (above - 0.5), 0, 1)
    return total / weight
