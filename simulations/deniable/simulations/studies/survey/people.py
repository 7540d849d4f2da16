"""The people of one question: who holds what, by the kind of statistic that is estimated of them.

A population is a list of [place, weight]: of a share the place is an answer's number, of a mean a
place in the range, 0 to 1. What differs between the two stands here, and nowhere else in the study.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.trusted import REPLACE_ONE
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import number_table, support_design
from deniable.shared.survey.kinds.base import (
    Estimation,
    MeanQuestion,
    Population,
    Question,
    ShareQuestion,
)
from deniable.simulations.central import BoundedMean, GeometricCounts
from deniable.simulations.population import fixed, grid_distribution, on_grid, rates, whole_people

Counts = NDArray[np.int64]
Amounts = dict[str, float]  # by question, or by question and option
NO_VECTORS = (
    "{}: this study has no people for a vector; `deniable plan --kind vector` says what to expect"
)
NO_TEXTS = (
    "{}: what is found of a text question has no labels beforehand, so this study has no rows for "
    "it; deniable plan --kind text says from how many people on a text is found, and "
    "deniable.simulations.population.text_tally draws the tally of a population"
)


def people_of(question: Question, population: Population) -> People:
    return people_class(question)(population, question)


def people_class(question: Question) -> type[People]:
    """Return the people for a question; WrongUse where this study has none."""
    found = PEOPLE[question.estimation]
    if isinstance(found, str):
        raise WrongUse(found.format(question.name))
    return found


@dataclass(frozen=True)
class People(ABC):
    population: Population
    question: Any  # of the estimation that `PEOPLE` names it by

    @classmethod
    @abstractmethod
    def told(cls, question: Any, shares: Amounts, means: Amounts) -> Population:  # Any: as above
        """Return the population that `--share` and `--mean` describe, and take from them what is
        used; the default population where they say nothing."""

    @classmethod
    @abstractmethod
    def place(cls, question: Any, text: str) -> float:  # Any: as above
        """Return the place of an answer in a CSV file; ValueError if the text is none."""

    @abstractmethod
    def shuffled_variance(self, epsilon: Epsilon, truth: float) -> tuple[float, float]:
        """Return the variances of one report at this ε: of its noise, and of people's answers."""

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

    question: ShareQuestion

    @classmethod
    def told(cls, question: ShareQuestion, shares: Amounts, means: Amounts) -> Population:  # noqa: ARG003 # as all have it
        """Those that nobody described hold all other options alike."""
        if len(question.labels) == 1:
            return _one_share(question, shares.pop(question.name, None))
        own = {label: shares.pop(f"{question.name}.{label}", None) for label in question.labels}
        left = 1 - sum(share for share in own.values() if share is not None)
        silent = sum(share is None for share in own.values())
        if left < -1e-9 or (not silent and left > 1e-9):
            raise WrongUse(f"--share: the options of {question.name} do not add up to 1")
        rest = max(left, 0.0) / max(silent, 1)
        return [
            [place, rest if share is None else share] for place, share in enumerate(own.values())
        ]

    @classmethod
    def place(cls, question: ShareQuestion, text: str) -> float:
        return float(_placed(question, text))

    def shuffled_variance(self, epsilon: Epsilon, truth: float) -> tuple[float, float]:
        kind, options = self.question.mechanism_kind, self.question.mechanism.options
        return support_design(kind, epsilon, options).variance(1, truth), truth * (1 - truth)

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

    question: MeanQuestion

    @classmethod
    def told(cls, question: MeanQuestion, shares: Amounts, means: Amounts) -> Population:  # noqa: ARG003 # as all have it
        mean, (low, high) = means.pop(question.name, None), question.range
        if mean is None:
            return question.default_population()
        if not low <= mean <= high:
            raise WrongUse(f"--mean {question.name}: {mean:g} is not from {low} to {high}")
        return [[(mean - low) / question.span, 1.0]]

    @classmethod
    def place(cls, question: MeanQuestion, text: str) -> float:
        whole = question.mechanism.answer_at(question.mechanism.steps)
        return float(_placed(question, text) / whole)

    def shuffled_variance(self, epsilon: Epsilon, truth: float) -> tuple[float, float]:  # noqa: ARG002 # it is in the population
        table = number_table(epsilon)
        held = list(zip(self.places, self.shares, strict=True))
        mean = math.fsum(share * place for place, share in held)
        noise = math.fsum(share * table.variance(1, place) for place, share in held)
        return noise, math.fsum(share * (place - mean) ** 2 for place, share in held)

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
        return [self.question.range[0] + self.question.span * place]

    @property
    def target(self) -> int:
        return 0

    @property
    def target_cell(self) -> int:
        return self.question.mechanism.cells - 1

    def shift(self, truth: float, forged: float) -> float:
        place = (truth - self.question.range[0]) / self.question.span
        return forged * (self.question.mechanism.leverage - place) * self.question.span

    def trusted_half_width(self, people: int) -> float:
        trusted = BoundedMean(self.question.epsilon)
        return self.question.span * trusted.noise.radius(0.05) / (trusted.steps * people)


def _placed(question: Question, text: str) -> Any:  # Any: as its mechanism takes it
    placed = question.place(question.answer_of(text))
    if placed is None:
        raise ValueError("no answer to this question")
    return placed


def _one_share(question: ShareQuestion, share: float | None) -> Population:
    """Of the answer that has a label, and of all others."""
    if share is None:
        return question.default_population()
    answers = range(question.mechanism.answers)
    rest = (1 - share) / (len(answers) - 1)
    return [[n, share if n == question.first_label else rest] for n in answers]


PEOPLE: Mapping[Estimation, type[People] | str] = {  # or why this study has none
    "shares": Holders,
    "mean": Numbers,
    "coordinates": NO_VECTORS,
    "texts": NO_TEXTS,
}
