"""Means of numbers and of vectors.

Numbers: the symbols' values are chosen so that the mean under each row of the table is the row's
answer, so the mean of the values of all reports is unbiased. It is summed in whole numbers and
converted to a float once. The interval comes from `bounded_mean`. The standard error comes from the
reports' values, for a random sample of people, but is at least the least noise of the table,
because a few reports may all be equal by chance.

Vectors: a codeword has mean gain v if a person holds v, so the mean codeword divided by the gain is
unbiased for the mean vector. Its standard error comes from the sums of squares of the codewords'
coordinates, for a random sample of people. The expected square of an honest report lies between
`across` and `along`, so its estimate is clamped to that range: a few reports may be equal by
chance. If a codeword's coordinate has the mean μ, and in n reports the mean y and the mean square
Q, increased by z² (along - across) / n, the limits are the two solutions of [2]

    |y - μ|  =  z √((Q - μ²) / n),       moved outward by  max(1, (z² - 1) / 3) s / n

The limits hold even if a few people who point elsewhere were not sampled. As for counts, the second
term allows for skewness, with s = √(3 along) (1 + gain) / 2, at most (1 + gain) / 2, for half of
the largest usual change by one report. A factor 1 + (z² + 1) / (4 n) of z, Student's to first
order, allows for the error of Q. With fewer than FEWEST reports the limits are -1 and 1. All
codewords have length one, so (1 - |mean codeword|^2) / ((n - 1) gain^2) is unbiased for the squared
error of the whole vector, whose expectation is at most 1 / (n gain^2).

[1] Robbins 1970, "Statistical methods related to the law of the iterated logarithm", Annals of
    Mathematical Statistics 41(5).
[2] Wilson 1927, "Probable inference, the law of succession, and statistical inference", Journal of
    the American Statistical Association 22(158).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import mul

import numpy as np

from deniable.server.estimation.mean_limits import (
    anytime_mean_of_these,
    bounded_mean,
    mean_limits,
    mean_noise,
    mean_step,
    population_mean,
    positions,
)
from deniable.server.estimation.statements import (
    Array,
    Cells,
    Estimator,
    Interval,
    Points,
    Whole,
    deviates,
)
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.survey.kinds.base import MeanQuestion
from deniable.shared.survey.kinds.vector import Vector

FEWEST = 100  # reports of a vector that an interval needs
CHEAPEST_REPORTS = 100.0  # number of reports at which repeated looks cost the least


class MeanEstimator(Estimator):
    method = (
        "Clopper-Pearson generalized to many values (Gaffke), through the randomization; "
        "with more than two symbols its coverage is measured, not proved"
    )

    @staticmethod
    def table(question: MeanQuestion) -> NumberTable:
        return question.mechanism

    @cached_property
    def _counts(self) -> Array:
        return self.cells.astype(np.float64)

    @cached_property
    def points(self) -> Points:
        reports = self.cells.sum(-1, keepdims=True)
        rows = self.cells.reshape(-1, self.cells.shape[-1]).tolist()
        raw = np.array([_exact_mean(row, self.question) for row in rows]).reshape(reports.shape)
        errors = self.question.span * _mean_errors(self.cells, reports, self.mechanism)
        return Points(raw, errors, np.clip(raw, *self.question.range))

    @staticmethod
    def expected(
        question: MeanQuestion,
        reports: int,
        share: float | None,
        confidence: float,
        looks: bool,
        sizes: Sequence[Array] = (),
    ) -> tuple[float, float, float]:
        table, (low, _) = question.mechanism, question.range
        held = np.full(table.answers, 1 / table.steps)
        held[[0, -1]] /= 2
        if share is not None:
            held[:], held[0], held[-1] = 0, 1 - share, share
        rates = held @ [[units / ONE for units in row] for row in table.rows]
        made = MeanEstimator(question, reports * rates, reports, looks, *sizes)
        mean = np.array([low + question.span * (rates @ positions(table))])
        made.points = Points(mean, mean, mean)  # the counts are not whole numbers
        least, most = (float(limit[0]) for limit in made.like(confidence))
        return float(mean[0]), least, most

    def average_round(self, confidence: float) -> Interval:
        values, counts = positions(self.mechanism), self._counts / self.rounds
        return self._in_units(population_mean(values, counts, confidence, self.looks))

    def likes(self, confidence: float, joint: float) -> tuple[Interval, Interval]:
        if self.looks or self.rounds > 1 or joint == confidence:
            return super().likes(confidence, joint)
        limits = bounded_mean(positions(self.mechanism), self._counts, [confidence, joint])
        first, second = map(self._in_units, zip(*limits, strict=True))
        return first, second

    def these(self, confidence: float) -> Interval:
        limits = anytime_mean_of_these if self.looks else mean_limits
        return self._in_units(limits(self.mechanism, self._counts, confidence))

    def noise(self, these: Interval, confidence: float) -> Array:  # noqa: ARG002 # needs no limits
        variance = mean_noise(self.mechanism, self._counts)[..., None]
        return np.asarray(self.question.span**2 * variance)

    def sampling(self, like: Interval) -> Array:
        """Bound the variance of people's values by that of the two ends of the range."""
        first, last = self.question.range
        worst = np.clip((first + last) / 2, *(np.clip(limit, first, last) for limit in like))
        span = self.question.span
        return np.asarray(span**2 * self.largest_sampling((worst - first) / span))

    @property
    def noise_of_a_report(self) -> float:
        return float(self.mechanism.least_variance(1))

    @property
    def step(self) -> Array:
        reports = self._counts.sum(-1, keepdims=True)
        return np.asarray(self.question.span * mean_step(self.mechanism, reports))

    def _in_units(self, places: Interval) -> Interval:
        """Convert limits from positions in the range to the question's units."""
        first, _ = self.question.range
        low, high = (first + self.question.span * limit[..., None] for limit in places)
        return low, high


