"""Estimators: for each way of estimating, one object with all that the server does by it.

A kind of question names its way in `estimation`. So a new kind that is estimated like another needs
nothing here, and a new way of estimating needs one class and its line in `ESTIMATORS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import (
    anytime_valid,
    finite_population,
    intervals,
    point_estimates,
    text_estimates,
)
from deniable.server.estimation.estimate import CONFIDENCE, Estimate, Points
from deniable.server.estimation.point_estimates import support_counts
from deniable.server.estimation.roots import least
from deniable.server.estimation.statements import Counted, Interval
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.kinds.base import Estimation, MeanQuestion, Question, ShareQuestion
from deniable.shared.survey.kinds.text import Text
from deniable.shared.survey.kinds.vector import Vector

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

FAR = 8  # standard deviations, beyond which a floor hardly ever is


def estimates(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    """Return one estimate for each of the question's labels; of a text, for each that is found."""
    return estimator(question).estimates(question, cells, reports, confidence)


def counted(question: Question, cells: Cells, reports: int | Cells, looks: bool = False) -> Counted:
    """Return the estimates of a question with labels. Only what is read from them is computed."""
    return estimator(question).counted(question, cells, np.asarray(reports)[..., None], looks)


def estimator(question: Question) -> Estimator:
    return ESTIMATORS[question.estimation]


class Estimator:
    """One way of estimating. Any: the questions whose `estimation` names it."""

    method: ClassVar[str]  # its description in results

    def counted(self, question: Any, cells: Cells, reports: Cells, looks: bool) -> Counted:  # noqa: ARG002 # of labels only
        raise TypeError("it has no labels before its reports are searched; use `estimates`")

    def estimates(
        self, question: Any, cells: Cells, reports: int, confidence: float
    ) -> tuple[Estimate, ...]:
        counts = counted(question, cells, reports)
        points = counts.points
        arrays = (points.estimate, *counts.like(confidence), points.standard_error)
        rows = zip(
            question.labels,
            *(array.tolist() for array in (*arrays, points.consistent)),
            strict=True,
        )
        return tuple(
            Estimate(label, raw, low, high, error, reports, confidence, near, self.method)
            for label, raw, low, high, error, near in rows
        )

    def whole(self, question: Any, cells: Cells, reports: int) -> point_estimates.Whole | None:  # noqa: ARG002 # of vectors only
        """Return the length of the mean vector and its error, from at least two reports."""
        return None

    def table(self, question: Any) -> NumberTable | None:  # noqa: ARG002 # of means only
        """Return the table whose counts also tell the distribution."""
        return None


class ShareEstimator(Estimator):
    method = point_estimates.SHARE_METHOD

    def counted(self, question: Any, cells: Cells, reports: Cells, looks: bool) -> Counted:
        return ShareCounts(question, cells, reports, looks)


class MeanEstimator(Estimator):
    method = point_estimates.MEAN_METHOD

    def counted(self, question: Any, cells: Cells, reports: Cells, looks: bool) -> Counted:  # noqa: ARG002 # its cells add up to them
        return MeanCounts(question, cells, looks)

    def table(self, question: MeanQuestion) -> NumberTable:
        return question.mechanism


class VectorEstimator(Estimator):
    method = point_estimates.VECTOR_METHOD

    def counted(self, question: Any, cells: Cells, reports: Cells, looks: bool) -> Counted:
        return VectorCounts(question, cells, reports, looks)

    def whole(self, question: Vector, cells: Cells, reports: int) -> point_estimates.Whole | None:
        return point_estimates.whole(cells, reports, question.mechanism) if reports > 1 else None


class TextEstimator(Estimator):
    method = text_estimates.METHOD

    def estimates(
        self, question: Text, cells: Cells, reports: int, confidence: float
    ) -> tuple[Estimate, ...]:
        return text_estimates.found(question, cells, reports, confidence)


