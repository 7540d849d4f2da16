"""Private quantile: a point of a public grid, likelier the fewer people would have to move.

Of n answers on grid points 0 .. steps, point t is d(t) people away from being an α-quantile:

    d(t) = max(0, #{below t} - α n, α n - #{at most t})

It is 0 at every true quantile, also where many people hold the same answer, and one person who
answers otherwise changes it by at most 1. The exponential mechanism then chooses with weights
e^(-ε d / 2). α is a ratio of whole numbers, so distances are whole in units of its denominator.

Privacy: that of the exponential mechanism. The sampler printed in the lecture notes (algorithm 4)
has e^(-ε d), twice too steep: only 2ε-private, which a test shows on neighbours of a few people.
Error: the chosen point is at least r people away with probability at most
(number of points) e^(-ε r / 2).

Source: algorithms 3 and 4 and theorem 7.6 of the lecture notes, the weight as in algorithm 3; Smith
2011, "Privacy-preserving statistical estimation with optimal convergence rates", STOC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.exact import Below
from deniable.simulations.central.exponential import ExponentialMechanism


@dataclass(frozen=True)
class PrivateQuantile:
    """The `numerator` / `denominator` quantile; the median where nothing is said."""

    epsilon: Epsilon
    numerator: int = 1
    denominator: int = 2

    @cached_property
    def mechanism(self) -> ExponentialMechanism:
        return ExponentialMechanism(self.epsilon, self.denominator)

    def distances(self, people: Sequence[int]) -> list[int]:
        """d(t) for each grid point, in units of 1 / denominator, from the people at each."""
        upto = list(accumulate(people))
        wanted = self.numerator * upto[-1]
        return [
            max(
                0, (at_most - here) * self.denominator - wanted, wanted - at_most * self.denominator
            )
            for here, at_most in zip(people, upto, strict=True)
        ]

    def weights(self, people: Sequence[int]) -> list[int]:
        return self.mechanism.weights(self.distances(people))

    def choose(self, people: Sequence[int], uniform: Below) -> int:
        """The released grid point."""
        return self.mechanism.choose(self.distances(people), uniform)
