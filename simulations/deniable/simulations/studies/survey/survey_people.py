"""People of one question and their answers, for questions about shares and about means.

A population is a list of [point, weight]. For shares, a point is the number of an answer; for
means, it is a point of the range, from 0 to 1. All differences between the two are in this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

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
from deniable.simulations.population import fixed, grid_distribution, on_grid, rates, whole_people

Counts = NDArray[np.int64]
Amounts = dict[str, float]  # keys: a question, or a question and an option
NO_VECTORS = "{}: this study does not support vectors; see `deniable plan --kind vector`"
NO_TEXTS = (
    "{}: this study does not support text questions, because their labels are not known "
    "beforehand; `deniable plan --kind text` computes how many people must give a text for it to "
    "be found, and deniable.simulations.population.text_tally draws the tally of a population"
)


@dataclass(frozen=True)
class Weighted:
    """Population of a question, with its points, and the weight of each."""

    population: Population
    question: ShareQuestion | MeanQuestion

    @property
    def weights(self) -> list[float]:
        return [weight for _, weight in self.population]

    @property
    def points(self) -> list[float]:
        return [point for point, _ in self.population]

    @property
    def shares(self) -> list[float]:
        return [weight / sum(self.weights) for weight in self.weights]

    def shift(self, truth: float, forged: float) -> float:
        """Return the shift of the target's estimate that forged reports cause, in its units."""
        place = (truth - self.question.range[0]) / self.question.span
        return forged * (self.question.mechanism.leverage - place) * self.question.span


@dataclass(frozen=True)
class Holders(Weighted):
    """People with one answer each. Forgers push yes, or the option with the fewest people."""

    question: ShareQuestion

    @classmethod
    def from_amounts(cls, question: ShareQuestion, shares: Amounts, means: Amounts) -> Population:  # noqa: ARG003 # same signature for both
        """Return the population for `--share` and `--mean`, removing the amounts that it uses.

        The remaining share is split equally among the other options. Without amounts, the
        population is the default one of the question.
        """
        if len(question.labels) == 1:
            share = shares.pop(question.name, None)
            return question.default_population() if share is None else _one_share(question, share)
        own = {label: shares.pop(f"{question.name}.{label}", None) for label in question.labels}
        rest = 1 - sum(share for share in own.values() if share is not None)
        others = sum(share is None for share in own.values())
        if rest < -1e-9 or (not others and rest > 1e-9):
            raise WrongUse(f"--share: the shares of {question.name} do not add up to 1")
        equal = max(rest, 0.0) / max(others, 1)
        return [
            [point, equal if share is None else share] for point, share in enumerate(own.values())
        ]

    @classmethod
    def point(cls, question: ShareQuestion, text: str) -> float:
        """Return the point of an answer in a CSV file; raise ValueError if it is not an answer."""
        return float(_parsed(question, text))

    def shuffled_variance(self, epsilon: Epsilon, truth: float) -> tuple[float, float]:
        """Return the variances of a report's noise at this ε, and of people's answers."""
        kind, options = self.question.mechanism_kind, self.question.mechanism.options
        return support_design(kind, epsilon, options).variance(1, truth), truth * (1 - truth)

    @property
    def distribution(self) -> list[float]:
        return [float(share) for share in self._by_answer(self.shares)]

    def tallies(self, held: Counts, times: int, generator: Generator) -> Counts:
        """Draw tallies of reports, where `held[n]` people are at point n of the population."""
        people = self._by_answer(held.tolist()).astype(np.int64)
        return fixed(self.question.mechanism, people, times, generator).counts

    def expected(self, reports: int) -> Counts:
        expected = rates(self.question.mechanism, self.distribution)
        return np.rint(expected * reports).astype(np.int64)

    def truths(self, held: Counts) -> list[float]:
        """Return the true value of each label for these people."""
        shares = self._by_answer((held / held.sum()).tolist())
        return [float(share) for share in shares[self.question.first_label :]]

    @property
    def target(self) -> int:
        """Number of the label that forgers push."""
        labelled = self.distribution[self.question.first_label :]
        return labelled.index(min(labelled))

    @property
    def target_cell(self) -> int:
        """Cell in which a report for that label counts."""
        return self.target + self.question.first_label

    def _by_answer(self, amounts: Sequence[float]) -> NDArray[np.float64]:
        points = np.array(self.points, dtype=int)
        total = np.bincount(points, amounts, self.question.mechanism.answers)
        return np.asarray(total, dtype=np.float64)


@dataclass(frozen=True)
class Numbers(Weighted):
    """People with numbers in a range, with the methods of `Holders`. Forgers push its high end."""

    question: MeanQuestion
    target = 0

    @classmethod
    def from_amounts(cls, question: MeanQuestion, shares: Amounts, means: Amounts) -> Population:  # noqa: ARG003 # same signature for both
        mean, (low, high) = means.pop(question.name, None), question.range
        if mean is None:
            return question.default_population()
        if not low <= mean <= high:
            raise WrongUse(f"--mean {question.name}: {mean:g} is not from {low} to {high}")
        return [[(mean - low) / question.span, 1.0]]

    @classmethod
    def point(cls, question: MeanQuestion, text: str) -> float:
        whole = question.mechanism.answer_at(question.mechanism.steps)
        return float(_parsed(question, text) / whole)

    def shuffled_variance(self, epsilon: Epsilon, truth: float) -> tuple[float, float]:  # noqa: ARG002 # the population determines the truth
        table = number_table(epsilon)
        held = list(zip(self.points, self.shares, strict=True))
        mean = math.fsum(share * point for point, share in held)
        noise = math.fsum(share * table.variance(1, point) for point, share in held)
        return noise, math.fsum(share * (point - mean) ** 2 for point, share in held)

    @property
    def distribution(self) -> list[float]:
        return grid_distribution(self.points, self.shares, self.question.mechanism.steps)

    def tallies(self, held: Counts, times: int, generator: Generator) -> Counts:
        table = self.question.mechanism
        on_points = on_grid(self.points, held.tolist(), table.steps, times, generator)
        return fixed(table, on_points, times, generator).counts

    def expected(self, reports: int) -> Counts:
        return whole_people(rates(self.question.mechanism, self.distribution).tolist(), reports)

    def truths(self, held: Counts) -> list[float]:
        mean = float(held @ self.points) / held.sum()
        return [self.question.range[0] + self.question.span * mean]

    @property
    def target_cell(self) -> int:
        return self.question.mechanism.cells - 1


People: TypeAlias = Holders | Numbers
PEOPLE: Mapping[Estimation, type[Holders | Numbers] | str] = {  # a text is an error message
    "shares": Holders,
    "mean": Numbers,
    "coordinates": NO_VECTORS,
    "texts": NO_TEXTS,
}


def people_of(question: Question, population: Population) -> People:
    people: People = people_class(question)(population, question)
    return people


def people_class(question: Question) -> Any:  # Any: a class for this kind of estimate
    """Return the class of people for a question; raise WrongUse if it is not supported."""
    people = PEOPLE[question.estimation]
    if isinstance(people, str):
        raise WrongUse(people.format(question.name))
    return people


def _parsed(question: Question, text: str) -> Any:  # Any: input of the mechanism
    answer = question.place(question.answer_of(text))
    if answer is None:
        raise ValueError("not an answer to this question")
    return answer


def _one_share(question: ShareQuestion, share: float) -> Population:
    """Return the population where the labelled answer has this share."""
    answers = range(question.mechanism.answers)
    rest = (1 - share) / (len(answers) - 1)
    return [[n, share if n == question.first_label else rest] for n in answers]
