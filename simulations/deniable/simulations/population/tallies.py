"""Tallies of a population's reports for every mechanism, in time independent of the population.

`fixed` has given people with given answers, so that only the noise is random.
`drawn` also draws each person's answer from a distribution.

`SAMPLERS` has one sampler for each family of mechanisms. The sampler of `Mechanism` works for any
mechanism, because it uses the mechanism's own probabilities:

    any         one cell per report: a multinomial for each answer                         joint
                independent cells: a binomial for each answer and cell                     joint
                dependent cells: the same, which ignores the dependence                 marginals
                sums: a multinomial over all symbols for each answer                       joint
    tables      a multinomial for each answer, or fewer draws if the table is a walk
                (`walk.py`)                                                                joint
    designs     one option per report: of n_v holders, each keeps the answer with probability
                p - q; all other reports are uniform                                       joint
                several options: Bin(n_v, p) + Bin(n - n_v, q) for each         joint or marginals
    cyclic      people who keep their answer report a random symbol of it, others any symbol  joint
    groups      a multinomial splits each answer among the groups; each group as above
    vectors     a normal distribution with exact mean and covariance                      moments

If answers are drawn and each report counts in one cell, the tally is one multinomial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.shares import circular_correlation
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import CyclicDesign, SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL, SUMS, FamilyTable, Mechanism
from deniable.shared.survey.kinds.text import Text
from deniable.simulations.population import vectors
from deniable.simulations.population.walk import walk_rate, walked

JOINT: Literal["joint"] = "joint"
MARGINALS: Literal["marginals"] = "marginals"
MOMENTS: Literal["moments"] = "moments"
Exactness = Literal["joint", "marginals", "moments"]
MAX_SINGLE_DRAWS = 2**22  # largest number of people who are simulated one by one

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]
Family = TypeVar("Family", bound=Mechanism)


class Tallies(NamedTuple):
    """Tallies `counts[repetition, cell]`, in the server's cells, and how exact they are."""

    counts: Counts
    reports: int
    exactness: Exactness


