"""Noise for m counts at once, of which one person moves each by at most 1: a cube's, whole numbers.

    P[v] proportional to e^(-ε max |v_i|)

Privacy: one person moves the counts by a vector whose largest entry is at most 1, so by the
triangle inequality no probability changes by more than a factor of e^ε, and there is one sum for
all places. Independent noise on each count has to be for m times as much, as it adds up what each
moves.

A cube of half side R with probability proportional to (2 R + 1)^m e^(-ε R), and a place in it that
is uniform, have this distribution: (1 - e^-ε) e^(-ε R) adds up to e^(-ε r) over R >= r. The
variance of each count is E R (R + 1) / 3, for small ε (m + 1) (m + 2) / (3 ε^2): six times less
than 2 m^2 / ε^2 where m is large. For one count it is discrete Laplace noise.

Source: Hardt, Talwar 2010, "On the geometry of differential privacy", STOC, of the cube.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon

SPREAD = 40.0  # of the radius' decays, and standard deviations: beyond is less than 1e-16


@dataclass(frozen=True)
class CubeNoise:
    epsilon: Epsilon
    counts: int

    @cached_property
    def radii(self) -> NDArray[np.float64]:
        """The probability of each half side 0, 1, ..., nearly all of them."""
        e, m = float(self.epsilon), self.counts
        last = int((m + SPREAD * (1 + m**0.5)) / e) + 2
        logs = m * np.log1p(2 * np.arange(last + 1)) - e * np.arange(last + 1)
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def variance(self) -> float:
        """Of each count."""
        r = np.arange(len(self.radii))
        return float(self.radii @ (r * (r + 1.0)) / 3)

    def drawn(self, times: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """A line of counts for each repetition: drawn by doubles, a simulation of it."""
        below = np.cumsum(self.radii)
        r = np.searchsorted(below, generator.uniform(0, below[-1], times), side="right")
        return generator.integers(-r[:, None], r[:, None] + 1, (times, self.counts))
