"""Central mean: the sum of everybody's grid position plus discrete Laplace noise, over the people.

Every number is put on a public grid of `steps` steps over its range, as on a device, so that the
sum is a whole number; one person who answers otherwise moves it by at most `steps`. Coarse grids
cost rounding noise, (x - a)(b - x) each, that shrinks with the people; a fine grid costs nothing.

Privacy: discrete Laplace noise for a sensitivity of `steps`. The number of people is public, so a
neighbour is one person with another answer; where people can be added, n itself would be private.
Variance: as a share of the range, 2 a / (a - 1)^2 / (n steps)^2 with a = e^(ε / steps): from below
2 / (n ε)^2, Laplace's, which it reaches with fine grids.

Source: the Laplace mechanism for a mean with sensitivity (high - low) / n of the notes, on a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from deniable.server.planning.trusted import FINE, mean_variance
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.discrete_laplace import DiscreteLaplace
from deniable.simulations.central.exact import Below


@dataclass(frozen=True)
class BoundedMean:
    epsilon: Epsilon
    steps: int = FINE

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon, self.steps)

    def release(self, positions: Sequence[int], uniform: Below) -> Fraction:
        """The mean as a share of the range, exactly: the noisy whole sum, divided."""
        total = sum(min(max(position, 0), self.steps) for position in positions)
        return Fraction(total + self.noise.sample(uniform), len(positions) * self.steps)

    def variance(self, people: int) -> float:
        """Of the mean as a share of the range, the grid positions given."""
        return mean_variance(self.epsilon, people, self.steps)
