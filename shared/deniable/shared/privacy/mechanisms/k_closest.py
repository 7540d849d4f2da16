"""k-closest: report one of M random directions, preferably one of the k closest to the vector.

    far   1 / (M + k (e^ε - 1))            each of the other M - k codewords
    near  (1 - (M - k) far) / k            each of the k closest codewords

The device draws a seed, independently of the vector. The seed is part of the report and stands for
M codewords (`codewords.py`). The device orders them by how far they reach along the vector.

Privacy: for every seed and every order, exactly k codewords are near and M - k are far, because
ties are broken by number. So for any two vectors the probabilities of a report differ by a factor
of at most near / far, even if the ordering is inexact. `far` is rounded up to the next multiple of
2^-64 for which k divides the remainder, so that the probabilities add up to one exactly.
Fit: any vector in the unit ball. As M grows it approaches PrivUnit, which has the least possible
error. M is the smallest power of two from 16 to 1,024 whose squared error, for a vector of length
one, is at most 2 % above that. Beyond ε 6 this would need more codewords than a device can order
quickly.

Source: Isik, Chen, Özgür, Weissman, No 2023, "Exact optimality of communication-privacy-utility
tradeoffs in distributed mean estimation", NeurIPS, with independent codewords in opposite pairs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, Self

from deniable.shared.privacy.codewords import SEED_BITS, Direction, along, best_cap, farthest
from deniable.shared.privacy.encodings import Codeword
from deniable.shared.privacy.epsilon import ONE, Epsilon, ceil_units
from deniable.shared.privacy.families.vector_design import Placed, VectorDesign
from deniable.shared.privacy.mechanism import Draw

LOW_64 = ONE - 1
CODEWORDS = tuple(2**power for power in range(4, 11))
ENOUGH = 1.02  # largest squared error, relative to the least possible
PLACE_BITS = 10  # bits for a pair's number, below its reach, so that no two keys are equal
REACH_BITS = 34  # a reach is at most 2^32
FAR = 2.0**REACH_BITS  # added so that whole numbers have the same length for every answer
KEY_BITS = REACH_BITS + PLACE_BITS


class KClosest(VectorDesign):
    name = label = "k-closest"
    given = True
    sizes = range(2, 1_025)
    proved_sizes = (2, 3, 11, 100, 1_000, 1_024)

    def __init__(
        self, epsilon: Epsilon, dimension: int, codewords: int = 0, closest: int = 0
    ) -> None:
        """Without the last two arguments, choose them so that the error is close to the least."""
        if not codewords:
            codewords, closest = _enough(epsilon, dimension)
        super().__init__(epsilon, dimension)
        self.encoding = Codeword(2 * dimension, codewords)
        self.codewords, self.closest = codewords, closest
        k = closest
        (far,) = ceil_units(*epsilon.ratio, lambda e: [1 / ((e - 1) * k + codewords)])
        while (ONE - far * (codewords - k)) % k:
            far += 1
        self.far, self.near = far, (ONE - far * (codewords - k)) // k
        self._pairs = (far, far), (self.near, far), (far, self.near)

    @classmethod
    def read(cls, epsilon: Epsilon, dimension: int, integers: Sequence[int]) -> Self:
        if len(integers) != 3 or integers[0] not in CODEWORDS:
            raise ValueError(
                f"must be three integers: the number of codewords (a power of two, {CODEWORDS[0]} "
                f"to {CODEWORDS[-1]}), how many are closest, and the probability of the others"
            )
        if not 1 <= integers[1] <= integers[0] // 2:
            raise ValueError("must count 1 to half of the codewords as the closest")
        return cls(epsilon, dimension, integers[0], integers[1])

    @property
    def integers(self) -> tuple[int, ...]:
        return self.codewords, self.closest, self.far

    def randomize(self, answer: Placed, draw: Draw) -> int:
        """Draw a report by the same operations for every vector: all codewords are ordered."""
        direction, length = answer
        roll = draw(SEED_BITS + 64 + 64)
        seed, coin, pick = roll & LOW_64, roll >> 64 & LOW_64, roll >> 128
        cumulative = list(accumulate(self._weights(seed, direction)))
        codeword = bisect_right(cumulative[:-1], pick)
        back = (coin + (ONE - length >> 1)) >> 64  # 1 with probability (1 - length) / 2
        return (codeword ^ back) << SEED_BITS | seed

    def _weights(self, seed: int, direction: Direction) -> list[int]:
        reach = along(seed, self.codewords // 2, direction)
        keys = [int(abs(t) + FAR) << PLACE_BITS | pair for pair, t in enumerate(reach)]
        least = _least_of(keys, self.closest)
        chosen = [(key >= least) << (t < 0) for key, t in zip(keys, reach, strict=True)]
        return list(chain.from_iterable(self._pairs[pair] for pair in chosen))

    def weight(self, symbol: int, answer: int) -> Fraction:
        """Return the codeword's probability given the seed, which does not depend on the answer."""
        return Fraction(_row(self, symbol & LOW_64, answer)[symbol >> SEED_BITS], ONE)

    def worst_ratio(self) -> tuple[int, int]:
        return self.near, self.far

    def is_whole(self) -> bool:
        """Return whether each row sums to one, for every order of the codewords."""
        others = self.codewords - self.closest
        return self.near * self.closest + self.far * others == ONE and 0 < self.far <= self.near

    def written_out(self) -> dict[str, Any]:
        return {
            "codewords": self.codewords,
            "closest": self.closest,
            "near": self.near,
            "far": self.far,
            "how": f"a seed stands for {self.codewords} codewords; each of the {self.closest} "
            "closest to the vector has probability near, and each of the others far",
        }


def _least_of(keys: Sequence[int], chosen: int) -> int:
    """Return the least of the `chosen` largest keys, all different, in a fixed number of steps."""
    least = 1 << KEY_BITS
    for bit in range(KEY_BITS - 1, -1, -1):
        higher = least | 1 << bit
        least = (least, higher)[sum(map(higher.__le__, keys)) >= chosen]
    return least


@lru_cache(maxsize=1)
def _row(mechanism: KClosest, seed: int, answer: int) -> list[int]:
    """Return a row for proofs by enumeration; devices never call this."""
    return mechanism._weights(seed, mechanism.answer_at(answer)[0])


@lru_cache(maxsize=64)
def _enough(epsilon: Epsilon, dimension: int) -> tuple[int, int]:
    """Return the smallest nearly optimal number of codewords, and the number of close ones."""
    from math import expm1

    best, mass = best_cap(dimension, float(epsilon))
    more = expm1(float(epsilon))

    def gain(pairs: int) -> float:
        first, _ = farthest(dimension, pairs, closest(pairs))
        return more * pairs * first / (2 * pairs + closest(pairs) * more)

    def closest(pairs: int) -> int:
        return max(1, round(pairs * mass))

    enough = (
        codewords
        for codewords in CODEWORDS
        if 1 / gain(codewords // 2) ** 2 - 1 <= ENOUGH * (1 / best**2 - 1)
    )
    codewords = next(enough, CODEWORDS[-1])
    return codewords, closest(codewords // 2)
