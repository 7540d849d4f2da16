"""Prove every mechanism's ε by exact integer arithmetic, and print the integers for all to check.

For each mechanism over a grid of (ε, size): every row sums to 2^64, no probability is zero, and
the largest ratio of any column is at most e^ε, by a lower bound of e^ε from interval arithmetic.
Where a full table would be too large its structure is used: two different probabilities in a
column of k-ary randomized response, two bits that differ in unary encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import (
    MECHANISMS,
    RandomizedResponse,
    choice_mechanism,
    number_mechanism,
)
from deniable.shared.privacy.mechanisms.unary import Unary
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

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
OPTIONS = (2, 3, 5, 16, 100, 1_024, 8_192, 65_536)
STEPS = (1, 2, 3, 8, 64, 100, 255)
LARGEST_TABLE = 1_000_000  # cells that are printed


@dataclass(frozen=True)
class Certificate:
    mechanism: str
    size: int
    epsilon: Epsilon
    realised: Decimal
    holds: bool

    @property
    def loss(self) -> Decimal:
        """How much less than ε is given away; negative would be an excess."""
        return Decimal(str(self.epsilon)) - self.realised


def certify(mechanism: Mechanism, size: int) -> Certificate:
    """One proof. The comparison is of integers; the decimal beside it is only for reading."""
    holds = mechanism.is_private() and _is_a_table(mechanism)
    return Certificate(mechanism.name, size, mechanism.epsilon, mechanism.realised_epsilon(), holds)


def grid() -> Iterator[tuple[Mechanism, int]]:
    """Every mechanism, from ε 1/100 to 20 and to 65,536 options or 255 steps."""
    for text in EPSILONS:
        epsilon = Epsilon(text)
        yield RandomizedResponse(epsilon), 2
        for options in OPTIONS:
            for name in ("k-randomized-response", "unary"):
                yield choice_mechanism(epsilon, options, name), options
        for name, mechanism in MECHANISMS.items():
            if mechanism.kind == "number":
                for steps in STEPS if name == "local-laplace" else (None,):
                    yield number_mechanism(epsilon, steps, name), steps or 1


def build(
    kind: str, epsilon: Epsilon, name: str | None, options: int, grid: int | None
) -> Mechanism:
    """The mechanism that a question of this kind would have."""
    if name is not None and (name not in MECHANISMS or MECHANISMS[name].kind != kind):
        known = ", ".join(n for n, m in MECHANISMS.items() if m.kind == kind)
        raise WrongUse(f"--mechanism for a {kind} is one of {known}; got {name}")
    if kind == "bit":
        return RandomizedResponse(epsilon)
    if kind == "choice":
        return choice_mechanism(epsilon, options, name)
    return number_mechanism(epsilon, grid, name)


def table(mechanism: Mechanism) -> dict[str, Any]:
    """The integers themselves, as JSON: row = answer, column = symbol, in units of 2^-64."""
    head = {
        "mechanism": mechanism.name,
        "epsilon": str(mechanism.epsilon),
        "realised_epsilon": str(mechanism.realised_epsilon()),
        "unit": "2**-64",
    }
    if isinstance(mechanism, Unary):
        return head | {
            "bit_rows": mechanism.bit_rows,
            "how": f"{mechanism.options} bits, each drawn on its own: the answer's bit by the "
            "second row, every other by the first (columns: clear, set); the probability of a "
            "report is the product over its bits",
        }
    if mechanism.symbols**2 > LARGEST_TABLE:
        raise WrongUse(
            f"a table of {mechanism.symbols}² cells is not printed, at most {LARGEST_TABLE:,} are; "
            "ask for fewer options"
        )
    return head | {"rows": _rows(mechanism)}


def _rows(mechanism: Mechanism) -> list[list[int]]:
    if isinstance(mechanism, NumberTable):
        return [list(row) for row in mechanism.rows]
    assert isinstance(mechanism, SupportDesign)
    stay, other = mechanism.keep, mechanism.lie
    size = range(mechanism.options)
    return [[stay if symbol == answer else other for symbol in size] for answer in size]


def _is_a_table(mechanism: Mechanism) -> bool:
    """Rows sum to 2^64 and every symbol is possible for every answer."""
    if isinstance(mechanism, NumberTable):
        return all(sum(row) == ONE and min(row) > 0 for row in mechanism.rows)
    if isinstance(mechanism, Unary):
        return all(sum(row) == ONE and min(row) > 0 for row in mechanism.bit_rows)
    assert isinstance(mechanism, SupportDesign)
    others = (mechanism.options - 1) * mechanism.lie
    return mechanism.keep + others == ONE and min(mechanism.keep, mechanism.lie) > 0
