"""Prove every mechanism's ε by exact integer arithmetic, and print the integers for all to check.

For each mechanism of the table, over a grid of ε and the sizes that it names: every row sums to
one, no probability is zero, and the largest ratio of any column is at most e^ε, by a lower bound
of e^ε from interval arithmetic. Where a full table would be too large the mechanism uses its
structure: two different probabilities in a column of k-ary randomized response, two bits that
differ in unary encoding, sets with and without an option in subset selection, codewords that are
near and far in k-closest, which hold for every seed and every order of the codewords.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism, log_ratio
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.thresholds import within

MAX_COMPARED = 10_000  # probabilities of a table whose rows are compared
EPSILONS = (
    "0.01",
    "0.05",
    "0.1",
    "0.3",
    "0.5",
    "0.7",
    "1",
    "1.386",
    "2",
    "3",
    "4",
    "5",
    "8",
    "12",
    "16",
    "20",
)


@dataclass(frozen=True)
class Certificate:
    mechanism: str
    size: int
    epsilon: Epsilon
    realised: Decimal
    holds: bool

    @property
    def loss(self) -> Decimal:
        """The ε that is left unused; a negative number would be an excess."""
        return Decimal(str(self.epsilon)) - self.realised


def certify(mechanism: Mechanism) -> Certificate:
    """Prove one mechanism.

    The comparison is of integers; the decimal next to it is only for reading.
    """
    holds = mechanism.is_private() and mechanism.is_whole()
    realised = mechanism.realised_epsilon()
    return Certificate(mechanism.name, mechanism.size, mechanism.epsilon, realised, holds)


def refusal(mechanism: Mechanism) -> str | None:
    """Return why this mechanism must not be used; None if its ε is proved.

    Besides what the mechanism states, its rows are compared, where they are few enough.
    """
    larger, smaller = max(
        _ratios(mechanism), key=lambda ratio: Fraction(*ratio) if ratio[1] else inf
    )
    if not smaller:
        return f"{mechanism.name} is private at no ε: some report can come from one answer only"
    if not within(mechanism.epsilon, larger, smaller):
        spent = log_ratio(larger, smaller)
        times = spent / Decimal(str(mechanism.epsilon))
        return (
            f"{mechanism.name} gives away {_excess(times)} times its ε of {mechanism.epsilon}: two "
            f"answers' probabilities of one report differ by a factor of e^{spent:.4g}"
        )
    if not mechanism.is_whole():
        return f"{mechanism.name} is no mechanism: a row of its table does not sum to one"
    return None


def _ratios(mechanism: Mechanism) -> Iterator[tuple[int, int]]:
    yield mechanism.worst_ratio()
    symbols = mechanism.symbols >> mechanism.encoding.public_bits
    if symbols * mechanism.answers > MAX_COMPARED:
        return
    for symbol in mechanism.encoding.symbols():
        column = [mechanism.weight(symbol, answer) for answer in range(mechanism.answers)]
        larger, smaller = max(column), min(column)
        yield larger.numerator * smaller.denominator, smaller.numerator * larger.denominator


def _size(ratio: tuple[int, int]) -> Fraction | float:
    return Fraction(*ratio) if ratio[1] else inf


def _excess(times: Decimal) -> str:
    """Two decimals, or as many as show that it is more than 1."""
    return f"{times:.2f}" if times >= Decimal("1.01") else f"1 + {times - 1:.1e}"


def grid() -> Iterator[Mechanism]:
    """Yield every mechanism at each ε from 1/100 to 20 and each size that it names."""
    for text in EPSILONS:
        for mechanism in mechanisms().values():
            for size in mechanism.proved_sizes:
                yield mechanism(Epsilon(text), size)


def table(mechanism: Mechanism) -> dict[str, Any]:
    """Return the integers as JSON: row = answer, column = symbol, in units of 2^-64."""
    return {
        "mechanism": mechanism.name,
        "epsilon": str(mechanism.epsilon),
        "realised_epsilon": str(mechanism.realised_epsilon()),
        "holds": certify(mechanism).holds,
        "unit": "2**-64",
        **mechanism.written_out(),
    }
