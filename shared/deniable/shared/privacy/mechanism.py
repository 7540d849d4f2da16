"""Base class of every mechanism: an exact local randomizer and all that is known about it.

Client, server, simulator, proofs and tests read the same object, so no code checks a mechanism's
class or name. `mechanisms/__init__.py` lists the mechanisms. Code that needs numpy is in a
`FamilyTable` of the part that needs it, whose entry for `Mechanism` is right for any mechanism.

Answers are numbered from 0: no and yes, the options of a choice, the grid points of a number, the
vectors along the axes. Probabilities follow by exact arithmetic from integers in units of 2^-64.

Randomness comes from the kernel, for every report. A `Draw` takes a number of bits, a multiple of
8, and returns a uniform whole number of that many bits. No random bytes are kept between calls:
after a fork, both processes would inherit them, and two reports with the same noise reveal their
answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from os import urandom
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import ONE, Epsilon, nearest, within

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from deniable.shared.privacy.encodings import Encoding

Draw = Callable[[int], int]

# How a report counts, given the answer and any public bits:
MULTINOMIAL: Literal["multinomial"] = "multinomial"  # in exactly one cell
INDEPENDENT: Literal["independent"] = "independent"  # in each cell or not, independently
DEPENDENT: Literal["dependent"] = "dependent"  # in several cells, dependent in some other way
SUMS: Literal["sums"] = "sums"  # in every cell, by an amount that varies
Joint = Literal["multinomial", "independent", "dependent", "sums"]

LARGEST_TABLE = 1_000_000  # largest number of probabilities that are printed

Entry = TypeVar("Entry")


def kernel_draw(bits: int) -> int:
    """Return a uniform whole number of this many bits from the operating system."""
    return int.from_bytes(urandom(bits >> 3), "little")


def random_pause() -> None:
    """Pause for a random number of microseconds, drawn from the kernel.

    Branch prediction and caches make the same operations some nanoseconds slower for some numbers
    than for others. Each answer is randomized only once, so no one can average the pauses away.
    """
    sum(range(kernel_draw(16) >> 6))


SURE = 20  # a truth that is sent this much more often than a lie leaves little doubt


class Chances(NamedTuple):
    """Probabilities of a true report and of a lie, in units of 2^-64."""

    form: str  # the sentence that states them: a key of survey/phrases.py, without "sent_"
    keep: int
    lie: int

    def values(self, says: str, answers: Sequence[str]) -> dict[str, str]:
        """Return the values of the sentence. `answers`: all possible ones, where known."""
        keep, lie, per = _times(self.keep, self.lie)
        others = [answer for answer in answers if answer != says]
        sure = self.keep > SURE * self.lie
        return {
            "form": f"sent_{self.form}",
            "other": others[0] if len(others) == 1 else "",
            "keep": keep,
            "lie": lie,
            "per": per,
            "doubt": "no_one_can_be_sure" if sure else "no_one_can_tell",
        }


def _times(keep: int, lie: int) -> tuple[str, str, str]:
    """Return two probabilities as "62 times in 100", with more digits where one is close to 0 or 1.

    >>> _times(ONE * 622 // 1000, ONE * 378 // 1000), _times(ONE - ONE // 400, ONE // 400)
    (('62', '38', '100'), ('9,975', '25', '10,000'))
    """
    rarest, per = min(keep, lie, ONE - keep, ONE - lie), 100
    while nearest(rarest * per, ONE) < (2 if per == 100 else 10):
        per *= 10
    return f"{nearest(keep * per, ONE):,}", f"{nearest(lie * per, ONE):,}", f"{per:,}"


class Mechanism(ABC):
    """Table of integers at one ε and one size, with the proof of its privacy."""

    name: ClassVar[str]
    label: ClassVar[str]  # short name for figures
    kind: ClassVar[str]  # supported kind of question: bit, number, choice, text or vector
    sizes: ClassVar[range]  # supported sizes: options, steps of a grid, a vector's dimensions
    proved_sizes: ClassVar[tuple[int, ...]]  # sizes that `certify` proves
    is_default: ClassVar[bool] = True  # whether it may be chosen where a survey names no mechanism
    given: ClassVar[bool] = False  # whether no formula gives its integers, so the survey does

    epsilon: Epsilon
    size: int
    answers: int
    encoding: Encoding
    joint: Joint  # how the cells of one report depend on each other

    @abstractmethod
    def __init__(self, epsilon: Epsilon, size: int) -> None: ...

    @classmethod
    def best_size(cls, epsilon: Epsilon) -> int:  # noqa: ARG003 # most have one size only
        """Return the size with the least error, for questions that do not fix the size."""
        return cls.sizes[0]

    @property
    @abstractmethod
    def integers(self) -> tuple[int, ...]:
        """Integers that define the mechanism, as PROTOCOL.md lists them."""

    def bias(self) -> str | None:
        """Return the reason why estimates from its reports are biased; None if none is known."""
        return None

    # Randomizing

    @abstractmethod
    def randomize(self, answer: Any, draw: Draw) -> int:  # Any: the type that `answer_at` returns
        """Return the symbol to report, from one draw of the kernel's random bits."""

    @abstractmethod
    def answer_at(self, number: int) -> Any:  # Any: a position in a range, or the number itself
        """Return the answer with this number, in the form that `randomize` takes."""

    # Probabilities

    @abstractmethod
    def weight(self, symbol: int, answer: int) -> Fraction:
        """Return the exact P[symbol | answer], given any public bits, which ignore the answer."""

    def rate(self, cell: int, answer: int) -> int:
        """Return P[a report counts in this cell | answer] to the nearest 2^-64, by enumeration."""
        return _enumerated_rates(self, answer)[cell]

    def cell_rates(self, answer: int) -> list[int]:
        return [self.rate(cell, answer) for cell in range(self.cells)]

    @abstractmethod
    def worst_ratio(self) -> tuple[int, int]:
        """Return a bound of P[symbol | one answer] / P[symbol | another], as two integers."""

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
        """Return the probabilities for anyone to check: row = answer, column = cell."""
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

        It is the root mean square over a choice's options, or that of a number's worst answer.
        """

    def n_variance(self) -> float:
        """Return n times the variance that noise and rounding add to an estimate.

        The estimate is an option's share if all shares are equal, the mean of numbers in [-1, 1] at
        the worst position, or a whole vector.
        """
        return self.predicted_error(1) ** 2

    @property
    def worst_share(self) -> float | None:
        """Share at which an estimate varies the most, as `variances` takes it."""
        return None

    def variances(self, share: float | None) -> tuple[float, float]:  # noqa: ARG002 # of most kinds
        """Return the variances of an open answer, and of the noise of its report.

        `share` of the people hold an option, or are at the high end of a range and the others at
        the low end. With None, answers are spread evenly. Units: a share, the range, or a vector.
        """
        return (self.size - 1) / self.size**2, self.n_variance()

    def floor(self, reports: int) -> float | None:  # noqa: ARG002 # only of unlisted answers
        """Return the least share at which an unlisted answer is found; None if all are listed."""
        return None

    @property
    @abstractmethod
    def leverage(self) -> float:
        """Number of honest answers that one forged report can outweigh, in each of its cells."""

    def forgery(self) -> str:
        """Return a sentence that states the leverage."""
        most = self.encoding.max_cells
        each = f", for each of up to {most:,} options" if most > 1 else ""
        return (
            f"one forged report can be worth as much as {self.leverage:,.1f} honest answers{each}"
        )

    @abstractmethod
    def explain(self, symbol: int) -> str:
        """Return how certain a report of this symbol is, for the person who sends it."""

    def chances(self, symbol: int) -> Chances | None:  # noqa: ARG002 # some have no sentence
        """Return how often this symbol is true and how often it is a lie, for a sentence.

        None: `explain` is shown instead.
        """
        return None

    # Shorthand for the encoding

    @property
    def cells(self) -> int:
        return self.encoding.cells

    @property
    def symbols(self) -> int:
        return self.encoding.limit

    @property
    def payload_size(self) -> int:
        return self.encoding.payload_size

    def cells_of(self, symbol: int) -> Iterable[int]:
        return self.encoding.cells_of(symbol)


class FamilyTable(dict[type, Entry]):
    """Table of code by family: `of` returns the entry of a mechanism's nearest base class.

    The entry for `Mechanism` must be right for every mechanism; more specific entries may be
    faster.
    """

    def of(self, mechanism: Mechanism) -> Entry:
        return next(self[base] for base in type(mechanism).__mro__ if base in self)


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
