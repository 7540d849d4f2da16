"""How often a text that nobody answers looks as frequent as a given one: exact p-values.

Which buckets a text falls into is as random as the hash. Of a text that no report is of, nothing in
the tally depends on it. So the distribution of any score of it is that of the same score at random
buckets, drawn from the tally as it is: one in each of the final groups, independently. That counts
noise and whatever other texts are in those buckets, with no assumption about either; but it assumes
that nobody forges reports, or chooses texts, to meet a certain hash.

The score is the sum of the groups' standard scores, each at most MOST, so that one crowded bucket
cannot make it. Whole steps are added: those of random buckets rounded up, a text's own down.

In the same way the estimate of a text's share is off by what lies in random buckets: its noise, and
whatever other texts share its own.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.texts.search import MOST

Array = npt.NDArray[np.float64]
STEP = 0.02
REACH_STEPS = 2_000  # from a group's least share to its largest, at the least
ROUNDING = 1 + 1e-9  # more than what sums of so many doubles are off by


def reach(shares: Array, weights: Array, beyond: float) -> tuple[float, float]:
    """How far below and above its expectation the weighted sum of the groups' shares lies at random
    buckets, either end but for so much probability. Each share counts as a step more than it is."""
    parts = weights[:, None] * (shares - shares.mean(axis=1, keepdims=True))
    step = float(np.ptp(parts, axis=1).max()) / REACH_STEPS or 1.0
    below, above = (_quantile(np.ceil(side / step), beyond) * step for side in (-parts, parts))
    return below, above


def _quantile(steps: Array, beyond: float) -> int:
    """In steps, rounded up."""
    whole = steps.astype(np.int64)
    least = whole.min(axis=1, keepdims=True)
    at_least = _at_least(whole - least)
    return int(least.sum() + (at_least > beyond).sum())


def _at_least(steps: npt.NDArray[np.int64]) -> Array:
    """The probability that the groups' sum at random buckets is at least 0, 1, 2 ..."""
    parts = [np.bincount(row) / len(row) for row in steps]
    whole: Array = np.cumsum(reduce(np.convolve, parts)[::-1])[::-1]
    return whole


def p_values(scores: Array, buckets: npt.NDArray[np.int64]) -> Array:
    """`scores[group, bucket]` are standard scores, `buckets[group, text]` those of each text."""
    steps = np.minimum(scores, MOST) / STEP
    up = np.ceil(steps).astype(np.int64)
    least = up.min(axis=1, keepdims=True)
    at_least = _at_least(up - least)
    own = np.floor(np.take_along_axis(steps, buckets, axis=1)).astype(np.int64)
    total = (own - least).sum(axis=0)
    found: Array = np.append(at_least, 0.0)[np.clip(total, 0, len(at_least))]
    return np.minimum(1.0, ROUNDING * found)
