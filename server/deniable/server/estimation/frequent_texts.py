"""Frequent texts, found without a list of them: search, test, estimate.

Search: beginnings that stand out are extended digit by digit. The idea of prefixes from one group
each is [1]; that evidence adds up along a path is [2]. Only digits that keep a beginning
well-formed UTF-8 may follow. A state is what is expected next: a byte, or the lower half of a byte
whose upper half is given. Control characters are left out, and zeros fill the end of a text (The
Unicode Standard 15.0, table 3-7).

Each group but the final ones counts in buckets how many hold each beginning of one length. With z
the standard score of a beginning's bucket, its credit is

    credit = min(credit of the beginning without its last digit, 0) + min(z, MOST) - BIAS

the logarithm of the odds that it is one of a frequent text, but for its scale: the evidence of all
lengths adds up, while a certain beginning says nothing about its continuation. A bucket
that another beginning fills counts no more than MOST, and only once, since every group hashes
in its own way. BIAS is half of the z of a text at the floor, and what sixteen continuations cost.

After a wrong digit the credit goes down with every group, and after some digits more frequent texts
leave no more than a few thousand wrong beginnings above those of a text at the floor: KEPT has room
for them. So texts are found that are too rare to stand out in any one group.

Exact p-values: the hash puts a text into random buckets, and nothing in the tally depends on a text
that no one reports. So any score of such a text is distributed like the same score at random
buckets of this tally: one in each of the final groups, independently. That includes the noise and
all other texts in those buckets, with no assumption about either; but it assumes that reports are
not forged, and texts not chosen, to match a certain hash.

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
expected to miss [3].

[1] Wang, Li, Jha 2018, "Locally differentially private heavy hitter identification", IEEE
    Transactions on Dependable and Secure Computing 18(2).
[2] Fano 1963, "A heuristic discussion of probabilistic decoding", IEEE Transactions on Information
    Theory 9(2).
[3] Benjamini, Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals for
    selected parameters", Journal of the American Statistical Association 100(469).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.shares import clopper_pearson, support_counts
from deniable.server.estimation.statements import Array, Cells, Estimate, Estimator
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.survey.kinds.text import FINAL, FIRST, Beginnings, Text

Digits = npt.NDArray[np.uint8]  # a row for each beginning

FALSE_DISCOVERY = 0.01
TESTED, LOOKS = 1_000, 3
STEP = 0.02
REACH_STEPS = 2_000  # at least, from a group's least share to its largest
ROUNDING = 1 + 1e-9  # more than what sums of so many doubles are off by

KEPT = 32_768
BIAS, MOST = 2.4, 5.0
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

START, NEXT, ENDED, FIRST_BYTE, TWO, THREE = range(6)  # NEXT, TWO, THREE: so many bytes must follow
AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(6, 10)
BYTES = 10  # states between bytes; others are between the halves of one
# In this state, from this byte to that one, comes this state.
RULES = (
    *(
        (state, *rule)
        for state in (FIRST_BYTE, START)
        for rule in (
            (0x20, 0x7E, START),
            (0xC2, 0xDF, NEXT),
            (0xE0, 0xE0, AFTER_E0),
            (0xE1, 0xEC, TWO),
            (0xED, 0xED, AFTER_ED),
            (0xEE, 0xEF, TWO),
            (0xF0, 0xF0, AFTER_F0),
            (0xF1, 0xF3, THREE),
            (0xF4, 0xF4, AFTER_F4),
        )
    ),
    (START, 0, 0, ENDED),
    (ENDED, 0, 0, ENDED),
    (NEXT, 0x80, 0xBF, START),
    (TWO, 0x80, 0xBF, NEXT),
    (THREE, 0x80, 0xBF, TWO),
    (AFTER_E0, 0xA0, 0xBF, NEXT),
    (AFTER_ED, 0x80, 0x9F, NEXT),
    (AFTER_F0, 0x90, 0xBF, TWO),
    (AFTER_F4, 0x80, 0x8F, TWO),
)
NEVER = -1


class TextEstimator(Estimator):
    """Estimates of the texts that are found; before that they have no labels, nor statements."""

    method = (
        "Clopper-Pearson through the randomization, wider for what may share a bucket, and for the "
        "choice of what stands out"
    )

    @classmethod
    def estimates(
        cls, question: Text, cells: Cells, reports: int, confidence: float
    ) -> tuple[Estimate, ...]:
        return found(question, cells, reports, confidence)


def found(question: Text, cells: Cells, reports: int, confidence: float) -> tuple[Estimate, ...]:
    """Return the texts that stand out, the most frequent first."""
    counts = counts_of(question.mechanism, cells)
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
    return tuple(sorted(estimates, key=lambda text: -text.estimate))


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


def counts_of(mechanism: GroupedDesign, cells: Cells) -> Counts:
    design, groups = mechanism.each, mechanism.groups
    counted = cells[: groups * design.cells].reshape(groups, design.cells)
    gain = (design.keep - design.lie) / ONE
    empty = design.lie / ONE + gain / design.options
    supported = np.stack([support_counts(design, rows) for rows in counted])
    return Counts(supported, cells[-groups:], empty, gain * (1 - 1 / design.options))


def _standing_out(final: Counts, buckets: Cells) -> tuple[Array, Array, Array]:
    """Return each candidate's share, its p-value times the tests, and what buckets hold of others.

    The share is not-a-number where a candidate does not stand out.
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
    """Return these texts' shares, and what each bucket holds of all others beyond its part."""
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
    below, above = (noisier * far for far in shared)
    return Estimate(
        label=text,
        estimate=float(share),
        low=float(share + min((least - count / of) / final.gain, -above)),
        high=float(share + max((most - count / of) / final.gain, below)),
        standard_error=float(np.sqrt(rate * (1 - rate) / of) / final.gain),
        reports=reports,
        confidence=confidence,
        consistent=float(min(max(share, 0.0), 1.0)),
        method=TextEstimator.method,
        note=f"p-value {max(p, 1e-99):.1g}",
    )


