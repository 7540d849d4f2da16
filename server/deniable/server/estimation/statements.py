"""All that a round's counts say of a question: its estimates, and three intervals around each.

    like     about people like these: drawn at random, and so is the noise
    these    about these very people: they are fixed, and only the noise is drawn; narrower
    every    about people like these, and all of a question's labels at once: for whoever picks
             labels by their estimates

An interval of `every` has a confidence of 1 - (1 - confidence) / labels (Bonferroni), so all of
them hold at once in 95 % of cases, whatever is picked. With one label it is that of `like`. The
`floor` is the least estimate whose interval of `every` is above 0: what is below it is not told
from an option that nobody holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import (
    clopper_pearson,
    fixed_numbers,
    fixed_people,
    means,
    repeated_looks,
    shares,
    vectors,
)
from deniable.server.estimation.estimate import Points
from deniable.server.estimation.roots import least
from deniable.server.estimation.support_counts import support_counts
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.questions import Bit, Choice, Number, Question, Text, Vector

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

FAR = 8  # standard deviations, beyond which a floor hardly ever is


@dataclass(frozen=True)
class Statements:
    """In each array one number for each label; of several rounds, a row for each."""

    table: Array  # all of them, one after another
    floor: Array  # not-a-number where there is none

    @property
    def estimate(self) -> Array:
        return self._column(0)

    @property
    def like(self) -> Interval:
        return self._column(1), self._column(2)

    @property
    def these(self) -> Interval:
        return self._column(3), self._column(4)

    @property
    def every(self) -> Interval:
        return self._column(5), self._column(6)

    @property
    def standard_error(self) -> Array:
        return self._column(7)

    @property
    def consistent(self) -> Array:
        return self._column(8)

    @property
    def noise(self) -> Array:
        """The variance of an estimate about these people, at the most."""
        return self._column(9)

    @property
    def step(self) -> Array:
        """What half a report moves an estimate, or a whole one where it is a mean."""
        return self._column(10)

    def _column(self, number: int) -> Array:
        return np.asarray(self.table[number])

    @classmethod
    def of_rounds(cls, rounds: Sequence[Statements]) -> Statements:
        tables = np.stack([each.table for each in rounds], axis=1)
        return cls(tables, np.array([each.floor for each in rounds]))

    def rounds(self) -> Iterator[Statements]:
        """Each by itself, and without the memory of the others."""
        for place, floor in enumerate(self.floor):
            yield Statements(self.table[:, place].copy(), floor)


def at_once(labels: int, confidence: float) -> float:
    """The confidence of each, so that all hold at once with this one."""
    return 1 - (1 - confidence) / labels


def counted(question: Question, cells: Cells, reports: int | Cells, looks: bool = False) -> Counted:
    """What is asked for is computed, and nothing else."""
    column = np.asarray(reports)[..., None]
    match question:
        case Number():
            return _Mean(question, cells, looks)
        case Bit() | Choice():
            return _Shares(question, cells, column, looks)
        case Vector():
            return _Vector(question, cells, column, looks)
        case Text():
            raise TypeError("what is found of a text has no labels beforehand: texts.found")
        case _:
            assert_never(question)


class Counted(ABC):
    """What is said of one question's counts; of several rounds, in a row for each."""

    @property
    @abstractmethod
    def points(self) -> Points: ...

    @abstractmethod
    def like(self, confidence: float) -> Interval:
        """Limits about people like these."""

    @abstractmethod
    def these(self, confidence: float) -> Interval:
        """Limits about these very people."""

    @abstractmethod
    def noise(self, these: Interval) -> Array:
        """The variance about these people, at the most, if these are their limits."""

    @property
    @abstractmethod
    def step(self) -> Array:
        """What half a report moves an estimate, of a mean a whole one; of each round."""

    def floor(self, confidence: float) -> Array:  # noqa: ARG002 # of shares only
        return np.full(self.points.estimate.shape[:-1], np.nan)

    def statements(self, confidence: float) -> Statements:
        points, like, these = self.points, self.like(confidence), self.these(confidence)
        labels = points.estimate.shape[-1]
        joint = at_once(labels, confidence)
        every = like if labels == 1 else self.like(joint)
        arrays = (
            *(points.estimate, *like, *these, *every),
            *(points.standard_error, points.consistent, self.noise(these), self.step),
        )
        return Statements(np.stack(np.broadcast_arrays(*arrays)), self.floor(joint))


