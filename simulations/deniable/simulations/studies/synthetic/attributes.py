"""People with d yes-or-no attributes: their characters, their tables, and limits of any estimate.

χ_S(x) is 1 where an even number of the attributes in S are yes, else -1. With c_S = E χ_S, where S
has one or two attributes, the share of people with i = a and j = b is

    (1 + s c_i + t c_j + s t c_ij) / 4       s = (-1)^a, t = (-1)^b

so T = d + d (d - 1) / 2 numbers determine all tables of two attributes. Averaged over the four
cells, the squared error is a sixteenth of the sum of the squared errors of the three c_S, even if
they are correlated.

The simulated people are a chain: each attribute agrees with the one before it with probability 0.8,
so c_ij = 0.6^|i - j| and c_i = 0. Synthetic people have the distribution with the largest entropy
for the given c_S, e^(Σ λ_S χ_S) up to a factor. `STEPS` steps of accelerated ascent find it; they
do not converge where no distribution has these c_S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from deniable.simulations.engine.limits import ball_prior, unit_vector_limits
from deniable.simulations.studies.bit_reports import noise

Array = NDArray[np.floating]
AGREE = 0.8
STEPS, STEP = 150, 0.15
FAILURE = 0.05  # β of BLR: the probability that its guarantee fails


@dataclass(frozen=True)
class Attributes:
    """Population with this number of attributes."""

    number: int

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """The sets of one attribute, then those of two."""
        d = range(self.number)
        return [*((i,) for i in d), *combinations(d, 2)]

    @cached_property
    def characters(self) -> Array:
        """χ_S(x) as `characters[x, S]`, with x as a number of d bits."""
        signs = 1 - 2 * (np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1)
        return np.stack([signs[:, list(s)].prod(axis=1) for s in self.subsets], axis=1).astype(
            float
        )

    @cached_property
    def population(self) -> Array:
        """The probability of each x under the chain."""
        bits = np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1
        agreeing = (bits[:, 1:] == bits[:, :-1]).sum(axis=1)
        disagreeing = self.number - 1 - agreeing
        return np.asarray(0.5 * AGREE**agreeing * (1 - AGREE) ** disagreeing)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The positions of the three subsets of each pair of attributes."""
        position = {s: n for n, s in enumerate(self.subsets)}
        return np.array(
            [[position[s[:1]], position[s[1:]], position[s]] for s in self.subsets if len(s) > 1]
        )

    @cached_property
    def weights(self) -> Array:
        """The weight of each c_S in the mean squared error of a cell, times 16."""
        counts = np.bincount(self.pairs.ravel(), minlength=len(self.subsets))
        return np.asarray(counts / len(self.pairs))

    def tables(self, coefficients: Array) -> Array:
        """Return the four cells of each pair, for rows of c_S."""
        one, other, both = (coefficients[..., self.pairs[:, n]] for n in range(3))
        cells = [1 + s * one + t * other + s * t * both for s in (1, -1) for t in (1, -1)]
        return np.stack(cells, axis=-1) / 4

    def of_people(self, counts: Array) -> Array:
        """Return c_S for these numbers of people with each x."""
        return np.asarray(counts @ self.characters / counts.sum(axis=-1, keepdims=True))

    def fitted(self, coefficients: Array) -> Array:
        """Return the distribution of people for each row of c_S."""
        wanted = np.clip(coefficients, -1, 1)
        ahead = force = np.zeros_like(wanted)
        for step in range(STEPS):
            before = force
            force = ahead + STEP * (wanted - self._distribution(ahead) @ self.characters)
            ahead = force + step / (step + 3) * (force - before)
        return self._distribution(force)

    def _distribution(self, force: Array) -> Array:
        logs = force @ self.characters.T
        weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def limit(epsilon: float, people: Attributes, number: int) -> float:
    """Return the least mean squared error of a cell about the population; an infinite ε is none."""
    characters = len(people.weights)

    def gain(epsilon: float) -> float:
        return min(1.0, 1 / math.sqrt(4 * noise(epsilon) * characters)) if epsilon < 40 else 1.0

    unit = unit_vector_limits(number, ball_prior(characters), gain, epsilon)[1]
    return unit * float(np.sqrt(people.weights).sum()) ** 2 / (16 * characters)


def blr(epsilon: float, attributes: int, people: int) -> float:
    """Return BLR's bound on the error of every cell, for the best set size."""
    m = np.unique(np.geomspace(1, 10**7, 4_000).astype(np.int64)).astype(float)
    many = math.log(4 * attributes * (attributes - 1))
    sets = m * attributes * math.log(2) + math.log(1 / FAILURE)
    return min(1.0, float((np.sqrt(many / (2 * m)) + 2 * sets / (epsilon * people)).min()))


MAX_SETS = 4_000


def executed_blr(people: Attributes, number: int, epsilon: float) -> tuple[Array, Array]:
    """Return the largest error of a cell for each multiset of a few people, and its probability.

    This is BLR itself: the exponential mechanism on all sets of m people, with the largest m for
    which there are at most `MAX_SETS` multisets. One person moves a score by at most 1 / n.
    """
    cells = 2**people.number
    m = max(m for m in range(1, MAX_SETS) if math.comb(cells + m - 1, m) <= MAX_SETS)
    sets = np.array(
        [np.bincount(s, minlength=cells) for s in combinations_with_replacement(range(cells), m)]
    )
    truth = people.tables(people.population @ people.characters)
    made = people.tables(people.of_people(sets.astype(float)))
    errors = np.abs(made - truth).max(axis=(1, 2))
    logs = -gammaln(sets + 1).sum(axis=1) - epsilon * number / 2 * errors
    weights = np.exp(logs - logs.max())
    return np.asarray(errors), np.asarray(weights / weights.sum())
