"""Statements about one question of a round: its estimates, and three intervals around each.

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

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.estimate import Points

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
        """Return how far half a report moves an estimate; of a mean, a whole report."""
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


class Counted(ABC):
    """Estimates from the counts of one question; of several rounds, in a row for each."""

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
        """Return how far half a report moves an estimate, in each round; of a mean, a whole one."""

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