def _shown(digits: Digits) -> Digits:
    """Return those that a person can read on a line: others are not what a device sends."""
    return np.compress([_text(row).isprintable() for row in digits], digits, axis=0)


def _text(digits: npt.NDArray[np.uint8]) -> str:
    packed = (digits[::2] << 4 | digits[1::2]).tobytes()
    return packed.rstrip(b"\0").decode()


# What random buckets hold


def reach(shares: Array, weights: Array, beyond: float) -> tuple[float, float]:
    """Return how far below and above its mean the weighted sum lies at random buckets.

    It is farther with this probability at either end. Each share counts as one step more.
    """
    parts = weights[:, None] * (shares - shares.mean(axis=1, keepdims=True))
    step = float(np.ptp(parts, axis=1).max()) / REACH_STEPS or 1.0
    ends = []
    for side in (-parts, parts):
        steps = np.ceil(side / step).astype(np.int64)
        least = steps.min(axis=1, keepdims=True)
        ends.append(int(least.sum() + (_at_least(steps - least) > beyond).sum()) * step)
    return ends[0], ends[1]


def _at_least(steps: npt.NDArray[np.int64]) -> Array:
    """Return the probability that the groups' sum at random buckets is at least 0, 1, 2 ..."""
    parts = [np.bincount(row) / len(row) for row in steps]
    return np.asarray(np.cumsum(reduce(np.convolve, parts)[::-1])[::-1])


def p_values(scores: Array, buckets: npt.NDArray[np.int64]) -> Array:
    """Return each text's p-value, by `scores[group, bucket]` and its `buckets[group, text]`."""
    steps = np.minimum(scores, MOST) / STEP
    up = np.ceil(steps).astype(np.int64)
    least = up.min(axis=1, keepdims=True)
    at_least = _at_least(up - least)
    own = np.floor(np.take_along_axis(steps, buckets, axis=1)).astype(np.int64)
    total = (own - least).sum(axis=0)
    found: Array = np.append(at_least, 0.0)[np.clip(total, 0, len(at_least))]
    return np.minimum(1.0, ROUNDING * found)


# Search


def candidates(scores: Array, beginnings: Beginnings, most: int) -> Digits:
    """Return the most credible texts as rows of digits, by `scores[group, bucket]`."""
    steps = np.minimum(scores, MOST) - BIAS
    digits = np.zeros((1, 0), np.uint8)
    states, credit = np.array([FIRST_BYTE], np.int16), np.zeros(1)
    for count in range(1, 2 * beginnings.length + 1):
        after = following()[states]
        reached = np.minimum(credit, 0.0)[:, None] + np.zeros(16)
        if (group := count - FIRST) >= 0:
            reached += steps[group][buckets_after(beginnings, group, digits)]
        ways = np.flatnonzero(after != NEVER)
        ways = ways[_highest(reached.flat[ways], KEPT)]
        parents, digit = np.divmod(ways, 16)
        digits = np.column_stack([digits[parents], digit.astype(np.uint8)])
        states, credit = after.flat[ways], reached.flat[ways]
    ended = whole(states)
    return digits[ended][_highest(credit[ended], most)]


def buckets_after(beginnings: Beginnings, group: int, digits: Digits) -> npt.NDArray[np.int64]:
    """Return the buckets of each beginning's sixteen continuations."""
    width, written = digits.shape[1], HEX[digits].tobytes()
    texts = [written[first : first + width] for first in range(0, len(written), width)]
    words = np.frombuffer(beginnings.words(group, texts), "<u2").reshape(len(digits), 16)
    return words.astype(np.int64) % beginnings.buckets


def final_buckets(beginnings: Beginnings, digits: Digits) -> npt.NDArray[np.int64]:
    """Return the buckets of these texts, a row for each of the final groups."""
    rows = np.arange(len(digits))
    return np.stack(
        [
            buckets_after(beginnings, group, digits[:, :-1])[rows, digits[:, -1]]
            for group in range(beginnings.groups - FINAL, beginnings.groups)
        ]
    )


@cache
def following() -> npt.NDArray[np.int16]:
    """Return a table: `following()[state, digit]` is the next state, or NEVER."""
    states = np.full((BYTES * 17, 16), NEVER, np.int16)
    for state, first, last, then in RULES:
        for byte in range(first, last + 1):
            half = BYTES + 16 * state + (byte >> 4)
            states[state, byte >> 4] = half
            states[half, byte & 15] = then
    return states


def whole(states: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return whether a text may end in each of these states."""
    return np.isin(states, (START, ENDED))


def _highest(values: Array, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of the highest values, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return np.argpartition(-values, most)[:most]
