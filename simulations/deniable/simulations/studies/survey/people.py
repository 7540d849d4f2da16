"""The people of one question: who holds what, by the kind of statistic that is estimated of them.

A population is a list of [place, weight]: of a share the place is an answer's number, of a mean a
place in the range, 0 to 1. What differs between the two stands here, and nowhere else in the study.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.trusted import REPLACE_ONE
from deniable.shared.errors import WrongUse
from deniable.shared.survey.questions import Bit, Choice, Number, Question, Text, Vector
from deniable.simulations.central import BoundedMean, GeometricCounts
from deniable.simulations.population import fixed, grid_distribution, on_grid, rates, whole_people

Counts = NDArray[np.int64]
Population = list[list[float]]
NO_VECTORS = (
    "{}: this study has no people for a vector; `deniable plan --kind vector` says what to expect"
)
NO_TEXTS = (
    "{}: what is found of a text question has no labels beforehand, so this study has no rows for "
    "it; deniable plan --kind text says from how many people on a text is found, and "
    "deniable.simulations.population.text_tally draws the tally of a population"
)


def people_of(question: Question, population: Population) -> People:
    match question:
        case Number():
            return Numbers(population, question)
        case Bit() | Choice():
            return Holders(population, question)
        case Vector():
            raise WrongUse(NO_VECTORS.format(question.name))
        case Text():
            raise WrongUse(NO_TEXTS.format(question.name))
        case _:
            assert_never(question)


@dataclass(frozen=True)
class People(ABC):
    population: Population

    @property
    def weights(self) -> list[float]:
        return [weight for _, weight in self.population]

    @property
    def places(self) -> list[float]:
        return [place for place, _ in self.population]

    @property
    def shares(self) -> list[float]:
        return [weight / sum(self.weights) for weight in self.weights]

    @property
    @abstractmethod
    def distribution(self) -> list[float]:
        """One person's probability of each answer, or of each point of the grid."""

    @abstractmethod
    def tallies(self, held: Counts, times: int, generator: np.random.Generator) -> Counts:
        """Of the reports of these people: `held[n]` are at place n of the population."""

    @abstractmethod
    def expected(self, reports: int) -> Counts:
        """The tally to be expected of so many reports, in whole numbers."""

    @abstractmethod
    def truths(self, held: Counts) -> list[float]:
        """Of these people, one for each label."""

    @property
    @abstractmethod
    def target(self) -> int:
        """The label that forgers push."""

    @property
    @abstractmethod
    def target_cell(self) -> int:
        """A cell that such a report counts in."""

    @abstractmethod
    def shift(self, truth: float, forged: float) -> float:
        """What forged reports move the estimate of their target by, in its own units."""

    @abstractmethod
    def trusted_half_width(self, people: int) -> float:
        """95 % of a trusted server's releases, at the same ε, would be no further off."""


@dataclass(frozen=True)
class Holders(People):
    """They hold one answer each; forgers push yes, or the option that the fewest hold."""

    question: Bit | Choice

    @property
    def distribution(self) -> list[float]:
        return [float(share) for share in self._by_answer(self.shares)]

    def tallies(self, held: Counts, times: int, generator: np.random.Generator) -> Counts:
        people = self._by_answer(held.tolist()).astype(np.int64)
        return fixed(self.question.mechanism, people, times, generator).counts

    def expected(self, reports: int) -> Counts:
        found = rates(self.question.mechanism, self.distribution)
        return np.rint(found * reports).astype(np.int64)

    def truths(self, held: Counts) -> list[float]:
        shares = self._by_answer((held / held.sum()).tolist())
        return [float(share) for share in shares[self.question.first_label :]]

    @property
    def target(self) -> int:
        labelled = self.distribution[self.question.first_label :]
        return labelled.index(min(labelled))

    @property
    def target_cell(self) -> int:
        return self.target + self.question.first_label

    def shift(self, truth: float, forged: float) -> float:
        return forged * (self.question.mechanism.leverage - truth)

    def trusted_half_width(self, people: int) -> float:
        sensitivity = 1 if len(self.question.labels) == 1 else REPLACE_ONE  # counts that change
        noise = GeometricCounts(self.question.epsilon, sensitivity).noise
        return noise.radius(0.05) / people

    def _by_answer(self, amounts: Sequence[float]) -> NDArray[np.float64]:
        total = np.zeros(self.question.mechanism.answers)
        for place, amount in zip(self.places, amounts, strict=True):
            total[int(place)] += amount
        return total


@dataclass(frozen=True)
class Numbers(People):
    """They stand somewhere in the range; forgers push its high end."""

    question: Number

    @property
    def distribution(self) -> list[float]:
        return grid_distribution(self.places, self.shares, self.question.mechanism.steps)

    def tallies(self, held: Counts, times: int, generator: np.random.Generator) -> Counts:
        table = self.question.mechanism
        points = on_grid(self.places, held.tolist(), table.steps, times, generator)
        return fixed(table, points, times, generator).counts

    def expected(self, reports: int) -> Counts:
        return whole_people(rates(self.question.mechanism, self.distribution).tolist(), reports)

    def truths(self, held: Counts) -> list[float]:
        place = float(held @ self.places) / held.sum()
        return [self.question.low + self.question.span * place]

    @property
    def target(self) -> int:
        return 0

    @property
    def target_cell(self) -> int:
        return self.question.mechanism.cells - 1

    def shift(self, truth: float, forged: float) -> float:
        place = (truth - self.question.low) / self.question.span
        return forged * (self.question.mechanism.leverage - place) * self.question.span

    def trusted_half_width(self, people: int) -> float:
        trusted = BoundedMean(self.question.epsilon)
        return self.question.span * trusted.noise.radius(0.05) / (trusted.steps * people)
