"""Shares of a question's options: support counts, estimates and Clopper-Pearson intervals.

Support counts: the number of reports that support each option. By default each cell's count is
added to every option in `supported_by`, which is exact for any design. If cells are options, the
cells are the support counts. A cyclic design has too many symbols and options for that: its sums,
for all options, are the circular correlation of the counts with the difference set, by the fast
Fourier transform. They are whole numbers, so rounding removes the transform's errors, about 1e-15
of all reports.

Shares: a report supports an option with rate  r = f p + (1 - f) q,  where f is the share of people
who hold it, and p and q are the mechanism's exact probabilities `keep` and `lie`. So

    f = (r - q) / (p - q)            unbiased with r = count / reports

The interval is Clopper-Pearson's for r, mapped by the same line. The standard error is computed for
a random sample of people, at the possible share nearest to the estimate, so that it is never 0. The
consistent shares are adjusted to be non-negative and to sum to 1 [1]: one number is subtracted from
every share, and negative results become 0. Their total error is smaller, but each is biased. So
results show them next to the raw estimates, never instead of them.

Clopper-Pearson [2]: with c successes in n trials the limits are the quantiles of Beta(c, n - c + 1)
and Beta(c + 1, n - c). They have at least the stated coverage, at every n and every rate. This also
holds if each trial has a different rate, as with people whose answers are fixed: such a sum is less
dispersed than a binomial of the same mean [3].

It also holds if only n of N fixed people were asked, with all sets of n equally probable. The
limits then refer to all N, including those who were not asked. With r_i the rate of person i, the
successes have the generating function, for s = 1 + t,

    sum over sets S of n people of  prod_{i in S} (1 + r_i t)  /  (N choose n)

This is an elementary symmetric polynomial of the 1 + r_i t. It has no zero with all its arguments
in the upper half-plane [4], and they are all there if t is. So all its roots in t are real: it is a
product of n terms 1 + q_j t, and the successes are again distributed like a sum of n independent
trials, whose rates q_j add up to n times the mean of r_i over all N.

Beta quantiles are slow. If both shapes are above 500, Cornish-Fisher's expansion is used, with an
error below 2.5e-5 standard deviations for z = 1.96, which grows with z. The limit is moved out by
1e-4 or, beyond z = 3.7, by 4e-8 z^6, so no coverage is lost, with up to 10^8 joint intervals.

[1] Duchi, Shalev-Shwartz, Singer, Chandra 2008, "Efficient projections onto the l1-ball for
    learning in high dimensions", ICML.
[2] Clopper, Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26(4).
[3] Hoeffding 1956, "On the distribution of the number of successes in independent trials",
    Annals of Mathematical Statistics 27(3).
[4] Borcea, Brändén, Liggett 2009, "Negative dependence and the geometry of polynomials", Journal of
    the American Mathematical Society 22(2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.roots import deduplicate_rows, least
from deniable.server.estimation.share_limits import (
    anytime_holders,
    anytime_lowest_rate,
    anytime_rates,
    share_limits,
    share_noise,
)
from deniable.server.estimation.statements import Array, Cells, Estimator, Interval, Points
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import CyclicDesign, SupportDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism

Rate = TypeVar("Rate", Fraction, Array)

LARGE = 500.0
OUTWARD, OUTWARD_FAR = 1e-4, 4e-8  # standard deviations; the second times z^6
FAR = 8  # standard deviations; a floor or a count is rarely farther from the expected count
MAX_ENUMERATED = 12.0  # standard deviation of the counts that a plan enumerates


class ShareEstimator(Estimator):
    method = "Clopper-Pearson through the randomization"

    @cached_property
    def _counts(self) -> Cells:
        return support_counts(self.mechanism, self.cells)[..., self.question.first_label :]

    @cached_property
    def points(self) -> Points:
        return shares(self._counts, self.reports, self.mechanism)

    @staticmethod
    def expected(
        question: Any,
        reports: int,
        share: float | None,
        confidence: float,
        looks: bool,
        sizes: Sequence[Array] = (),
    ) -> tuple[float, float, float]:
        share = 1 / question.mechanism.options if share is None else share
        counts, weights = likely_counts(question.mechanism, reports, share)
        made = ShareEstimator(question, counts, np.full(len(counts), reports), looks, *sizes)
        made._counts = counts[:, None]  # of one option
        low, high = (float(weights @ limit[:, 0]) for limit in made.like(confidence))
        return share, low, high

    def average_round(self, confidence: float) -> Interval:
        rates = anytime_rates if self.looks else clopper_pearson
        low, high = rates(self._counts, self.reports, confidence, self.rounds)
        return unbiased_share(low, self.mechanism), unbiased_share(high, self.mechanism)

    def these(self, confidence: float) -> Interval:
        limits = anytime_holders if self.looks else share_limits
        return limits(self._counts, self.reports, self.mechanism, confidence)

    def noise(self, these: Interval, confidence: float) -> Array:  # noqa: ARG002 # holds for any
        return share_noise(these, self.reports, self.mechanism)

    def sampling(self, like: Interval) -> Array:
        worst = np.clip(0.5, *(np.clip(limit, 0, 1) for limit in like))
        return self.largest_sampling(worst)

    @property
    def noise_of_a_report(self) -> float:
        keep, lie = self.mechanism.keep / ONE, self.mechanism.lie / ONE
        return float(min(keep * (1 - keep), lie * (1 - lie)) / (keep - lie) ** 2)

    def variance(self, confidence: float) -> Array:
        """Return the variance at the worst rate that is possible and within the limits."""
        keep, lie = self.mechanism.keep / ONE, self.mechanism.lie / ONE
        limits = clopper_pearson(self._counts, self.reports, confidence)
        rate = np.clip(0.5, *(np.clip(limit, lie, keep) for limit in limits))
        return np.asarray(rate * (1 - rate) / (self.reports * (keep - lie) ** 2))

    @property
    def step(self) -> Array:
        twice = 2 * self.reports.astype(object)  # whole numbers of any size
        step = ONE / (twice * (self.mechanism.keep - self.mechanism.lie))
        if self.rounds > 1:
            step = step + self.rounds / twice  # half a person, who may be in every round
        return np.asarray(step, np.float64)

    def floor(self, confidence: float) -> Array:
        """Return the smallest estimate that is clearly above 0."""
        if self._counts.shape[-1] == 1:
            return super().floor(confidence)
        reports = self.reports.ravel()
        lower = anytime_lowest_rate if self.looks else lowest
        trials, lie = reports.astype(np.float64), self.mechanism.lie / ONE

        def is_clear(counts: Cells) -> npt.NDArray[np.bool_]:
            counts = np.minimum(counts, reports)  # the search also evaluates reports + 1
            return np.asarray(lower(counts.astype(np.float64), trials, confidence) > lie)

        first = np.floor(trials * lie).astype(np.int64)  # expected count if no one holds the option
        far = np.ceil(FAR * np.sqrt(trials * lie * (1 - lie)) + FAR).astype(np.int64)
        beyond = np.minimum(first + far, reports)
        count = least(is_clear, first, np.where(is_clear(beyond), beyond, reports + 1))
        share = unbiased_share(count / reports, self.mechanism)
        return np.where(count <= reports, share, np.nan).reshape(self.reports.shape[:-1])


# Support counts


def support_counts(design: SupportDesign, cells: Cells) -> Cells:
    """Return the number of reports that support each option, for one tally or each row."""
    return COUNTERS.of(design)(design, cells)


def circular_correlation(design: CyclicDesign, values: npt.ArrayLike) -> Array:
    """Return the sum of the values that each rotation of the difference set covers."""
    from scipy.fft import irfft, rfft

    transformed = rfft(np.asarray(values, dtype=np.float64), design.modulus)  # padded with zeros
    return np.asarray(irfft(_transformed_set(design) * np.conj(transformed), design.modulus))


def _added(design: SupportDesign, cells: Cells) -> Cells:
    if design.cells_are_options:
        return cells
    return np.asarray(cells @ _support_matrix(design))


def _correlated(design: CyclicDesign, cells: Cells) -> Cells:
    sums = circular_correlation(design, cells)[..., : design.options]
    return np.rint(sums).astype(np.int64)


@lru_cache(maxsize=8)
def _support_matrix(design: SupportDesign) -> Cells:
    """Return a matrix with 1 if the cell (row) supports the option (column)."""
    matrix = np.zeros((design.cells, design.options), np.int64)
    for cell in range(design.cells):
        matrix[cell, list(design.supported_by(cell))] = 1
    return matrix


@lru_cache(maxsize=8)
def _transformed_set(design: CyclicDesign) -> npt.NDArray[np.complex128]:
    from scipy.fft import rfft

    block = np.zeros(design.modulus)
    block[np.asarray(design.difference_set, np.int64)] = 1
    return np.asarray(rfft(block))


# Any: each function takes the family of its key
COUNTERS: FamilyTable[Callable[[Any, Cells], Cells]] = FamilyTable(
    {Mechanism: _added, CyclicDesign: _correlated}
)


# Estimates


def unbiased_share(rate: Rate, design: SupportDesign) -> Rate:
    share: Rate = design.unbiased_share(rate)
    return share


def shares(counts: Cells, reports: int | Cells, design: SupportDesign) -> Points:
    """Estimate the shares of all labels from the number of reports that support each."""
    with np.errstate(invalid="ignore"):  # without a report
        raw = unbiased_share(counts / reports, design)
    possible = nearest_shares(raw) if raw.shape[-1] > 1 else np.clip(raw, 0, 1)
    return Points(raw, _share_errors(raw, reports, design), possible)


def _share_errors(raw: Array, reports: int | Cells, design: SupportDesign) -> Array:
    p, q = design.keep / ONE, design.lie / ONE
    rate = q + np.clip(raw, 0, 1) * (p - q)
    return np.asarray(np.sqrt(rate * (1 - rate) / np.maximum(reports, 1)) / (p - q))


def nearest_shares(shares: Array) -> Array:
    """Adjust one list of shares, or each row, to be non-negative and to sum to 1."""
    descending = np.sort(shares, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, shares.shape[-1] + 1)
    positive = np.count_nonzero(descending > excess, axis=-1, keepdims=True)
    return np.maximum(shares - np.take_along_axis(excess, positive - 1, axis=-1), 0.0)


# Limits for the population


def population_limits(
    design: SupportDesign, counts: Cells, reports: int | Cells, confidence: float, looks: bool
) -> Interval:
    rates = anytime_rates if looks else clopper_pearson
    low, high = rates(counts, reports, confidence)
    return unbiased_share(low, design), unbiased_share(high, design)


def expected_limits(
    design: SupportDesign, reports: int, share: float, confidence: float, looks: bool
) -> tuple[float, float]:
    """Return the mean of the limits over the law of an option's count."""
    counts, weights = likely_counts(design, reports, share)
    limits = population_limits(design, counts, reports, confidence, looks)
    low, high = (float(weights @ limit) for limit in limits)
    return low, high


