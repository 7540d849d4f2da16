"""What every mechanism is: an exact way from an answer to a symbol.

A symbol is a whole number below `symbols`. On the wire it takes `payload_size` bytes, lowest first,
whatever the mechanism. Client, server, simulator and proof read the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.thresholds import within

if TYPE_CHECKING:
    from decimal import Decimal


class Mechanism(ABC):
    """A proven table of integers, and how much one report under it can tell."""

    name: ClassVar[str]
    kind: ClassVar[str]  # the kind of question that it answers: bit, number or choice
    epsilon: Epsilon
    symbols: int

    @property
    def payload_size(self) -> int:
        return ((self.symbols - 1).bit_length() + 7) // 8

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many counts a tally keeps for it."""

    @property
    @abstractmethod
    def integers(self) -> tuple[int, ...]:
        """The probabilities that define it, in units of 2^-64, as PROTOCOL.md lists them."""

    @abstractmethod
    def worst_ratio(self) -> tuple[int, int]:
        """The largest ratio P[symbol | one answer] / P[symbol | another], as two integers."""

    @abstractmethod
    def predicted_error(self, reports: int) -> float:
        """The standard error to expect of an estimate: for choices the root mean square over the
        options, for numbers that of the worst answers, as a share of the range."""

    @property
    @abstractmethod
    def leverage(self) -> float:
        """How many honest answers one forged report can be worth."""

    def is_private(self) -> bool:
        """Proof by integers that no report can tell two answers apart by more than e^ε."""
        return within(self.epsilon, *self.worst_ratio())

    def realised_epsilon(self) -> Decimal:
        """The logarithm of the worst ratio, to forty digits: at most ε, and next to it."""
        from decimal import Context, Decimal

        context = Context(prec=60)
        larger, smaller = self.worst_ratio()
        exact = context.ln(context.divide(Decimal(larger), Decimal(smaller)))
        return Context(prec=40).plus(exact)
