"""Vector design: a report is a codeword (a direction), more often one close to the vector.

    gain     E[<c, v>] of the reported codeword c, for a vector v of length one
    along    E[<c, v>^2], and across, E[<c, w>^2] for each w that is orthogonal to v

Codewords are uniform on the sphere, so E[c] = gain v, and c / gain is unbiased; a tally keeps the
sums of c. A shorter vector r v becomes v with probability (1 + r) / 2 and -v otherwise, which keeps
its mean. All codewords have length one: the mean squared error of a report, over all coordinates
together, is 1 / gain^2 - r^2. The mean of n reports has 1 / n of this error.

A codeword's coordinates and their squares are added in units of 2^-30. The squares give the
variance of each coordinate.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from deniable.shared.privacy.codewords import Direction, best_cap, farthest
from deniable.shared.privacy.encodings import Codeword
from deniable.shared.privacy.epsilon import ONE, Epsilon, percent
from deniable.shared.privacy.mechanism import SUMS, Chances, Mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

Placed = tuple[Direction, int]  # a vector's direction, and its length in units of 2^-64
AXIS = 2.0**32  # 1 in the units of a direction


class VectorDesign(Mechanism):
    """`near` for each of the closest codewords, `far` for each of the others."""

    kind, joint = "vector", SUMS
    encoding: Codeword
    codewords: int
    closest: int
    near: int  # the probabilities are in units of 2^-64
    far: int

    def __init__(self, epsilon: Epsilon, dimension: int) -> None:
        self.epsilon = epsilon
        self.size = self.dimension = dimension
        self.answers = 2 * dimension

    @classmethod
    @abstractmethod
    def read(cls, epsilon: Epsilon, dimension: int, integers: Sequence[int]) -> Self:
        """Return the design with the integers of a document; raise ValueError if it is invalid."""

    def answer_at(self, number: int) -> Placed:
        """Return a vector along an axis, in either direction; the mean of all answers is zero."""
        direction = [0.0] * self.dimension
        direction[number // 2] = (AXIS, -AXIS)[number % 2]
        return direction, ONE

    def rate(self, cell: int, answer: int) -> int:  # noqa: ARG002 # each report adds to all cells
        return ONE

    @cached_property
    def _moments(self) -> tuple[float, float]:
        pairs, more = self.codewords // 2, (self.near - self.far) / ONE
        first, second = farthest(self.dimension, pairs, self.closest)
        rest = self.far / ONE * self.codewords / self.dimension
        return more * pairs * first, more * pairs * second + rest

    @property
    def gain(self) -> float:
        return self._moments[0]

    @property
    def along(self) -> float:
        return self._moments[1]

    @property
    def across(self) -> float:
        return (1 - self.along) / (self.dimension - 1)

    @property
    def least_error(self) -> float:
        """Lower bound of the `whole_error` of one report, for any randomizer of this ε."""
        gain, _ = best_cap(self.dimension, float(self.epsilon))
        return 1 / gain

    def whole_error(self, reports: int) -> float:
        """Return the root mean squared length of the mean vector's error, at most."""
        return 1 / (self.gain * math.sqrt(reports))

    def n_variance(self) -> float:
        return self.whole_error(1) ** 2 - 1

    def variances(self, share: float | None) -> tuple[float, float]:  # noqa: ARG002 # any directions
        return 1.0, self.n_variance()

    def predicted_error(self, reports: int) -> float:
        """Return the error of a coordinate, as a share of its range from -1 to 1."""
        return self.whole_error(reports) / (2 * math.sqrt(self.dimension))

    @property
    def leverage(self) -> float:
        return 1 / self.gain

    def forgery(self) -> str:
        return f"one forged report can be worth as much as {self.leverage:,.1f} honest vectors"

    def chances(self, symbol: int) -> Chances:  # noqa: ARG002 # all codewords are alike here
        return Chances("direction", self.near, self.far)

    def explain(self, symbol: int) -> str:  # noqa: ARG002 # all codewords are alike here
        return (
            f"each of the {self.closest} closest of {self.codewords} random directions is reported "
            f"with {percent(self.near)}, each of the others with {percent(self.far)}"
        )