class _Mean(Counted):
    def __init__(self, question: Number, cells: Cells, looks: bool) -> None:
        self._question, self._cells, self._looks = question, cells, looks
        self._table, self._counts = question.mechanism, cells.astype(np.float64)

    @cached_property
    def points(self) -> Points:
        return means.means(self._cells, self._question)

    def like(self, confidence: float) -> Interval:
        if not self._looks:
            return means.like(self._cells, self._question, confidence)
        values = fixed_numbers.positions(self._table)
        found = repeated_looks.mean(values, self._counts, confidence)
        return means.in_units(self._question, found)

    def these(self, confidence: float) -> Interval:
        of = repeated_looks.mean_of_these if self._looks else fixed_numbers.limits
        return means.in_units(self._question, of(self._table, self._counts, confidence))

    def noise(self, these: Interval) -> Array:  # noqa: ARG002 # it is known without them
        return self._question.span**2 * fixed_numbers.noise(self._table, self._counts)[..., None]

    @property
    def step(self) -> Array:
        reports = self._counts.sum(-1, keepdims=True)
        return self._question.span * fixed_numbers.step(self._table, reports)


class _Shares(Counted):
    def __init__(self, question: Bit | Choice, cells: Cells, reports: Cells, looks: bool) -> None:
        self._design, self._reports, self._looks = question.mechanism, reports, looks
        self._counts = support_counts(self._design, cells)[..., question.first_label :]

    @cached_property
    def points(self) -> Points:
        return shares.shares(self._counts, self._reports, self._design)

    def like(self, confidence: float) -> Interval:
        rates = repeated_looks.rates if self._looks else clopper_pearson.limits
        low, high = rates(self._counts, self._reports, confidence)
        return shares.unbiased_share(low, self._design), shares.unbiased_share(high, self._design)

    def these(self, confidence: float) -> Interval:
        of = repeated_looks.holders if self._looks else fixed_people.limits
        return of(self._counts, self._reports, self._design, confidence)

    def noise(self, these: Interval) -> Array:
        return fixed_people.noise(these, self._reports, self._design)

    @property
    def step(self) -> Array:
        twice = 2 * self._reports.astype(object)  # whole numbers of any size
        return (ONE / (twice * (self._design.keep - self._design.lie))).astype(np.float64)

    def floor(self, confidence: float) -> Array:
        """The least estimate that is told from 0."""
        if self._counts.shape[-1] == 1:
            return super().floor(confidence)
        reports = self._reports.ravel()
        lowest = repeated_looks.lowest_rate if self._looks else clopper_pearson.lowest
        trials, lie = reports.astype(np.float64), self._design.lie / ONE

        def is_told(counts: Cells) -> npt.NDArray[np.bool_]:
            counts = np.minimum(counts, reports)  # one that is found is asked for again
            return lowest(counts.astype(np.float64), trials, confidence) > lie

        first = np.floor(trials * lie).astype(np.int64)  # as many as if nobody held it
        far = np.ceil(FAR * np.sqrt(trials * lie * (1 - lie)) + FAR).astype(np.int64)
        beyond = np.minimum(first + far, reports)
        found = least(is_told, first, np.where(is_told(beyond), beyond, reports + 1))
        share = shares.unbiased_share(found / reports, self._design)
        return np.where(found <= reports, share, np.nan).reshape(self._reports.shape[:-1])


class _Vector(Counted):
    """What is said of people like these holds of these, too: the noise alone is less."""

    def __init__(self, question: Vector, cells: Cells, reports: Cells, looks: bool) -> None:
        self._reports, self._looks, self._gain = reports, looks, question.mechanism.gain
        self._found = vectors.coordinates(cells, reports, question.mechanism)

    @property
    def points(self) -> Points:
        return self._found

    def like(self, confidence: float) -> Interval:
        deviations = np.vectorize(vectors.deviations, [np.float64])
        return self._found.within(deviations(self._reports, confidence, looks=self._looks))

    def these(self, confidence: float) -> Interval:
        return self.like(confidence)

    def noise(self, these: Interval) -> Array:  # noqa: ARG002 # it is known without them
        return self.points.standard_error**2

    @property
    def step(self) -> Array:
        return np.asarray(1 / (2 * self._reports * self._gain))
