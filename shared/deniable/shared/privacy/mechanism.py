"""Base class of every mechanism: an exact local randomizer and all that is known about it.

Client, server, simulator, proofs and tests read the same object, so no code checks a mechanism's
class or name. `mechanisms/__init__.py` lists the mechanisms. What needs numpy stands in a
`FamilyTable` of the part that needs it, whose entry for `Mechanism` is right for any mechanism.

Answers are numbered from 0: no and yes, the options of a choice, the grid points of a number. Of
vectors, of which there are infinitely many, those along the axes are numbered. Probabilities follow
by exact arithmetic from integers in units of 2^-64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.encodings import Encoding
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.randomness import Draw
from deniable.shared.privacy.thresholds import ONE, nearest, within

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

# Given the answer and any public bits, a report counts
MULTINOMIAL: Literal["multinomial"] = "multinomial"  # in exactly one cell
INDEPENDENT: Literal["independent"] = "independent"  # in each cell or not, independently
DEPENDENT: Literal["dependent"] = "dependent"  # in several cells, dependent in some other way
SUMS: Literal["sums"] = "sums"  # in every cell, by an amount that varies
Joint = Literal["multinomial", "independent", "dependent", "sums"]

LARGEST_TABLE = 1_000_000  # probabilities that are printed

Entry = TypeVar("Entry")


class Mechanism(ABC):
    """A proven table of integers at one ε and one size."""

    name: ClassVar[str]
    label: ClassVar[str]  # in figures, where there is little room
    kind: ClassVar[str]  # the kind of question that it answers: bit, number, choice, text or vector
    sizes: ClassVar[range]  # supported sizes: options, steps of a grid, a vector's dimensions
    proved_sizes: ClassVar[tuple[int, ...]]  # at which `certify` proves it
    chosen_by_itself: ClassVar[bool] = True  # where a survey names no mechanism
    given: ClassVar[bool] = False  # its integers stand in the survey: no formula gives them

    epsilon: Epsilon
    size: int
    answers: int
    encoding: Encoding
    joint: Joint  # how the cells of one report depend on each other

    @abstractmethod
    def __init__(self, epsilon: Epsilon, size: int) -> None: ...

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:  # noqa: ARG003 # most have one size only
        """Return the size of least error, for questions that do not fix it."""
        return cls.sizes[0]

    @property
    @abstractmethod
    def integers(self) -> tuple[int, ...]:
        """The integers that define it, as PROTOCOL.md lists them."""

    def bias(self) -> str | None:
        """Return why estimates from its reports are biased, or None.

        None also where the family does not know.
        """
        return None

    # Randomizing

    @abstractmethod
    def randomize(self, answer: Any, draw: Draw) -> int:  # Any: as `answer_at` has it
        """Return the symbol to report, from one draw of the kernel's random bits."""

    @abstractmethod
    def answer_at(self, number: int) -> Any:  # Any: a place in a range, or the number itself
        """Return the answer with this number, in the form that `randomize` takes."""

    # Probabilities

    @abstractmethod
    def weight(self, symbol: int, answer: int) -> Fraction:
        """Return P[symbol | answer] exactly, given any public bits: they do not depend on it."""

    def rate(self, cell: int, answer: int) -> int:
        """Return P[a report counts in this cell | answer] to the nearest 2^-64.

        By enumeration of all symbols; families override it with a formula.
        """
        return _enumerated_rates(self, answer)[cell]

    def cell_rates(self, answer: int) -> list[int]:
        """Return the rate of every cell for one answer."""
        return [self.rate(cell, answer) for cell in range(self.cells)]

    @abstractmethod
    def worst_ratio(self) -> tuple[int, int]:
        """Return the largest P[symbol | one answer] / P[symbol | another], or slightly more.

        It is a numerator and a denominator.
        """

    @abstractmethod
    def is_whole(self) -> bool:
        """Return whether every row sums to one and no symbol is impossible."""

    def is_private(self) -> bool:
        """Prove by integers that no report distinguishes two answers by more than e^ε."""
        return within(self.epsilon, *self.worst_ratio())

    def realised_epsilon(self) -> Decimal:
        """Return the logarithm of the worst ratio to forty digits: at most ε, and close to it."""
        return log_ratio(*self.worst_ratio())

    def written_out(self) -> dict[str, Any]:  # Any: JSON
        """Return its probabilities for anyone to check: row = answer, column = cell."""
        if self.answers * self.encoding.cells > LARGEST_TABLE:
            raise WrongUse(
                f"a table of {self.answers} × {self.encoding.cells} cells is too large to print: "
                f"at most {LARGEST_TABLE:,} are printed; ask for fewer options"
            )
        return {"rows": [self.cell_rates(answer) for answer in range(self.answers)]}

    # Errors

    @abstractmethod
    def predicted_error(self, reports: int) -> float:
        """Return the expected standard error of an estimate, as a share of the range.

        For choices it is the root mean square over the options, for numbers and coordinates that of
        the worst answers.
        """

    def n_variance(self) -> float:
        """Return n times the variance that noise and rounding add.

        To an option's share where all shares are alike, to the mean of numbers in [-1, 1] at the
        worst place, or to a whole vector.
        """
        return self.predicted_error(1) ** 2

    @property
    def answer_variance(self) -> float:
        """Variance of a direct answer where answers are spread evenly, in units of `n_variance`."""
        return (self.size - 1) / self.size**2

    def floor(self, reports: int) -> float | None:  # noqa: ARG002 # only of unlisted answers
        """Return the share from which on an unlisted answer is found; None where all are listed."""
        return None

    @property
    @abstractmethod
    def leverage(self) -> float:
        """Number of honest answers that one forged report can be worth, in each of its cells."""

    def forgery(self) -> str:
        """Return a sentence that states the leverage."""
        most = self.encoding.most_cells
        each = f", for each of up to {most:,} options" if most > 1 else ""
        return (
            f"one forged report can be worth as much as {self.leverage:,.1f} honest answers{each}"
        )

    @abstractmethod
    def explain(self, symbol: int) -> str:
        """Return how certain a report of this symbol is, for the person who sends it."""

    # Shorthand for the encoding

    @property
    def cells(self) -> int:
        """Number of counts that a tally keeps for it."""
        return self.encoding.cells

    @property
    def symbols(self) -> int:
        """Upper bound of the symbols: each is below it."""
        return self.encoding.limit

    @property
    def payload_size(self) -> int:
        return self.encoding.payload_size

    def cells_of(self, symbol: int) -> Iterable[int]:
        """Return the cells that a report of this symbol counts in."""
        return self.encoding.cells_of(symbol)


