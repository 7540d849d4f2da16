"""Statements about one question of a round: its estimates, and three intervals around each.

    like     about the population: people are drawn at random, and so is the noise
    these    about the people who answered: they are fixed, and only the noise is random; narrower
    every    about the population, jointly for all of a question's labels: for readers who pick
             labels by their estimates

An interval of `every` has a confidence of 1 - (1 - confidence) / labels (Bonferroni), so all of
them hold jointly in 95 % of cases, whatever is picked. With one label it equals that of `like`. The
`floor` is the least estimate whose interval of `every` is above 0: an estimate below it cannot be
distinguished from 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import Points

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

FAR = 8  # standard deviations, beyond which a floor hardly ever is


@dataclass(frozen=True)
class Statements:
    """Arrays with one number for each label; for several rounds, one row for each round."""

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
        """Upper bound on the variance of an estimate about the people who answered."""
        return self._column(9)

    @property
    def step(self) -> Array:
        """Change of an estimate by half a report; for a mean, by a whole report."""
        return self._column(10)

    def _column(self, number: int) -> Array:
        return np.asarray(self.table[number])

    @classmethod
    def of_rounds(cls, rounds: Sequence[Statements]) -> Statements:
        tables = np.stack([each.table for each in rounds], axis=1)
        return cls(tables, np.array([each.floor for each in rounds]))

    def rounds(self) -> Iterator[Statements]:
        """Yield each round separately, as a copy that does not keep the others in memory."""
        for place, floor in enumerate(self.floor):
            yield Statements(self.table[:, place].copy(), floor)


def at_once(labels: int, confidence: float) -> float:
    """Return the confidence each interval needs so that all hold jointly with `confidence`."""
    return 1 - (1 - confidence) / labels


class Counted(ABC):
    """Estimates from the counts of one question; for several rounds, one row for each round."""

    @property
    @abstractmethod
    def points(self) -> Points: ...

    @abstractmethod
    def like(self, confidence: float) -> Interval:
        """Return limits about the population that people were drawn from."""

    @abstractmethod
    def these(self, confidence: float) -> Interval:
        """Return limits about the people who answered."""

    @abstractmethod
    def noise(self, these: Interval) -> Array:
        """Return an upper bound on the variance about the people who answered, within `these`."""

    @property
    @abstractmethod
    def step(self) -> Array:
        """Change of an estimate by half a report, in each round; for a mean, by a whole one."""

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
