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

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import bounded_mean
from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.survey.questions import Number

METHOD = (
    "Clopper-Pearson carried to many values (Gaffke), through the randomization; "
    "with more than two symbols its coverage is measured, not proved"
)


def unbiased_position(counts: list[int], table: NumberTable) -> Fraction:
    """The mean's place in the range, 0 its low end and 1 its high one, exactly."""
    values = table.values
    scale = math.lcm(*(value.denominator for value in values))
    total = sum(
        count * value.numerator * (scale // value.denominator)
        for count, value in zip(counts, values, strict=True)
    )
    return Fraction(total, scale * sum(counts) * table.steps)


def mean(
    counts: npt.NDArray[np.int64], question: Number, confidence: float = CONFIDENCE
) -> Estimate:
    """Of a number question, in its own units."""
    table, low_end = question.mechanism, Fraction(question.low)
    span = Fraction(question.high) - low_end
    reports = int(counts.sum())
    raw = math.nan
    if reports:
        raw = float(low_end + span * unbiased_position(counts.tolist(), table))
    values = np.array([float(value / table.steps) for value in table.values])
    low, high = bounded_mean.interval(values, counts.astype(np.float64), confidence)
    error = _standard_error(values, counts, table) if reports else math.nan
    return Estimate(
        label=question.labels[0],
        estimate=raw,
        low=float(low_end) + float(span) * low,
        high=float(low_end) + float(span) * high,
        standard_error=float(span) * error,
        reports=reports,
        confidence=confidence,
        consistent=min(max(raw, float(low_end)), float(question.high)),
        method=METHOD,
    )


def _standard_error(
    values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], table: NumberTable
) -> float:
    reports = int(counts.sum())
    rates = counts / reports
    centre = float(rates @ values)
    observed = float(rates @ (values - centre) ** 2) / reports
    return math.sqrt(max(observed, table.least_variance(reports)))
