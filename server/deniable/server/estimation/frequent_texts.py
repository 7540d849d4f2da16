"""Frequent texts, found without a list of them: search, test, estimate.

Search: promising beginnings of texts are extended digit by digit. Counting beginnings of one length
in each group is the idea of [1]; adding up the evidence along a path is that of [2]. Only digits
that keep a beginning well-formed UTF-8 may follow, without control characters; zeros fill the end
of a text (The Unicode Standard 15.0, table 3-7). The state of a beginning is what may follow: a
byte, or the lower half of a byte whose upper half is given.

Each group, except the final ones, counts in buckets how many people hold each beginning of one
length. With z the standard score of a beginning's bucket, its credit is

    credit = min(credit of the beginning without its last digit, 0) + min(z, MAX_SCORE) - BIAS

Up to a scale, this is the logarithm of the odds that a frequent text has this beginning. The
evidence of all lengths adds up, but a certain beginning is no evidence for a continuation. A bucket
that is full because of another beginning adds at most MAX_SCORE, and only once, since each group
has its own hash. BIAS is half of the z of a text at the floor, plus the cost of a choice among
sixteen continuations.

After a wrong digit the credit decreases with every group. Even next to more frequent texts, at most
a few thousand wrong beginnings have more credit than a text at the floor, and KEPT has room for
them. So the search finds texts that are too rare to stand out in any one group.

Exact p-values: the hash puts a text into random buckets, and nothing in the tally depends on a text
that no one reports. So any score of such a text is distributed like the same score at random
buckets of this tally: one in each of the final groups, independently. That includes the noise and
all other texts in those buckets, with no assumption about either. It assumes that no one forges
reports, or chooses texts, to match a certain hash.

The score is the sum of the groups' standard scores, each at most MAX_SCORE, so that one crowded
bucket is not enough. Scores are rounded to whole steps: up for random buckets, down for the text.

Texts that stand out have a share, an interval and a p-value, from the final groups alone. The
candidates come from the other groups' reports, so they do not depend on the final groups. At most
TESTED candidates are tested, in LOOKS passes. Each pass subtracts the texts found so far from the
counts, so that frequent texts hide no others. A text is found if its p-value is at most
FALSE_DISCOVERY / (LOOKS tested). So the probability of listing any text that no one reported is at
most FALSE_DISCOVERY, whatever people answer, as long as no report is forged.

The buckets of found texts are known; the hash spreads all other texts over the K buckets. Let f_j
be the shares of the found texts and F their sum, c_ij the fraction of the final reports whose group
has texts i and j in one bucket, and p and q the design's probabilities. The expected rate of
reports that support text i is

    r_i = q + (p - q) (sum over j of c_ij f_j + (1 - F) / K)

There are as many of these linear equations as shares, so they are solved together. With
g = (p - q) (1 - 1/K) and c_ii = 1,

    sum over j of (K c_ij - 1) / (K - 1) f_j = (r_i - q - (p - q) / K) / g

which is unbiased over the hash of all other texts, at any F. If no bucket is shared, each f_i also
has 1 / (K - 1) of the sum of the other R - 1 errors: sqrt(R - 1) / (K - 1) times its own error if
all are similar and independent, and at most (R - 1) / (K - 1) times the largest.

The interval is Clopper-Pearson's for the final groups together, shifted by the correction for other
texts. On either side it extends at least as far as the same estimate at random buckets deviates
from its expectation, after subtracting the found texts. So it allows for texts that share a bucket
but are not listed. If R of m texts are found, its confidence is 1 - (1 - 0.95) R / m: after this
selection, at most 5 % of the listed intervals are expected to miss [3].

[1] Wang, Li, Jha 2018, "Locally differentially private heavy hitter identification", IEEE
    Transactions on Dependable and Secure Computing 18(2).
[2] Fano 1963, "A heuristic discussion of probabilistic decoding", IEEE Transactions on Information
    Theory 9(2).
[3] Benjamini, Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals for
    selected parameters", Journal of the American Statistical Association 100(469).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.shares import (
    clopper_pearson,
    expected_limits,
    support_counts,
)
from deniable.server.estimation.statements import Array, Cells, Estimate, Estimator
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.survey.kinds.text import FINAL, FIRST, Beginnings, Text

Digits = npt.NDArray[np.uint8]  # a row for each beginning

FALSE_DISCOVERY = 0.01
TESTED, LOOKS = 1_000, 3
STEP = 0.02  # step of a score
REACH_STEPS = 2_000  # minimum number of steps between the smallest and the largest share of a group
ROUNDING = 1 + 1e-9  # bounds the rounding error of the sums of probabilities
KEPT = 32_768  # number of beginnings kept at each length
BIAS, MAX_SCORE = 2.4, 5.0
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

START, NEXT, ENDED, FIRST_BYTE, TWO, THREE = range(6)  # NEXT, TWO, THREE: 1, 2, 3 bytes must follow
AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(6, 10)
BYTES = 10  # number of states between bytes; the others are between the halves of a byte
# (state, first byte, last byte, next state)
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
    """Estimator of the texts that it finds; they have no labels in advance, so no statements."""

    method = (
        "Clopper-Pearson through the randomization, widened for unlisted texts in the same bucket "
        "and for the selection of texts that stand out"
    )

    @staticmethod
    def expected(
        question: Text,
        reports: int,
        share: float | None,
        confidence: float,
        looks: bool,  # noqa: ARG004 # intervals of texts hold for one look
        sizes: Sequence[Array] = (),  # noqa: ARG004 # and for one round
    ) -> tuple[float, float, float]:
        """Return the limits of a text that stands out alone; by default, of the rarest one."""
        design, groups = question.mechanism.each, question.mechanism.groups
        share = min(1.0, question.mechanism.floor(reports)) if share is None else share
        gain, sure = 1 - 1 / design.options, 1 - (1 - confidence) / TESTED
        bucket = share * gain + 1 / design.options  # with its part of the other texts
        final = max(1, round(reports * FINAL / groups))
        low, high = expected_limits(design, final, bucket, sure, looks=False)
        return share, share + (low - bucket) / gain, share + (high - bucket) / gain

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
    reports: Cells  # reports of each group
    empty: float  # rate of support for a bucket with only its part of the other texts
    gain: float  # increase of that rate per unit of share

    @property
    def shares(self) -> Array:
        rates = self.supports / np.maximum(self.reports, 1)[:, None]
        return (rates - self.empty) / self.gain

    @property
    def weights(self) -> Array:
        return np.asarray(self.reports / max(1, self.reports.sum()))

    @property
    def errors(self) -> Array:
        """Standard deviation of the share of an empty bucket."""
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
    """Return each candidate's share and corrected p-value, and the others' share of each bucket.

    The share is NaN if a candidate does not stand out.
    """
    left, tested = final.shares, buckets.shape[1]
    shares, p = np.full(tested, np.nan), np.ones(tested)
    for _ in range(LOOKS if tested else 0):
        corrected = np.minimum(1.0, LOOKS * tested * p_values(left / final.errors, buckets))
        new = np.isnan(shares) & (corrected <= FALSE_DISCOVERY)
        if not new.any():
            break
        p[new] = corrected[new]
        chosen = new | ~np.isnan(shares)
        shares[chosen], left = _taken_out(final, buckets[:, chosen])
    return shares, p, left


def _taken_out(final: Counts, buckets: Cells) -> tuple[Array, Array]:
    """Return these texts' shares, and the excess share that other texts have in each bucket."""
    options = final.supports.shape[1]
    rates = final.weights @ np.take_along_axis(final.shares, buckets, axis=1)
    overlaps = _overlaps(final.weights, buckets, options)
    # Not `solve`: forgers might get two texts with the same buckets listed.
    shares = np.asarray(np.linalg.lstsq(overlaps, rates)[0], np.float64)
    left = final.shares + shares.sum() / (options - 1)
    np.subtract.at(left, (np.arange(FINAL)[:, None], buckets), shares * options / (options - 1))
    return shares, left


