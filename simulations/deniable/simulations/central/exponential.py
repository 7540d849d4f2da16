"""Exponential mechanism: a choice among candidates, likelier the better, by whole weights.

A candidate that is d whole units worse than a perfect one gets the weight W(d), with

    W(0) = 2^64      W(d + 1) = W(d) e^-x, rounded up      x = ε / (2 Δ)

and is chosen with probability width · W(d) / sum, where `width` is a public whole number, the
candidate's share of the base measure. Δ is how many units one person can move d.

Privacy: rounding up makes W(d) / W(d + 1) at most e^x, so moving d by at most Δ changes every
weight by a factor of at most e^(ε/2), and the sum, over which all are divided, by at most e^(ε/2)
the other way: e^ε together. That is why the weight has ε/2 and not ε. No float, whatever the data.
Rounding up ends the fall at about 1 / x units of weight: far candidates keep a probability of about
2^-64 each, which is more noise, not less.

Source: McSherry, Talwar 2007, "Mechanism design via differential privacy", FOCS; theorem 7.1 of the
lecture notes, theorems 1 and 2 of the survey among the notes (the error).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import BILLION, Epsilon
from deniable.shared.privacy.thresholds import ONE, PROOF_PRECISION, exp_interval
from deniable.simulations.central.exact import Below


@dataclass(frozen=True)
class ExponentialMechanism:
    epsilon: Epsilon
    sensitivity: int = 1

    @cached_property
    def falling(self) -> tuple[int, ...]:
        """W(0), W(1), ... until it falls no more."""
        units = exp_interval(
            self.epsilon.billionths, 2 * BILLION * self.sensitivity, PROOF_PRECISION
        ).low  # of e^x, at most
        weights = [ONE]
        while True:
            following = -((-weights[-1] << PROOF_PRECISION) // units)
            if following == weights[-1]:
                return tuple(weights)
            weights.append(following)

    def weight(self, distance: int) -> int:
        """W(d) for a candidate d units worse than a perfect one."""
        if distance < 0:
            raise WrongUse("no candidate is better than perfect: count its distance from 0 up")
        return self.falling[min(distance, len(self.falling) - 1)]

    def weights(self, distances: Sequence[int], widths: Sequence[int] | None = None) -> list[int]:
        """The probability of each candidate is its weight divided by the sum of all."""
        widths = widths if widths is not None else [1] * len(distances)
        return [w * self.weight(d) for d, w in zip(distances, widths, strict=True)]

    def choose(
        self, distances: Sequence[int], uniform: Below, widths: Sequence[int] | None = None
    ) -> int:
        """The number of the chosen candidate."""
        cumulative = list(accumulate(self.weights(distances, widths)))
        return bisect_right(cumulative, uniform(cumulative[-1]))