def unbiased_position(counts: list[int], table: NumberTable) -> tuple[int, int]:
    """Return the mean as a position in the range, from 0 to 1: numerator and denominator."""
    weights, scale = _whole_values(table)
    return sum(map(mul, counts, weights)), scale * sum(counts) * table.steps


def _exact_mean(counts: list[int], question: MeanQuestion) -> float:
    """Return the mean after one division of whole numbers, which Python rounds correctly."""
    if not any(counts):
        return math.nan
    low, high = map(Fraction, question.range)
    total, scale = unbiased_position(counts, question.mechanism)
    first, last = low.numerator * high.denominator, high.numerator * low.denominator
    return (first * scale + (last - first) * total) / (low.denominator * high.denominator * scale)


def _mean_errors(counts: Cells, reports: Cells, table: NumberTable) -> Array:
    values = positions(table)
    with np.errstate(invalid="ignore"):  # without reports
        rates = counts / reports
        squares = (values - np.vecdot(rates, values)[..., None]) ** 2
        observed = np.vecdot(rates, squares)[..., None] / reports
    least = np.vectorize(table.least_variance, [np.float64])(np.maximum(reports, 1))
    return np.asarray(np.sqrt(np.maximum(observed, least)))


@lru_cache(maxsize=64)
def _whole_values(table: NumberTable) -> tuple[tuple[int, ...], int]:
    """Return the symbols' values as whole numbers, and their common divisor."""
    scale = math.lcm(*(value.denominator for value in table.values))
    return tuple(int(value * scale) for value in table.values), scale


