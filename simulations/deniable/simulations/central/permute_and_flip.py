"""Permute and flip: a choice among candidates that is never worse than the exponential mechanism's.

Candidates are taken in random order; one that is d whole units worse than the best is accepted with
probability e^(-ε d / (2 Δ)), the best surely, and the first that is accepted is released. Δ is how
many units one person can move a candidate's count.

Privacy: as for the exponential mechanism, e^(ε/2) from a candidate's own distance and e^(ε/2) from
those of all others; the coins are exact, as ratios of whole numbers. Compared with it, the best one
is at least as likely: with k - 1 others d behind, (1 - (1 - x)^k) / (k x) against
1 / (1 + (k - 1) x), x = e^(-ε d / (2 Δ)).

Source: McKenna, Sheldon 2020, "Permute-and-flip: a new mechanism for differentially private
selection", NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.exact import Below, bernoulli_exp


@dataclass(frozen=True)
class PermuteAndFlip:
    epsilon: Epsilon
    sensitivity: int = 1

    def choose(self, counts: Sequence[int], uniform: Below) -> int:
        """The number of the chosen candidate, of those with these counts."""
        waiting, best = list(range(len(counts))), max(counts)
        numerator, denominator = self.epsilon.ratio
        shared = math.gcd(numerator, 2 * denominator * self.sensitivity)
        each, whole = numerator // shared, 2 * denominator * self.sensitivity // shared
        while True:
            candidate = waiting.pop(uniform(len(waiting)))
            behind = best - counts[candidate]
            if bernoulli_exp(each * behind, whole, uniform):
                return candidate