def likely_counts(design: SupportDesign, reports: int, share: float) -> tuple[Cells, Array]:
    """Return an option's counts that are not negligibly rare, and their probabilities.

    If the count varies by more than MAX_ENUMERATED, return only its mean: the limits there equal
    the mean of the limits, to within 0.1 % of their distance.
    """
    rate = (design.lie + share * (design.keep - design.lie)) / ONE
    mean, spread = reports * rate, math.sqrt(reports * rate * (1 - rate))
    counts, weights = np.array([round(mean)]), np.ones(1)
    if spread <= MAX_ENUMERATED:
        from scipy.special import gammaln, xlog1py, xlogy

        first, last = mean - FAR * (spread + 1), mean + FAR * (spread + 1)
        counts = np.arange(max(0, math.floor(first)), min(reports, math.ceil(last)) + 1)
        ways = -gammaln(counts + 1) - gammaln(reports - counts + 1)
        logarithms = ways + xlogy(counts, rate) + xlog1py(reports - counts, -rate)
        weights = np.exp(logarithms - logarithms.max())
    return counts, weights / weights.sum()


# Clopper-Pearson intervals


@deduplicate_rows
def clopper_pearson(
    successes: Array, trials: Array, confidence: float, rounds: int = 1
) -> tuple[Array, Array]:
    """Return the lowest and the highest rate compatible with each count of an average round."""
    successes, trials = successes / rounds, trials / rounds
    failures, tail = trials - successes, (1 - confidence) / 2
    high = beta_quantile(successes + 1, np.maximum(failures, 1), 1 - tail)
    return lowest(successes, trials, confidence), np.where(failures >= 1, high, 1.0)


