"""The mean of a number that people were asked for, from how many reports bear each symbol.

Each symbol stands for a value such that every row of the table has its answer as mean; so the mean
of the values of all reports is unbiased. It is summed in whole numbers and made a float once. The
interval is that of `bounded_mean`; with two symbols it is Clopper-Pearson's exactly.

The standard error is that of the reports' values, people drawn at random, and at least that of the
table's noise where that is least: a few reports may all be equal by chance.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from operator import mul

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import bounded_mean
from deniable.server.estimation.estimate import CONFIDENCE, Points
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.survey.kinds.base import MeanQuestion

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

METHOD = (
    "Clopper-Pearson carried to many values (Gaffke), through the randomization; "
    "with more than two symbols its coverage is measured, not proved"
)


def unbiased_position(counts: list[int], table: NumberTable) -> Fraction:
    """The mean's place in the range, 0 its low end and 1 its high one, exactly."""
    weights, scale = _whole_values(table)
    total = sum(map(mul, counts, weights))
    return Fraction(total, scale * sum(counts) * table.steps)


def means(counts: Cells, question: MeanQuestion) -> Points:
    """Of a number question, in its own units."""
    reports = counts.sum(-1, keepdims=True)
    rows = counts.reshape(-1, counts.shape[-1]).tolist()
    raw = np.array([_mean(row, question) for row in rows]).reshape(reports.shape)
    errors = question.span * _standard_error(counts, reports, question.mechanism)
    return Points(raw, errors, np.clip(raw, *question.range))


def like(counts: Cells, question: MeanQuestion, confidence: float = CONFIDENCE) -> Interval:
    """The lowest and the highest mean of people like these."""
    values = _values(question.mechanism)
    return in_units(question, bounded_mean.interval(values, counts.astype(np.float64), confidence))


def in_units(question: MeanQuestion, places: Interval) -> Interval:
    """From positions in the range, of one label each."""
    first, _ = question.range
    low, high = (first + question.span * place[..., None] for place in places)
    return low, high


def _mean(counts: list[int], question: MeanQuestion) -> float:
    if not any(counts):
        return math.nan
    low, high = map(Fraction, question.range)
    return float(low + (high - low) * unbiased_position(counts, question.mechanism))


def _standard_error(counts: Cells, reports: Cells, table: NumberTable) -> Array:
    values = _values(table)
    with np.errstate(invalid="ignore"):  # without a report
        rates = counts / reports
        apart = values - np.vecdot(rates, values)[..., None]
        observed = np.vecdot(rates, apart**2)[..., None] / reports
    least = np.vectorize(table.least_variance, [np.float64])(np.maximum(reports, 1))
    return np.asarray(np.sqrt(np.maximum(observed, least)))


@lru_cache(maxsize=64)
def _whole_values(table: NumberTable) -> tuple[tuple[int, ...], int]:
    """What the symbols stand for as whole numbers, and by what to divide them."""
    scale = math.lcm(*(value.denominator for value in table.values))
    return tuple(int(value * scale) for value in table.values), scale


def _values(table: NumberTable) -> Array:
    return np.array([float(value / table.steps) for value in table.values])