class VectorEstimator(Estimator):
    """Estimator of mean vectors. Limits for the population also hold for the respondents."""

    method = "Wilson's interval with a term for skewness; its coverage is measured, not proved"
    noise_has_sampling = True

    @staticmethod
    def whole(question: Vector, cells: Cells, reports: int) -> Whole | None:
        return whole(cells, reports, question.mechanism) if reports > 1 else None

    @cached_property
    def points(self) -> Points:
        return coordinates(self.cells, self.reports, self.mechanism)

    @staticmethod
    def expected(
        question: Vector,
        reports: int,
        share: float | None,  # noqa: ARG004 # vectors have none
        confidence: float,
        looks: bool,
        sizes: Sequence[Array] = (),
    ) -> tuple[float, float, float]:
        """Return the limits of a coordinate if all directions are equally common."""
        sums = np.repeat(
            [0, UNIT * reports / question.mechanism.dimension], question.mechanism.dimension
        )
        made = VectorEstimator(question, sums, reports, looks, *sizes)
        low, high = (float(limit[0]) for limit in made.like(confidence))
        return 0.0, low, high

    def these(self, confidence: float) -> Interval:
        sums = _mean_codewords(self.cells, self.reports, self.mechanism)
        return coordinate_limits(*sums, self.reports, self.mechanism, confidence, self.looks)

    def average_round(self, confidence: float) -> Interval:
        """Widen the limits as if all of the error came from sampling the same people."""
        (low, high), middle = self.these(confidence), self.points.estimate
        factor = math.sqrt(self.rounds)
        return middle - factor * (middle - low), middle + factor * (high - middle)

    def sampling(self, like: Interval) -> Array:
        """Bound the variance of a coordinate of people's vectors, whose length is one."""
        nearest = np.clip(0, *(np.clip(limit, -1, 1) for limit in like))
        return np.asarray(4 * self.largest_sampling((1 + nearest) / 2))

    @property
    def noise_of_a_report(self) -> float:
        return 0.0  # `noise` contains the sampling, so differences subtract limits

    def noise(self, these: Interval, confidence: float) -> Array:
        return self.variance_of(these, confidence)

    @property
    def step(self) -> Array:
        return np.asarray(1 / (2 * self.reports * self.mechanism.gain))


def coordinates(cells: Cells, reports: int | Cells, design: VectorDesign) -> Points:
    """Estimate the coordinates; the consistent version is the nearest vector in the unit ball."""
    mean, square = _mean_codewords(cells, reports, design)
    known = design.across, design.along
    spread = np.clip(square, min(known), max(known)) - mean**2
    least = min(design.across, design.along - design.gain**2)
    errors = np.sqrt(np.maximum(spread, least) / reports) / design.gain
    raw = mean / design.gain
    length = np.sqrt(np.vecdot(raw, raw))[..., None]
    return Points(raw, errors, raw / np.maximum(1.0, length))


def coordinate_limits(
    mean: Array, square: Array, reports: Cells, design: VectorDesign, confidence: float, looks: bool
) -> Interval:
    """Return the limits of each coordinate from the means of the codewords and of their squares."""
    known, z = (design.across, design.along), deviations(reports, confidence, looks=looks)
    z = z * (1 + (z**2 + 1) / (4 * reports))
    part, least = z**2 / reports, min(design.across, design.along - design.gain**2)
    unseen = square + part * (design.along - design.across)
    spread = (1 + part) * np.clip(unseen, min(known), max(known)) - mean**2
    farthest = math.sqrt(min(1, 3 * design.along)) * (1 + design.gain) / 2
    step = np.maximum(1, (z**2 - 1) / 3) * farthest / reports
    reach = np.sqrt(part * np.maximum(spread, least)) / (1 + part) + step
    ends = ((mean / (1 + part) + side * reach) / design.gain for side in (-1, 1))
    widest = (side * np.maximum(1, side * mean / design.gain) for side in (-1, 1))
    low, high = (np.where(reports < FEWEST, *pair) for pair in zip(widest, ends, strict=True))
    return low, high


def deviations(reports: int | Cells, confidence: float, *, looks: bool) -> Array:
    """Return the half width of a normal interval in standard errors.

    With `looks`, a normal mixture of likelihood ratios makes it hold at every look [1].
    """
    if not looks:
        return np.asarray(deviates(confidence))
    logarithm = np.log((1 + reports / CHEAPEST_REPORTS) / (1 - confidence) ** 2)
    return np.asarray(np.sqrt((1 + CHEAPEST_REPORTS / reports) * logarithm))


def whole(cells: Cells, reports: int, design: VectorDesign) -> Whole:
    """Estimate the length of the mean vector, from at least two reports."""
    mean, _ = _mean_codewords(cells, reports, design)
    square = float(mean @ mean)
    error = max(0.0, 1 - square) / ((reports - 1) * design.gain**2)
    return Whole(math.sqrt(max(0.0, square / design.gain**2 - error)), math.sqrt(error))


def _mean_codewords(
    cells: Cells, reports: int | Cells, design: VectorDesign
) -> tuple[Array, Array]:
    """Return the mean codeword, and the mean of the squared coordinates."""
    both = cells / UNIT / reports
    return both[..., : design.dimension], both[..., design.dimension :]