def lowest(successes: Array, trials: Array, confidence: float) -> Array:
    """Return the lower limit of `clopper_pearson`."""
    tail = (1 - confidence) / 2
    low = beta_quantile(np.maximum(successes, 1), trials - successes + 1, tail)
    return np.where(successes >= 1, low, 0.0)


def beta_quantile(a: Array, b: Array, probability: float) -> Array:
    """Return the quantile of Beta(a, b), slightly farther from its mean if both are large."""
    from scipy.special import betaincinv

    large = np.minimum(a, b) > LARGE
    result = np.empty_like(a)
    result[~large] = betaincinv(a[~large], b[~large], probability)
    result[large] = _expansion(a[large], b[large], NormalDist().inv_cdf(probability))
    return result


def _expansion(a: Array, b: Array, z: float) -> Array:
    total = a + b
    spread = np.sqrt(a * b / (total + 1)) / total
    skew = 2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(a * b))
    peak = 6 * ((a - b) ** 2 * (total + 1) / (a * b) - (total + 2)) / ((total + 2) * (total + 3))
    bends = skew * (z**2 - 1) / 6 + peak * (z**3 - 3 * z) / 24 - skew**2 * (2 * z**3 - 5 * z) / 36
    outward = np.copysign(max(OUTWARD, OUTWARD_FAR * z**6), z)
    return np.asarray(a / total + spread * (z + bends + outward))
