"""Private choices of a trusted server: the exponential mechanism, and quantiles.

Both weigh candidates with whole numbers, so no float depends on the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from deniable.shared.privacy.epsilon import BILLION, ONE, PROOF_PRECISION, Epsilon, exp_interval


@dataclass(frozen=True)
class ExponentialMechanism:
    """Choice among candidates, in which better candidates are more likely.

    A candidate that is d whole units worse than a perfect one gets the weight W(d), with

        W(0) = 2^64      W(d + 1) = W(d) e^-x, rounded up      x = ε / (2 Δ)

    and is chosen with probability width · W(d) / sum, where the public whole number `width` is the
    candidate's share of the base measure. One person can move d by at most Δ units.

    Privacy: rounding up makes W(d) / W(d + 1) at most e^x. So moving d by at most Δ changes every
    weight by a factor of at most e^(ε/2). The sum of the weights may change by as much the other
    way, which makes e^ε in total. That is why the weight has ε/2 and not ε. Rounding up stops the
    decrease at a weight of about 1 / x, so distant candidates keep a probability of about 2^-64
    each, which is more noise, not less.

    Source: McSherry, Talwar 2007, "Mechanism design via differential privacy", FOCS; theorem 7.1 of
    the lecture notes, theorems 1 and 2 of the survey among the notes (the error).
    """

    epsilon: Epsilon
    sensitivity: int = 1

    @cached_property
    def falling(self) -> tuple[int, ...]:
        """Weights W(0), W(1), ... up to the last that is smaller than the one before."""
        units = exp_interval(
            self.epsilon.billionths, 2 * BILLION * self.sensitivity, PROOF_PRECISION
        ).low  # lower end of e^x
        weights = [ONE]
        while True:
            following = -((-weights[-1] << PROOF_PRECISION) // units)
            if following == weights[-1]:
                return tuple(weights)
            weights.append(following)

    def weight(self, distance: int) -> int:
        """Return W(d) for a candidate d units worse than a perfect one."""
        return self.falling[min(distance, len(self.falling) - 1)]

    def weights(self, distances: Sequence[int], widths: Sequence[int] | None = None) -> list[int]:
        """Return a weight for each candidate, whose probability is its share of their sum."""
        widths = widths if widths is not None else [1] * len(distances)
        return [w * self.weight(d) for d, w in zip(distances, widths, strict=True)]


@dataclass(frozen=True)
class PrivateQuantile:
    """Quantile of answers on a public grid; the median by default.

    Of n answers on grid points 0 .. steps, point t is d(t) people away from being an α-quantile:

        d(t) = max(0, #{below t} - α n, α n - #{at most t})

    It is 0 at every true quantile, even if many people hold the same answer, and one person's
    answer changes it by at most 1. The exponential mechanism then chooses with weights
    e^(-ε d / 2). α is `numerator` / `denominator`, so distances are whole numbers in units of
    1 / denominator.

    Privacy: as for the exponential mechanism. The sampler printed in the lecture notes (algorithm
    4) has e^(-ε d), so it is only 2ε-private, which a test shows for a few people. Error: the
    chosen point is at least r people away with probability at most (number of points) e^(-ε r / 2).

    Source: algorithms 3 and 4 and theorem 7.6 of the lecture notes, the weight as in algorithm 3;
    Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates", STOC.
    """

    epsilon: Epsilon
    numerator: int = 1
    denominator: int = 2

    @cached_property
    def mechanism(self) -> ExponentialMechanism:
        return ExponentialMechanism(self.epsilon, self.denominator)

    def distances(self, people: Sequence[int]) -> list[int]:
        """Return d(t) for each grid point, in units of 1 / denominator, from the people at each."""
        cumulative = list(accumulate(people))
        wanted = self.numerator * cumulative[-1]
        return [
            max(0, (up_to - at) * self.denominator - wanted, wanted - up_to * self.denominator)
            for at, up_to in zip(people, cumulative, strict=True)
        ]

    def weights(self, people: Sequence[int]) -> list[int]:
        return self.mechanism.weights(self.distances(people))
