"""By how much the estimates of two rounds, or of two surveys, differ.

About people like these. The same people may be in both, and nobody knows how many: so the interval
holds under any dependence. It goes from the one's lower limit less the other's upper limit to the
reverse, each with half of the error probability.

About these very people. They are fixed, and the noise of two rounds is drawn independently, so its
variances add up:

    difference  +-  z √(noise of the one + noise of the other) + half a report of each

The noise is that of the worst shares within each one's limits, and the last part makes up for
counts being whole. Coverage is summed exactly by the tests: it never was below 95 %.

Where the limits of a round are to hold at every look, variances do not help, and these limits are
found like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.statements import Interval, Statements

Array = npt.NDArray[np.float64]
Sides = tuple[Statements, Statements]


@dataclass(frozen=True)
class Differences:
    """One number for each label in each array."""

    estimate: Array
    like: Interval
    these: Interval


def halved(confidence: float) -> float:
    """The confidence of each of two intervals that are to hold both."""
    return (1 + confidence) / 2


def differences(
    sides: Sides, halves: Sides, looks: bool, confidence: float = CONFIDENCE
) -> Differences:
    """Of the later less the earlier, `halves` with the confidence of `halved`; `looks` where one
    of them is looked at while its reports still come in."""
    (now, then), (now_halved, then_halved) = sides, halves
    added = _apart(now_halved.these, then_halved.these) if looks else _added(now, then, confidence)
    return Differences(
        estimate=now.estimate - then.estimate,
        like=_apart(now_halved.like, then_halved.like),
        these=added,
    )


def _apart(now: Interval, then: Interval) -> Interval:
    return now[0] - then[1], now[1] - then[0]


def reach(now: Array, then: Array, steps: float, confidence: float) -> Array:
    """How far from a difference the truth may be, by the noise of both and what half a report of
    each moves it."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return z * np.sqrt(now + then) + steps


def _added(now: Statements, then: Statements, confidence: float) -> Interval:
    middle = now.estimate - then.estimate
    far = reach(now.noise, then.noise, now.step + then.step, confidence)
    return middle - far, middle + far