def _overlaps(weights: Array, buckets: Cells, options: int) -> Array:
    """Return the fraction of text j's share that appears in text i's rate, as matrix[i, j]."""
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
        note=f"p-value {max(p, 1e-99):.1g}",
    )


def _shown(digits: Digits) -> Digits:
    """Return the printable texts; devices send no others."""
    return np.compress([_text(row).isprintable() for row in digits], digits, axis=0)


def _text(digits: npt.NDArray[np.uint8]) -> str:
    packed = (digits[::2] << 4 | digits[1::2]).tobytes()
    return packed.rstrip(b"\0").decode()


# Random buckets


def reach(shares: Array, weights: Array, beyond: float) -> tuple[float, float]:
    """Return how far the weighted sum at random buckets lies below and above its mean.

    It is farther with probability `beyond` at either end. Each share is rounded up by one step.
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
    steps = np.minimum(scores, MAX_SCORE) / STEP
    up = np.ceil(steps).astype(np.int64)
    least = up.min(axis=1, keepdims=True)
    at_least = _at_least(up - least)
    own = np.floor(np.take_along_axis(steps, buckets, axis=1)).astype(np.int64)
    total = (own - least).sum(axis=0)
    p: Array = np.append(at_least, 0.0)[np.clip(total, 0, len(at_least))]
    return np.minimum(1.0, ROUNDING * p)


# Search


def candidates(scores: Array, beginnings: Beginnings, most: int) -> Digits:
    """Return up to `most` texts with the highest credit, as rows of digits."""
    steps = np.minimum(scores, MAX_SCORE) - BIAS
    digits = np.zeros((1, 0), np.uint8)
    states, credit = np.array([FIRST_BYTE], np.int16), np.zeros(1)
    for count in range(1, 2 * beginnings.length + 1):
        after = following()[states]
        extended = np.minimum(credit, 0.0)[:, None] + np.zeros(16)
        if (group := count - FIRST) >= 0:
            extended += steps[group][buckets_after(beginnings, group, digits)]
        children = np.flatnonzero(after != NEVER)
        children = children[_highest(extended.flat[children], KEPT)]
        parents, digit = np.divmod(children, 16)
        digits = np.column_stack([digits[parents], digit.astype(np.uint8)])
        states, credit = after.flat[children], extended.flat[children]
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
    texts, groups = np.arange(len(digits)), range(beginnings.groups - FINAL, beginnings.groups)
    rows = (buckets_after(beginnings, group, digits[:, :-1]) for group in groups)
    return np.stack([row[texts, digits[:, -1]] for row in rows])


@cache
def following() -> npt.NDArray[np.int16]:
    """Return a table: `following()[state, digit]` is the next state, or NEVER."""
    states = np.full((BYTES * 17, 16), NEVER, np.int16)
    for state, first, last, next_state in RULES:
        for byte in range(first, last + 1):
            half = BYTES + 16 * state + (byte >> 4)
            states[state, byte >> 4] = half
            states[half, byte & 15] = next_state
    return states


def whole(states: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return whether a text may end in each of these states."""
    return np.isin(states, (START, ENDED))


def _highest(values: Array, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of the highest values, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return np.argpartition(-values, most)[:most]