class MeanCounts(Counted):
    def __init__(self, question: MeanQuestion, cells: Cells, looks: bool) -> None:
        self._question, self._cells, self._looks = question, cells, looks
        self._table, self._counts = question.mechanism, cells.astype(np.float64)

    @cached_property
    def points(self) -> Points:
        return point_estimates.means(self._cells, self._question)

    def like(self, confidence: float) -> Interval:
        if not self._looks:
            return point_estimates.like(self._cells, self._question, confidence)
        values = finite_population.positions(self._table)
        found = anytime_valid.mean(values, self._counts, confidence)
        return point_estimates.in_units(self._question, found)

    def these(self, confidence: float) -> Interval:
        of = anytime_valid.mean_of_these if self._looks else finite_population.mean_limits
        return point_estimates.in_units(self._question, of(self._table, self._counts, confidence))

    def noise(self, these: Interval) -> Array:  # noqa: ARG002 # it is known without them
        return (
            self._question.span**2
            * finite_population.mean_noise(self._table, self._counts)[..., None]
        )

    @property
    def step(self) -> Array:
        reports = self._counts.sum(-1, keepdims=True)
        return self._question.span * finite_population.mean_step(self._table, reports)


class ShareCounts(Counted):
    def __init__(self, question: ShareQuestion, cells: Cells, reports: Cells, looks: bool) -> None:
        self._design, self._reports, self._looks = question.mechanism, reports, looks
        self._counts = support_counts(self._design, cells)[..., question.first_label :]

    @cached_property
    def points(self) -> Points:
        return point_estimates.shares(self._counts, self._reports, self._design)

    def like(self, confidence: float) -> Interval:
        rates = anytime_valid.rates if self._looks else intervals.clopper_pearson
        low, high = rates(self._counts, self._reports, confidence)
        return point_estimates.unbiased_share(low, self._design), point_estimates.unbiased_share(
            high, self._design
        )

    def these(self, confidence: float) -> Interval:
        of = anytime_valid.holders if self._looks else finite_population.share_limits
        return of(self._counts, self._reports, self._design, confidence)

    def noise(self, these: Interval) -> Array:
        return finite_population.share_noise(these, self._reports, self._design)

    @property
    def step(self) -> Array:
        twice = 2 * self._reports.astype(object)  # whole numbers of any size
        return (ONE / (twice * (self._design.keep - self._design.lie))).astype(np.float64)

    def floor(self, confidence: float) -> Array:
        """Least estimate that is clearly above 0."""
        if self._counts.shape[-1] == 1:
            return super().floor(confidence)
        reports = self._reports.ravel()
        lowest = anytime_valid.lowest_rate if self._looks else intervals.lowest
        trials, lie = reports.astype(np.float64), self._design.lie / ONE

        def is_told(counts: Cells) -> npt.NDArray[np.bool_]:
            counts = np.minimum(counts, reports)  # one that is found is asked for again
            return lowest(counts.astype(np.float64), trials, confidence) > lie

        first = np.floor(trials * lie).astype(np.int64)  # the count if no one holds it
        far = np.ceil(FAR * np.sqrt(trials * lie * (1 - lie)) + FAR).astype(np.int64)
        beyond = np.minimum(first + far, reports)
        found = least(is_told, first, np.where(is_told(beyond), beyond, reports + 1))
        share = point_estimates.unbiased_share(found / reports, self._design)
        return np.where(found <= reports, share, np.nan).reshape(self._reports.shape[:-1])


class VectorCounts(Counted):
    """Estimates of a mean vector.

    Limits about the population also hold for the people who answered: noise alone is less.
    """

    def __init__(self, question: Vector, cells: Cells, reports: Cells, looks: bool) -> None:
        self._reports, self._looks, self._gain = reports, looks, question.mechanism.gain
        self._found = point_estimates.coordinates(cells, reports, question.mechanism)

    @property
    def points(self) -> Points:
        return self._found

    def like(self, confidence: float) -> Interval:
        deviations = np.vectorize(point_estimates.deviations, [np.float64])
        return self._found.within(deviations(self._reports, confidence, looks=self._looks))

    def these(self, confidence: float) -> Interval:
        return self.like(confidence)

    def noise(self, these: Interval) -> Array:  # noqa: ARG002 # it is known without them
        return self.points.standard_error**2

    @property
    def step(self) -> Array:
        return np.asarray(1 / (2 * self._reports * self._gain))


ESTIMATORS: Mapping[Estimation, Estimator] = {
    "shares": ShareEstimator(),
    "mean": MeanEstimator(),
    "coordinates": VectorEstimator(),
    "texts": TextEstimator(),
}
