"""Point estimates and standard errors of shares, means and vectors, from the cells of a tally.

Support counts: how many reports support each option. By default the counts of the cells are added
up for each option that a cell speaks for, as `supported_by` states it: exact for any design. Where
cells are options there is nothing to add. A cyclic design has too many symbols and options for
that: its sums for all options together are the correlation of the counts with the difference set,
around the circle, by the fast Fourier transform. They are whole numbers, to which its rounding
errors, about 1e-15 of all reports, are rounded away.

Shares: a report supports an option with rate  r = f p + (1 - f) q,  f being the share of people who
hold it, p and q the probabilities `keep` and `lie` that the mechanism realises. So

    f = (r - q) / (p - q)            unbiased with r = count / reports

The interval is Clopper-Pearson's for r, sent through the same line. The standard error is that of
people drawn at random, at the possible share nearest to the estimate, so that it is never 0.
The consistent shares are adjusted to be non-negative and to sum to 1 [1]: one number is subtracted
from every share, and what falls below 0 becomes 0. They err less in total, but each is biased:
results show them next to the raw estimates, never instead of them.

Means: each symbol stands for a value such that every row of the table has its answer as mean; so
the mean of the values of all reports is unbiased. It is summed in whole numbers and made a float
once. The interval is that of `bounded_mean`; with two symbols it is Clopper-Pearson's exactly.

The standard error is that of the reports' values, people drawn at random, and at least that of the
table's noise where that is least: a few reports may all be equal by chance.

Vectors: a codeword has mean gain v if a person holds v, so the mean codeword divided by the gain
is unbiased for the mean vector. Its standard error is that of the codewords' coordinates, from the
sums of their squares: people drawn at random. What an honest report's square is expected to be lies
between `across` and `along`, and so does what is taken for it: few reports may be alike by chance.
The interval is normal: coordinates of random directions have lighter tails than normal ones. All
codewords have length one: so the squared error of the whole vector is, unbiased, (1 - |mean
codeword|^2) / ((n - 1) gain^2), and its expectation at most 1 / (n gain^2).

[1] Duchi, Shalev-Shwartz, Singer, Chandra 2008, "Efficient projections onto the l1-ball for
    learning in high dimensions", ICML.
[2] Robbins 1970, "Statistical methods related to the law of the iterated logarithm", Annals of
    Mathematical Statistics 41(5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import mul
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import intervals
from deniable.server.estimation.estimate import CONFIDENCE, Points
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.families.cyclic import CyclicDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.kinds.base import MeanQuestion

Array = npt.NDArray[np.float64]


def nearest_shares(shares: Array) -> Array:
    """Adjust one list of shares, or each row, to be non-negative and to sum to 1."""
    descending = np.sort(shares, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, shares.shape[-1] + 1)
    positive = np.count_nonzero(descending > excess, axis=-1, keepdims=True)
    nearest: Array = np.maximum(shares - np.take_along_axis(excess, positive - 1, axis=-1), 0.0)
    return nearest


Cells = npt.NDArray[np.int64]


def support_counts(design: SupportDesign, cells: Cells) -> Cells:
    """Return the number of reports that support each option, for one tally or for each row."""
    return COUNTERS.of(design)(design, cells)


def circular_correlation(design: CyclicDesign, values: npt.ArrayLike) -> Array:
    """Return the sum of the values that each shift of the difference set covers.

    The values stand on the circle from 0 on.
    """
    from scipy.fft import irfft, rfft

    given = np.asarray(values, dtype=np.float64)
    padded = np.zeros((*given.shape[:-1], design.modulus))
    padded[..., : given.shape[-1]] = given
    sums: Array = irfft(_transformed_set(design) * np.conj(rfft(padded)), design.modulus)
    return sums


def _added(design: SupportDesign, cells: Cells) -> Cells:
    if design.cells_are_options:
        return cells
    sums: Cells = cells @ _support_matrix(design)
    return sums


def _correlated(design: CyclicDesign, cells: Cells) -> Cells:
    sums = circular_correlation(design, cells)[..., : design.options]
    return np.rint(sums).astype(np.int64)


@lru_cache(maxsize=8)
def _support_matrix(design: SupportDesign) -> Cells:
    """1 where the cell, down, speaks for the option, across."""
    matrix = np.zeros((design.cells, design.options), np.int64)
    for cell in range(design.cells):
        matrix[cell, list(design.supported_by(cell))] = 1
    return matrix


@lru_cache(maxsize=8)
def _transformed_set(design: CyclicDesign) -> npt.NDArray[np.complex128]:
    from scipy.fft import rfft

    block = np.zeros(design.modulus)
    block[np.asarray(design.difference_set, np.int64)] = 1
    transformed: npt.NDArray[np.complex128] = rfft(block)
    return transformed


# Any: each function takes the family of its key
COUNTERS: FamilyTable[Callable[[Any, Cells], Cells]] = FamilyTable(
    {Mechanism: _added, CyclicDesign: _correlated}
)


Rate = TypeVar("Rate", Fraction, Array)

SHARE_METHOD = "Clopper-Pearson through the randomization"


def unbiased_share(rate: Rate, design: SupportDesign) -> Rate:
    """Return the design's own line, with a type."""
    share: Rate = design.unbiased_share(rate)
    return share


def shares(counts: Cells, reports: int | Cells, design: SupportDesign) -> Points:
    """Estimate the shares of all labels from the number of reports that support each."""
    with np.errstate(invalid="ignore"):  # without a report
        raw = unbiased_share(counts / reports, design)
    return Points(raw, _share_errors(raw, reports, design), _possible(raw))


