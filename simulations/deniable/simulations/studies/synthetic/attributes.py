"""People with d attributes of yes or no, their characters, and the people that fit given ones.

χ_S(x) is 1 where evenly many of the attributes in S are yes, else -1. With c_S = E χ_S, S having
one or two attributes, the share of people with i = a and j = b is

    (1 + s c_i + t c_j + s t c_ij) / 4       s = (-1)^a, t = (-1)^b

so all tables of two attributes are T = d + d (d - 1) / 2 numbers. Averaged over the four, errors of
the three that are uncorrelated, or correlated in any way, add up to a sixteenth of their sum.

The people made here are a chain: each attribute agrees with the one before it with probability 0.8,
so c_ij = 0.6^|i - j| and c_i = 0. Synthetic people have the distribution of the largest entropy
with the given c_S, e^(Σ λ_S χ_S) up to a factor, sought by so many steps of accelerated ascent:
where no people at all have these c_S, it stops on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
AGREE = 0.8
STEPS, STEP = 150, 0.15


@dataclass(frozen=True)
class Attributes:
    number: int

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """One attribute first, then two."""
        d = range(self.number)
        return [*((i,) for i in d), *combinations(d, 2)]

    @cached_property
    def characters(self) -> Array:
        """`characters[x, S]`, for every x as a number of d bits."""
        signs = 1 - 2 * (np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1)
        return np.stack([signs[:, list(s)].prod(axis=1) for s in self.subsets], axis=1).astype(
            float
        )

    @cached_property
    def population(self) -> Array:
        """The distribution of the chain."""
        bits = np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1
        agreeing = (bits[:, 1:] == bits[:, :-1]).sum(axis=1)
        disagreeing = self.number - 1 - agreeing
        return np.asarray(0.5 * AGREE**agreeing * (1 - AGREE) ** disagreeing)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """For each pair the places of its three subsets."""
        place = {s: n for n, s in enumerate(self.subsets)}
        return np.array(
            [[place[s[:1]], place[s[1:]], place[s]] for s in self.subsets if len(s) > 1]
        )

    @cached_property
    def weights(self) -> Array:
        """How much of the mean squared error of a cell is that of each c_S, times 16."""
        counts = np.bincount(self.pairs.ravel(), minlength=len(self.subsets))
        return np.asarray(counts / len(self.pairs))

    def tables(self, coefficients: Array) -> Array:
        """Of rows of c_S: for each pair its four cells."""
        one, other, both = (coefficients[..., self.pairs[:, n]] for n in range(3))
        cells = [1 + s * one + t * other + s * t * both for s in (1, -1) for t in (1, -1)]
        return np.stack(cells, axis=-1) / 4

    def of_people(self, counts: Array) -> Array:
        """c_S of as many people with each x."""
        return np.asarray(counts @ self.characters / counts.sum(axis=-1, keepdims=True))

    def fitted(self, coefficients: Array) -> Array:
        """For each row of c_S a distribution of people."""
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