class FamilyTable(Mapping[type, Entry], Generic[Entry]):
    """Entries of one part of the program for each family of mechanisms, by the family's class.

    `of` returns the entry of the mechanism's class or of its nearest base. The entry for
    `Mechanism` must be right for every mechanism; the others may be faster.
    """

    def __init__(self, entries: Mapping[type, Entry]) -> None:
        self._entries = entries

    def __getitem__(self, family: type) -> Entry:
        return self._entries[family]

    def __iter__(self) -> Iterator[type]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, mechanism: Mechanism) -> Entry:
        bases = type(mechanism).__mro__
        return next(self._entries[base] for base in bases if base in self._entries)


def log_ratio(larger: int, smaller: int) -> Decimal:
    """Return the logarithm of a ratio to forty digits."""
    from decimal import Context, Decimal

    context = Context(prec=60)
    exact = context.ln(context.divide(Decimal(larger), Decimal(smaller)))
    return Context(prec=40).plus(exact)


@lru_cache(maxsize=256)
def _enumerated_rates(mechanism: Mechanism, answer: int) -> tuple[int, ...]:
    from fractions import Fraction

    rates = [Fraction(0)] * mechanism.cells
    for symbol in mechanism.encoding.symbols():
        probability = mechanism.weight(symbol, answer)
        for cell in mechanism.cells_of(symbol):
            rates[cell] += probability
    return tuple(nearest(rate.numerator * ONE, rate.denominator) for rate in rates)