def _share_errors(raw: Array, reports: int | Cells, design: SupportDesign) -> Array:
    p, q = design.keep / ONE, design.lie / ONE
    rate = q + np.clip(raw, 0, 1) * (p - q)
    result: Array = np.sqrt(rate * (1 - rate) / np.maximum(reports, 1)) / (p - q)
    return result


def _possible(raw: Array) -> Array:
    return nearest_shares(raw) if raw.shape[-1] > 1 else np.clip(raw, 0, 1)


Interval = tuple[Array, Array]

MEAN_METHOD = (
    "Clopper-Pearson carried to many values (Gaffke), through the randomization; "
    "with more than two symbols its coverage is measured, not proved"
)


def unbiased_position(counts: list[int], table: NumberTable) -> Fraction:
    """Return the mean's place in the range exactly, from 0 at its low end to 1 at its high end."""
    weights, scale = _whole_values(table)
    total = sum(map(mul, counts, weights))
    return Fraction(total, scale * sum(counts) * table.steps)


def means(counts: Cells, question: MeanQuestion) -> Points:
    """Estimate the mean of a number question, in its own units."""
    reports = counts.sum(-1, keepdims=True)
    rows = counts.reshape(-1, counts.shape[-1]).tolist()
    raw = np.array([_exact_mean(row, question) for row in rows]).reshape(reports.shape)
    errors = question.span * _mean_errors(counts, reports, question.mechanism)
    return Points(raw, errors, np.clip(raw, *question.range))


def like(counts: Cells, question: MeanQuestion, confidence: float = CONFIDENCE) -> Interval:
    """Limits for the mean of the population."""
    values = _values(question.mechanism)
    return in_units(question, intervals.bounded_mean(values, counts.astype(np.float64), confidence))


def in_units(question: MeanQuestion, places: Interval) -> Interval:
    """Convert limits from positions in the range to the question's units; a label each."""
    first, _ = question.range
    low, high = (first + question.span * place[..., None] for place in places)
    return low, high


def _exact_mean(counts: list[int], question: MeanQuestion) -> float:
    if not any(counts):
        return math.nan
    low, high = map(Fraction, question.range)
    return float(low + (high - low) * unbiased_position(counts, question.mechanism))


def _mean_errors(counts: Cells, reports: Cells, table: NumberTable) -> Array:
    values = _values(table)
    with np.errstate(invalid="ignore"):  # without a report
        rates = counts / reports
        apart = values - np.vecdot(rates, values)[..., None]
        observed = np.vecdot(rates, apart**2)[..., None] / reports
    least = np.vectorize(table.least_variance, [np.float64])(np.maximum(reports, 1))
    return np.asarray(np.sqrt(np.maximum(observed, least)))


@lru_cache(maxsize=64)
def _whole_values(table: NumberTable) -> tuple[tuple[int, ...], int]:
    """Return the symbols' values as whole numbers, and their common divisor."""
    scale = math.lcm(*(value.denominator for value in table.values))
    return tuple(int(value * scale) for value in table.values), scale


def _values(table: NumberTable) -> Array:
    return np.array([float(value / table.steps) for value in table.values])


VECTOR_METHOD = "normal, from the sums of squares; its coverage is measured, not proved"

LOOKED_AT = 100.0  # reports at which looking again and again costs the least


@dataclass(frozen=True)
class Whole:
    """Length of the mean vector, freed of what the noise adds to its square.

    `error` is the root mean squared length of the estimate's error.
    """

    length: float
    error: float


@dataclass(frozen=True)
class Coordinates(Points):
    """Estimated coordinates; the consistent version is the nearest vector in the unit ball."""

    def within(self, deviations: float | Array) -> tuple[Array, Array]:
        reach = deviations * self.standard_error
        return self.estimate - reach, self.estimate + reach


def coordinates(cells: Cells, reports: int | Cells, design: VectorDesign) -> Coordinates:
    mean, square = _mean_codewords(cells, reports, design)
    known = design.across, design.along
    spread = np.clip(square, min(known), max(known)) - mean**2
    least = min(design.across, design.along - design.gain**2)
    errors = np.sqrt(np.maximum(spread, least) / reports) / design.gain
    raw = mean / design.gain
    length = np.sqrt(np.vecdot(raw, raw))[..., None]
    return Coordinates(raw, errors, raw / np.maximum(1.0, length))


def deviations(reports: int, confidence: float, *, looks: bool) -> float:
    """Return how many standard errors an interval reaches.

    Those of a normal distribution, or of a normal mixture of its likelihood ratios, which holds at
    every look together [2].
    """
    if not looks:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    information = 1 + reports / LOOKED_AT
    return math.sqrt((1 + LOOKED_AT / reports) * math.log(information / (1 - confidence) ** 2))


def whole(cells: Cells, reports: int, design: VectorDesign) -> Whole:
    """Estimate the length of the mean vector, from at least two reports."""
    mean, _ = _mean_codewords(cells, reports, design)
    square = float(mean @ mean)
    error = max(0.0, 1 - square) / ((reports - 1) * design.gain**2)
    return Whole(math.sqrt(max(0.0, square / design.gain**2 - error)), math.sqrt(error))


def _mean_codewords(
    cells: Cells, reports: int | Cells, design: VectorDesign
) -> tuple[Array, Array]:
    """Return the mean codeword, and the mean of its squares."""
    both = cells / UNIT / reports
    return both[..., : design.dimension], both[..., design.dimension :]
