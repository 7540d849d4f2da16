"""Small mechanisms of every class in the table, with rows that can be enumerated."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms

EPSILONS = ("0.01", "0.5", "1", "2", "8", "20")
SIZES = (1, 2, 3, 6, 8, 33)
MAX_SYMBOLS, MAX_ANSWERS = 256, 64
SEEDS = 0, 1, 2**64 - 1  # values for a symbol's public bits, if it has any
MAX_GROUP_SYMBOLS = 64


def small_mechanisms(listed: Iterable[type[Mechanism]] = ()) -> Iterator[Mechanism]:
    """Return small mechanisms of every class in the table, or of these classes."""
    for text in EPSILONS:
        for mechanism in listed or mechanisms().values():
            for size in mechanism.proved_sizes if mechanism.given else SIZES:
                if size in mechanism.sizes:
                    made = mechanism(Epsilon(text), size)
                    if _is_small(made):
                        yield made


def _is_small(mechanism: Mechanism) -> bool:
    """Return True if the mechanism has few enough symbols to enumerate."""
    if isinstance(mechanism, GroupedDesign):
        return mechanism.each.symbols <= MAX_GROUP_SYMBOLS
    return given_a_seed(mechanism) <= MAX_SYMBOLS and mechanism.answers <= MAX_ANSWERS


def for_each(
    mechanisms: Iterable[Mechanism],
) -> Callable[[Callable[[Any], None]], Callable[[str], None]]:
    """Parametrize one test over all mechanisms, grouped by name.

    Thousands of separate tests would cost more than the checks themselves. The note on a failure
    names the mechanism.
    """
    by_name = defaultdict[str, list[Mechanism]](list)
    for mechanism in mechanisms:
        by_name[mechanism.name].append(mechanism)

    def made(test: Callable[[Any], None]) -> Callable[[str], None]:
        @pytest.mark.parametrize("name", by_name)
        def of_all(name: str) -> None:
            for mechanism in by_name[name]:
                try:
                    test(mechanism)
                except BaseException as error:
                    error.add_note(f"of {named(mechanism)}")
                    raise

        return of_all

    return made


def named(mechanism: Mechanism) -> str:
    return f"{mechanism.name}-{mechanism.size}-{mechanism.epsilon}"


def given_a_seed(mechanism: Mechanism) -> int:
    """Return the number of symbols for fixed public bits."""
    return mechanism.symbols >> mechanism.encoding.public_bits


def seeds(mechanism: Mechanism) -> tuple[int, ...]:
    """Return sample values for a symbol's public bits, or a single value if it has none."""
    return SEEDS if mechanism.encoding.public_bits else SEEDS[:1]


@cache
def exact_rows(mechanism: Mechanism, seed: int = 0) -> list[list[Fraction]]:
    """Return P[symbol | answer] for every answer and symbol, from each symbol's probability."""
    symbols = [symbol | seed for symbol in mechanism.encoding.symbols()]
    return [
        [mechanism.weight(symbol, answer) for symbol in symbols]
        for answer in range(mechanism.answers)
    ]
