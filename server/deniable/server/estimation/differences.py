"""By how much the estimates of two rounds, or of two surveys, differ.

About people like these. The same people may be in both, and nobody knows how many: so the interval
holds under any dependence. It goes from the one's lower limit less the other's upper limit to the
reverse, each with half of the error probability.

About these very people. They are fixed, and the noise of two rounds is drawn independently, so
errors are added as squares around the difference [1]:

    low  =  d - √((a - low of a)² + (high of b - b)²)

Where the limits of a round are to hold at every look, there is no such addition, and these limits
are found like the others.

[1] Zou, Donner 2008, "Construction of confidence limits about effect measures: a general approach",
    Statistics in Medicine 27(10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


def differences(sides: Sides, halves: Sides, looks: bool) -> Differences:
    """Of the later less the earlier, `halves` with the confidence of `halved`; `looks` where one
    of them is looked at while its reports still come in."""
    (now, then), (now_halved, then_halved) = sides, halves
    squares = _apart(now_halved.these, then_halved.these) if looks else _squares(now, then)
    return Differences(
        estimate=now.estimate - then.estimate,
        like=_apart(now_halved.like, then_halved.like),
        these=squares,
    )


def _apart(now: Interval, then: Interval) -> Interval:
    return now[0] - then[1], now[1] - then[0]


def _squares(now: Statements, then: Statements) -> Interval:
    middle = now.estimate - then.estimate
    (now_below, now_above), (then_below, then_above) = _reach(now), _reach(then)
    return middle - np.hypot(now_below, then_above), middle + np.hypot(now_above, then_below)


def _reach(found: Statements) -> Interval:
    low, high = found.these
    return found.estimate - low, high - found.estimate
