"""What every mechanism is: an exact local randomizer, and all that is known of it.

One object says everything, so that nobody asks for its class or name: client, server, simulator,
proof and tests read the same one. The table `mechanisms/__init__.py` lists them.

Answers are numbered from 0: no and yes, the options of a choice, the grid points of a number; of
vectors, which have no end, those along the axes.
Probabilities follow by exact arithmetic from integers in units of 2^-64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.encoding import Encoding
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import within

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

# Given the answer, and its public bits if it has some, a report counts
MULTINOMIAL: Literal["multinomial"] = "multinomial"  # in exactly one cell
INDEPENDENT: Literal["independent"] = "independent"  # in each cell or not, independently
DEPENDENT: Literal["dependent"] = "dependent"  # in several at once, in some other way
SUMS: Literal["sums"] = "sums"  # in all of them, each time by another amount
Joint = Literal["multinomial", "independent", "dependent", "sums"]

LARGEST_TABLE = 1_000_000  # probabilities that are printed


class Mechanism(ABC):
    """A proven table of integers at one ε and one size."""

    name: ClassVar[str]
    label: ClassVar[str]  # in figures, where there is little room
    kind: ClassVar[str]  # the kind of question that it answers: bit, number, choice or vector
    sizes: ClassVar[range]  # that it takes: options, steps of a grid, a vector's dimensions
    proved_sizes: ClassVar[tuple[int, ...]]  # at which `certify` proves it
    chosen_by_itself: ClassVar[bool] = True  # where a survey names no mechanism
    given: ClassVar[bool] = False  # its integers come with the survey: no formula has them

    epsilon: Epsilon
    size: int
    answers: int
    encoding: Encoding
    joint: Joint  # how the cells of one report depend on each other

    @abstractmethod
    def __init__(self, epsilon: Epsilon, size: int) -> None: ...

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:  # noqa: ARG003 # most have one size only
        """The size where nothing else decides it: the one of least error."""
        return cls.sizes[0]

    @property
    @abstractmethod
    def integers(self) -> tuple[int, ...]:
        """The integers that define it, as PROTOCOL.md lists them."""

    # What it does

    @abstractmethod
    def randomize(self, answer: Any, draw: Draw) -> int:  # Any: as `answer_at` has it
        """Client: the symbol to report, from one draw of the kernel's random bits."""

    @abstractmethod
    def answer_at(self, number: int) -> Any:  # Any: a place in a range, or the number itself
        """The answer with this number, in the form that `randomize` takes."""

    # What is known of it

    @abstractmethod
    def weight(self, symbol: int, answer: int) -> Fraction:
        """P[symbol | answer], exactly; given the public bits, which do not depend on the answer."""

    @abstractmethod
    def rate(self, cell: int, answer: int) -> int:
        """P[a report counts in this cell | answer] in units of 2^-64, to the nearest."""

    @abstractmethod
    def worst_ratio(self) -> tuple[int, int]:
        """The largest ratio P[symbol | one answer] / P[symbol | another] or a little more, as
        numerator and denominator."""

    @abstractmethod
    def is_whole(self) -> bool:
        """Whether every row sums to one and leaves nothing impossible."""

    @abstractmethod
    def predicted_error(self, reports: int) -> float:
        """The standard error to expect of an estimate: for choices the root mean square over the
        options, for numbers and coordinates that of the worst answers, as a share of the range."""

    @property
    @abstractmethod
    def leverage(self) -> float:
        """How many honest answers one forged report can be worth, in each cell it counts in."""

    def forgery(self) -> str:
        """The leverage in words."""
        most = self.encoding.most_cells
        each = f", for each of up to {most:,} options" if most > 1 else ""
        return (
            f"one forged report can be worth as much as {self.leverage:,.1f} honest answers{each}"
        )

    @abstractmethod
    def explain(self, symbol: int) -> str:
        """How far a report of this symbol can be believed, for the person who sends it."""

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

    def written_out(self) -> dict[str, Any]:  # Any: JSON
        """Its probabilities for anyone to check: row = answer, column = symbol."""
        if self.answers * self.encoding.cells > LARGEST_TABLE:
            raise WrongUse(
                f"a table of {self.answers} × {self.encoding.cells} cells is too large to print: "
                f"at most {LARGEST_TABLE:,} are printed; ask for fewer options"
            )
        return {"rows": [self._rates(answer) for answer in range(self.answers)]}

    def _rates(self, answer: int) -> list[int]:
        return [self.rate(cell, answer) for cell in range(self.encoding.cells)]

    # Short for what the encoding says

    @property
    def cells(self) -> int:
        """How many counts a tally keeps for it."""
        return self.encoding.cells

    @property
    def symbols(self) -> int:
        """Every symbol is below it."""
        return self.encoding.limit

    @property
    def payload_size(self) -> int:
        return self.encoding.payload_size

    def cells_of(self, symbol: int) -> Iterable[int]:
        """The cells that a report of this symbol counts in."""
        return self.encoding.cells_of(symbol)