def fixed(
    mechanism: Mechanism,
    people: Sequence[int] | Counts,
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """Draw the tallies of people with given answers.

    `people[answer]` is the number of people with each answer: no and yes, the options, or the grid
    points. With two dimensions, `people[repetition, answer]`, each repetition has its own people.
    """
    held = np.atleast_2d(np.asarray(people, dtype=np.int64))
    sampler = sampler_of(mechanism)
    counts = sampler.counts(held, repetitions, generator)
    return Tallies(counts, int(held[0].sum()), sampler.exactness)


def drawn(
    mechanism: Mechanism,
    distribution: Sequence[float],
    people: int,
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """Draw the tallies of people whose answers are drawn too, separately for each repetition.

    `distribution[answer]` is the probability of each answer.
    """
    if mechanism.joint == MULTINOMIAL:
        counts = generator.multinomial(people, rates(mechanism, distribution), repetitions)
        return Tallies(counts, people, JOINT)
    held = generator.multinomial(people, np.asarray(distribution, dtype=float), repetitions)
    sampler = sampler_of(mechanism)
    return Tallies(sampler.counts(held, repetitions, generator), people, sampler.exactness)


def rates(mechanism: Mechanism, distribution: Sequence[float]) -> Rates:
    """Return the expected contribution of one report to each cell, for this answer distribution."""
    return sampler_of(mechanism).rates(np.asarray(distribution, dtype=float))


@dataclass(frozen=True)
class Sampler(Generic[Family]):
    """Sampler of any mechanism, from the mechanism's own probabilities."""

    mechanism: Family

    @property
    def exactness(self) -> Exactness:
        return MARGINALS if self.mechanism.joint == DEPENDENT else JOINT

    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        """Draw the counts of people with these answers.

        `held` has one row for all repetitions, or one row per repetition.
        """
        if self.mechanism.joint == SUMS:
            return self._of_symbols(held, repetitions, generator)
        counts = np.zeros((repetitions, self.mechanism.cells), np.int64)
        for answer, row in enumerate(self.rows):
            if not held[:, answer].any():
                continue
            if self.mechanism.joint == MULTINOMIAL:
                counts += generator.multinomial(held[:, answer], row, repetitions)
            else:
                counts += generator.binomial(held[:, answer, None], row, counts.shape)
        return counts

    def rates(self, shares: Rates) -> Rates:
        if self.mechanism.joint == SUMS:
            return np.asarray(shares @ self._symbol_rows @ self._amounts)
        return np.asarray(shares @ self.rows)

    @property
    def rows(self) -> Rates:
        """Rate of each cell as a double, with one row per answer."""
        answers = range(self.mechanism.answers)
        return np.array(
            [[rate / ONE for rate in self.mechanism.cell_rates(answer)] for answer in answers]
        )

    def _of_symbols(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        amounts = self._amounts
        counts = np.zeros((repetitions, self.mechanism.cells), np.int64)
        for answer, row in enumerate(self._symbol_rows):
            counts += generator.multinomial(held[:, answer], row, repetitions) @ amounts
        return counts

    @property
    def _symbol_rows(self) -> Rates:
        symbols = list(self.mechanism.encoding.symbols())
        return np.array(
            [
                [float(self.mechanism.weight(symbol, answer)) for symbol in symbols]
                for answer in range(self.mechanism.answers)
            ]
        )

    @property
    def _amounts(self) -> Counts:
        symbols = list(self.mechanism.encoding.symbols())
        amounts = np.zeros((len(symbols), self.mechanism.cells), np.int64)
        for row, symbol in zip(amounts, symbols, strict=True):
            for cell, amount in self.mechanism.encoding.amounts(symbol):
                row[cell] += amount
        return amounts


class TableSampler(Sampler[NumberTable]):
    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        if (rate := walk_rate(self.mechanism, self.rows)) is not None:
            return walked(rate, held, repetitions, generator)
        return super().counts(held, repetitions, generator)


class DesignSampler(Sampler[SupportDesign]):
    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        if not self.mechanism.cells_are_options:
            return super().counts(held, repetitions, generator)
        size = repetitions, held.shape[1]
        keep, lie = self.mechanism.keep / ONE, self.mechanism.lie / ONE
        if self.mechanism.joint != MULTINOMIAL:
            others = held.sum(axis=-1, keepdims=True) - held
            counts = generator.binomial(held, keep, size)
            return np.asarray(counts + generator.binomial(others, lie, size))
        # A report is the answer with probability p - q, otherwise any option, the answer included.
        counts = generator.binomial(held, (self.mechanism.keep - self.mechanism.lie) / ONE, size)
        counts += generator.multinomial(
            held.sum(axis=1) - counts.sum(axis=1), np.full(size[1], 1 / size[1])
        )
        return counts

    def rates(self, shares: Rates) -> Rates:
        if not self.mechanism.cells_are_options:
            return super().rates(shares)
        p, q = self.mechanism.keep / ONE, self.mechanism.lie / ONE
        return np.asarray(q + (p - q) * shares)


class CyclicSampler(Sampler[CyclicDesign]):
    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        """Draw a symbol of the answer for people who keep it, and any symbol for the others."""
        design = self.mechanism
        seeing = generator.binomial(held, 1 - design.blind / ONE, (repetitions, held.shape[1]))
        every = np.full(design.modulus, 1 / design.modulus)
        counts = generator.multinomial(held.sum(axis=1) - seeing.sum(axis=1), every)
        places = np.asarray(design.difference_set, np.int64)
        own = np.full(design.speaking, 1 / design.speaking)
        answers = np.arange(held.shape[1])
        for repetition, times in enumerate(seeing):
            row = counts[repetition]
            many = times > min(design.speaking, MAX_SINGLE_DRAWS // len(times))
            singly = np.repeat(answers[~many], times[~many])
            symbols = places[generator.integers(design.speaking, size=len(singly))] - singly
            row += np.bincount(symbols % design.modulus, minlength=design.modulus)
            for answer in answers[many]:
                row[places - answer] += generator.multinomial(times[answer], own)
        return counts

    def rates(self, shares: Rates) -> Rates:
        blind, speaking = self.mechanism.rates
        spoken_for = circular_correlation(self.mechanism, shares)
        return np.asarray(blind * shares.sum() + (speaking - blind) * spoken_for)


class VectorSampler(Sampler[VectorDesign]):
    @property
    def exactness(self) -> Exactness:
        return MOMENTS

    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        return vectors.axis_sums(self.mechanism, held, repetitions, generator)

    def rates(self, shares: Rates) -> Rates:
        return vectors.expected_sums(self.mechanism, shares)


class GroupSampler(Sampler[GroupedDesign]):
    @property
    def exactness(self) -> Exactness:
        return sampler_of(self.mechanism.each).exactness

    def counts(self, held: Counts, repetitions: int, generator: np.random.Generator) -> Counts:
        """Draw which group each person reports for, and then the counts of each group."""
        shares = [share / ONE for share in self.mechanism.shares]
        every = np.broadcast_to(held, (repetitions, held.shape[1]))
        by_group = np.moveaxis(generator.multinomial(every, shares), 2, 1)
        return in_groups(self.mechanism, by_group, generator)

    def rates(self, shares: Rates) -> Rates:
        parts = np.array([share / ONE for share in self.mechanism.shares])
        own = sampler_of(self.mechanism.each).rates(shares)
        return np.append(np.outer(parts, own), parts)


def in_groups(mechanism: GroupedDesign, held: Counts, generator: np.random.Generator) -> Counts:
    """Draw the counts of `held[repetition, group, option]` people who report for each group."""
    sampler = sampler_of(mechanism.each)
    counts = [
        sampler.counts(held[:, group], len(held), generator) for group in range(mechanism.groups)
    ]
    return np.concatenate([*counts, held.sum(axis=2)], axis=1)


def text_tally(
    question: Text, people: Mapping[str, int], alone: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the cells of a text question.

    `people[text]` people give each text, and `alone` people give a text that no one else gives.
    Unique texts need not be known, because the hash puts each of them into a uniformly random
    bucket of each group.
    """
    mechanism = question.mechanism
    shares = [share / ONE for share in mechanism.shares]
    buckets = [question.place(text) for text in people]
    assert None not in buckets, "every text is one that a person could answer"
    counts = np.fromiter(people.values(), np.int64, len(people))
    parted = generator.multinomial(counts, shares)
    held = np.stack(
        [
            generator.multinomial(own, np.full(mechanism.size, 1 / mechanism.size))
            for own in generator.multinomial(alone, shares)
        ]
    )
    for group in range(mechanism.groups):
        places = np.array([bucket[group] for bucket in buckets if bucket], np.int64)
        np.add.at(held[group], places, parted[:, group])
    return np.asarray(in_groups(mechanism, held[None], generator)[0])


def sampler_of(mechanism: Mechanism) -> Sampler[Any]:  # Any: the family of the mechanism
    return SAMPLERS.of(mechanism)(mechanism)


SAMPLERS: FamilyTable[type[Sampler[Any]]] = FamilyTable(  # Any: the family of its key
    {
        Mechanism: Sampler,
        NumberTable: TableSampler,
        SupportDesign: DesignSampler,
        CyclicDesign: CyclicSampler,
        VectorDesign: VectorSampler,
        GroupedDesign: GroupSampler,
    }
)
