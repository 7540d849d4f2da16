"""What the contract tests need to know of a mechanism beside its own words: its exact rows."""

from collections.abc import Iterator
from functools import cache
from itertools import product

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

EPSILONS = ("0.01", "0.5", "1", "2", "8", "20")


def small_mechanisms() -> Iterator[Mechanism]:
    """Every mechanism of the table, at sizes whose rows can be written out."""
    for text in EPSILONS:
        for name, mechanism in MECHANISMS.items():
            yield from _of_all_sizes(name, mechanism.kind, Epsilon(text))


def _of_all_sizes(name: str, kind: str, epsilon: Epsilon) -> Iterator[Mechanism]:
    if kind == "bit":
        yield RandomizedResponse(epsilon)
    elif kind == "choice":
        yield from (choice_mechanism(epsilon, size, name) for size in (2, 3, 6))
    elif name == "local-laplace":
        yield from (number_mechanism(epsilon, size, name) for size in (1, 2, 3, 8, 33))
    else:
        yield number_mechanism(epsilon, None, name)


def named(mechanism: Mechanism) -> str:
    return f"{mechanism.name}-{mechanism.cells}-{mechanism.epsilon}"


@cache
def exact_rows(mechanism: Mechanism) -> list[list[int]]:
    """P[symbol | answer] for every answer and symbol, in whole units of 1 / `scale`, written out
    independently of `worst_ratio`."""
    if isinstance(mechanism, NumberTable):
        return [list(row) for row in mechanism.rows]
    assert isinstance(mechanism, SupportDesign)
    if isinstance(mechanism, Unary):
        return [_unary_row(mechanism, answer) for answer in range(mechanism.options)]
    size = range(mechanism.options)
    keep, lie = mechanism.keep, mechanism.lie
    return [[keep if symbol == answer else lie for symbol in size] for answer in size]


def scale(mechanism: Mechanism) -> int:
    """One, in the units of `exact_rows`."""
    return ONE**mechanism.options if isinstance(mechanism, Unary) else ONE


def _unary_row(mechanism: Unary, answer: int) -> list[int]:
    row = []
    for bits in product((0, 1), repeat=mechanism.options):
        weight = 1
        for option, bit in enumerate(reversed(bits)):
            weight *= mechanism.bit_rows[option == answer][bit]
        row.append(weight)
    return row


def draw_answer(mechanism: Mechanism, answer: int) -> object:
    """The mechanism's own form of an answer: for numbers, the position of a row's grid point."""
    return (answer, mechanism.steps) if isinstance(mechanism, NumberTable) else answer
