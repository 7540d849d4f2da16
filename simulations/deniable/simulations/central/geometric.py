"""Geometric mechanism: whole counts plus discrete Laplace noise, each count on its own.

One person moves the counts by at most Δ altogether. For a histogram Δ is 1 where a neighbour is one
person more or fewer, and 2 where it is one person with another answer, as in every local model:
leaving one bin and entering another. The second is what a comparison at the same ε must use. For a
single count of people who say yes Δ is 1 in both.

Privacy: the probabilities of d released counts multiply, so they change by a factor of at most
e^(ε (sum of moves) / Δ). Error: the largest of d errors exceeds ceil((Δ / ε) ln(d / δ)) with
probability at most δ. Without the ceiling, as it is often printed, that is false: noise is whole
and the radius is not.

Source: theorem 2.8 of the notes on geometric noise, its radius corrected; Ghosh, Roughgarden,
Sundararajan 2009, "Universally utility-maximizing privacy mechanisms", STOC.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from deniable.server.planning.trusted import share_variance
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.discrete_laplace import DiscreteLaplace
from deniable.simulations.central.exact import Below


@dataclass(frozen=True)
class GeometricCounts:
    """Counts of people by bin; `sensitivity` is how far one person moves them altogether."""

    epsilon: Epsilon
    sensitivity: int = 1

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon, self.sensitivity)

    def release(self, counts: Sequence[int], uniform: Below) -> tuple[int, ...]:
        """The counts, each with its own noise: may be negative, and need not add up."""
        return tuple(count + self.noise.sample(uniform) for count in counts)

    def variance(self, people: int) -> float:
        """Of one bin's share of this many people, whose number is public."""
        return share_variance(self.epsilon, people, self.sensitivity)

    def radius(self, bins: int, failure: float) -> int:
        """Some count is further off than this with probability at most `failure`."""
        return math.ceil(self.sensitivity / float(self.epsilon) * math.log(bins / failure))
