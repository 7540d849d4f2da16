"""Estimates of frequent texts, with exact p-values.

The hash puts a text into random buckets, and nothing in the tally depends on a text that no one
reports. So any score of such a text is distributed like the same score at random buckets of this
tally: one in each of the final groups, independently. That includes the noise and all other texts
in those buckets, with no assumption about either; but it assumes that reports are not forged, and
texts not chosen, to match a certain hash.

The score is the sum of the groups' standard scores, each at most MOST, so that one crowded bucket
cannot make it. Whole steps are added: those of random buckets rounded up, a text's own down.

In the same way the estimate of a text's share is off by what lies in random buckets: its noise, and
whatever other texts share its own.

Texts that stand out have a share, an interval and a p-value, from the final groups alone. The
candidates come from the other groups' reports, so nothing in the final groups depends on which
they are. At most TESTED are tested, in LOOKS looks: what is found in one is taken out of the counts
for the next, so that frequent texts hide no others. A text is found in a look if its p-value is at
most FALSE_DISCOVERY / (LOOKS tested). So the probability that any text is found of which there is
no report is at most FALSE_DISCOVERY, whatever is answered, as long as no report is forged.

Of what was found all buckets are known; only what was not is spread over the K buckets by the hash.
With f_j the shares that were found and F their sum, c_ij the part of the final reports whose group
has texts i and j in one bucket, p and q the design's probabilities, the rate of reports that
support i is expected to be

    r_i = q + (p - q) (sum over j of c_ij f_j + (1 - F) / K)

These are as many linear equations as shares, and are solved together: with g = (p - q) (1 - 1/K)

    sum over j of (K c_ij - 1) / (K - 1) f_j = (r_i - q - (p - q) / K) / g

where c_ii = 1: unbiased over the hash of what was not found, at any F. Where no bucket is shared,
the error of f_i takes on 1 / (K - 1) of the sum of the other R - 1 errors: sqrt(R - 1) / (K - 1) of
its own size where all are alike and independent, and at most (R - 1) / (K - 1) of the largest.

The interval is Clopper-Pearson's for the final groups together, moved by what the estimate takes
off for other texts, and reaches on either side at least as far as the same estimate at random
buckets does from its expectation, once what was found is taken out: so it has room for texts that
are not listed and share a bucket with one that is. Where R of m texts are found, its confidence is
1 - (1 - 0.95) R / m: so of the intervals that are shown, after this selection, at most 5 % are
expected to miss [1].

[1] Benjamini, Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals for
    selected parameters", Journal of the American Statistical Association 100(469).

Texts that many people answer, found without a list of them: search, test, estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import Estimate
from deniable.server.estimation.intervals import clopper_pearson
from deniable.server.estimation.point_estimates import support_counts
from deniable.server.estimation.text_search import MOST, Digits, candidates, final_buckets
from deniable.shared.privacy.families.grouped import GroupedDesign
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.kinds.beginnings import FINAL
from deniable.shared.survey.kinds.text import Text

Array = npt.NDArray[np.float64]
STEP = 0.02
REACH_STEPS = 2_000  # at least, from a group's least share to its largest
ROUNDING = 1 + 1e-9  # more than what sums of so many doubles are off by


def reach(shares: Array, weights: Array, beyond: float) -> tuple[float, float]:
    """Return how far the weighted sum of the groups' shares lies from its mean at random buckets.

    Below and above, except with this probability at either end. Each share counts as one step more
    than it is.
    """
    parts = weights[:, None] * (shares - shares.mean(axis=1, keepdims=True))
    step = float(np.ptp(parts, axis=1).max()) / REACH_STEPS or 1.0
    below, above = (_quantile(np.ceil(side / step), beyond) * step for side in (-parts, parts))
    return below, above


def _quantile(steps: Array, beyond: float) -> int:
    """Return the quantile in steps, rounded up."""
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


METHOD = (
    "Clopper-Pearson through the randomization, wider for what may share a bucket, and for the "
    "choice of what stands out"
)
FALSE_DISCOVERY = 0.01
TESTED, LOOKS = 1_000, 3

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """Support counts, one row for each group."""

    supports: Cells
    reports: Cells  # of each group
    empty: float  # the rate at which a bucket is supported that has its part of others only
    gain: float  # what of a share is seen in that rate

    @property
    def shares(self) -> Array:
        rates = self.supports / np.maximum(self.reports, 1)[:, None]
        return (rates - self.empty) / self.gain

    @property
    def weights(self) -> Array:
        return np.asarray(self.reports / max(1, self.reports.sum()))

    @property
    def errors(self) -> Array:
        """The standard deviation of such a share of a bucket that holds none."""
        spread = self.empty * (1 - self.empty) / np.maximum(self.reports, 1)
        return np.asarray(np.sqrt(spread)[:, None] / self.gain)


def found(question: Text, cells: Cells, reports: int, confidence: float) -> tuple[Estimate, ...]:
    """Return the texts that stand out, the most frequent first."""
    return _found(question, cells.tobytes(), reports, confidence)


@lru_cache(maxsize=64)  # pages and results ask again and again for rounds that are over
def _found(question: Text, counted: bytes, reports: int, confidence: float) -> tuple[Estimate, ...]:
    counts = counts_of(question.mechanism, np.frombuffer(counted, np.int64))
    scores = counts.shares / counts.errors
    digits = _shown(candidates(scores[:-FINAL], question.beginnings, TESTED))
    final = Counts(counts.supports[-FINAL:], counts.reports[-FINAL:], counts.empty, counts.gain)
    buckets = final_buckets(question.beginnings, digits)
    shares, p, left = _standing_out(final, buckets)
    chosen = np.flatnonzero(~np.isnan(shares))
    sure = 1 - (1 - confidence) * len(chosen) / max(1, len(digits))
    shared = reach(left, final.weights, (1 - sure) / 2)
    estimates = [
        _estimate(final, _text(digits[n]), shares[n], buckets[:, n], sure, shared, reports, p[n])
        for n in chosen
    ]
    return tuple(sorted(estimates, key=lambda each: -each.estimate))


def counts_of(mechanism: GroupedDesign, cells: Cells) -> Counts:
    design, groups = mechanism.each, mechanism.groups
    counted = cells[: groups * design.cells].reshape(groups, design.cells)
    gain = (design.keep - design.lie) / ONE
    empty = design.lie / ONE + gain / design.options
    supported = np.stack([support_counts(design, each) for each in counted])
    return Counts(supported, cells[-groups:], empty, gain * (1 - 1 / design.options))


def _standing_out(final: Counts, buckets: Cells) -> tuple[Array, Array, Array]:
    """Return each candidate's share and p-value, and what the buckets hold of all others.

    The share is not-a-number where a candidate does not stand out. The p-value is multiplied by the
    number of tests.
    """
    left, tested = final.shares, buckets.shape[1]
    shares, p = np.full(tested, np.nan), np.ones(tested)
    for _ in range(LOOKS if tested else 0):
        corrected = np.minimum(1.0, LOOKS * tested * p_values(left / final.errors, buckets))
        news = np.isnan(shares) & (corrected <= FALSE_DISCOVERY)
        if not news.any():
            break
        p[news] = corrected[news]
        chosen = news | ~np.isnan(shares)
        shares[chosen], left = _taken_out(final, buckets[:, chosen])
    return shares, p, left


def _taken_out(final: Counts, buckets: Cells) -> tuple[Array, Array]:
    """The shares of these texts; and what each bucket holds of all others beyond its part."""
    options = final.supports.shape[1]
    seen = final.weights @ np.take_along_axis(final.shares, buckets, axis=1)
    overlaps = _overlaps(final.weights, buckets, options)
    # Not `solve`: forgers might have two texts listed that have the same buckets.
    shares = np.asarray(np.linalg.lstsq(overlaps, seen)[0], np.float64)
    left = final.shares + shares.sum() / (options - 1)
    np.subtract.at(left, (np.arange(FINAL)[:, None], buckets), shares * options / (options - 1))
    return shares, left


def _overlaps(weights: Array, buckets: Cells, options: int) -> Array:
    """Return how much of the share of one text, across, appears in the rate of another, down."""
    together = np.tensordot(weights, buckets[:, :, None] == buckets[:, None], axes=1)
    return np.asarray((options * together - 1) / (options - 1))


def _estimate(
    final: Counts,
    text: str,
    share: float,
    buckets: Cells,
    confidence: float,
    shared: tuple[float, float],
    reports: int,
    p: float,
) -> Estimate:
    count, of = int(final.supports[np.arange(FINAL), buckets].sum()), int(final.reports.sum())
    (least,), (most,) = clopper_pearson(np.array([count]), of, confidence)
    rate = final.empty + final.gain * min(max(share, 0.0), 1.0)
    noisier = max(1.0, rate * (1 - rate) / (final.empty * (1 - final.empty))) ** 0.5
    below, above = (noisier * each for each in shared)
    return Estimate(
        label=text,
        estimate=float(share),
        low=float(share + min((least - count / of) / final.gain, -above)),
        high=float(share + max((most - count / of) / final.gain, below)),
        standard_error=float(np.sqrt(rate * (1 - rate) / of) / final.gain),
        reports=reports,
        confidence=confidence,
        consistent=float(min(max(share, 0.0), 1.0)),
        method=METHOD,
        note=f"p-value {max(p, 1e-99):.1g}",
    )


def _shown(digits: Digits) -> Digits:
    """Those that a person can read on a line: others are not what a device sends."""
    return np.compress([_text(row).isprintable() for row in digits], digits, axis=0)


def _text(digits: npt.NDArray[np.uint8]) -> str:
    packed = (digits[::2] << 4 | digits[1::2]).tobytes()
    return packed.rstrip(b"\0").decode()


__all__ = ["FALSE_DISCOVERY", "METHOD", "found"]
