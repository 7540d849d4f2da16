"""Differences between the estimates of two rounds, or of two surveys.

About the population. An unknown number of people may be in both, so the interval must hold under
any dependence. It reaches from the first side's lower limit minus the second's upper limit to the
reverse, each with half of the error probability.

About the people who answered. They are fixed, and the noise of two rounds is drawn independently,
so its variances add up:

    difference  +-  z √(noise of the first + noise of the second) + half a report of each

The noise is that of the worst shares within each side's limits, and the last part compensates for
counts being whole. The tests sum the coverage exactly: it was never below 95 %.

Where the limits of a round must hold at every look, variances do not help, and these limits are
computed like those about the population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import Interval, Statements

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a comparison, with limits at half of the error probability.

    Each array has one row for each round, with one number for each label.
    """

    estimate: Array
    noise: Array
    step: Array
    like: Interval
    these: Interval | None  # where variances do not help

    def of(self, places: list[int]) -> Side:
        """Return the same for some labels only."""

        def some(limits: Interval) -> Interval:
            return limits[0][:, places], limits[1][:, places]

        return Side(
            self.estimate[:, places],
            self.noise[:, places],
            self.step[:, places],
            some(self.like),
            some(self.these) if self.these else None,
        )


@dataclass(frozen=True)
class Differences:
    """Differences: in each array a row for each two rounds and in it a number for each label."""

    estimate: Array
    like: Interval
    these: Interval


def side(found: Sequence[Statements], like: Interval, these: Interval | None) -> Side:
    """Return the side that some rounds make, with limits about the population.

    Where a round of either side is read while reports still arrive, it has limits about these
    people too.
    """
    every = Statements.of_rounds(found)
    return Side(every.estimate, every.noise, every.step, like, these)


def halved(confidence: float) -> float:
    """Return the confidence of each of two intervals that must both hold."""
    return (1 + confidence) / 2


def differences(now: Side, then: Side, confidence: float = CONFIDENCE) -> Differences:
    """Subtract the earlier side from the later one."""
    if now.these and then.these:
        these = _apart(now.these, then.these)
    else:
        these = _added(now, then, confidence)
    return Differences(now.estimate - then.estimate, _apart(now.like, then.like), these)


def _apart(now: Interval, then: Interval) -> Interval:
    return now[0] - then[1], now[1] - then[0]


def reach(now: Array, then: Array, steps: float | Array, confidence: float) -> Array:
    """Return how far the truth may lie from a difference.

    By the noise of both sides, and by half a report of each.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return z * np.sqrt(now + then) + steps


def _added(now: Side, then: Side, confidence: float) -> Interval:
    middle = now.estimate - then.estimate
    far = reach(now.noise, then.noise, now.step + then.step, confidence)
    return middle - far, middle + far
